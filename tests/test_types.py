"""Public signatures say which arrays go in and come out, and what they say is so."""

import inspect
import runpy
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import jax
import numpy as np
import pytest

import kinetree as kt
from kinetree import _types

ARM = """<mujoco><worldbody><body pos="0 0 1"><freejoint/><geom size="0.1"/>
<body><joint name="j" damping="1"/><geom size="0.1" pos="0.3 0 0"/></body></body></worldbody>
<tendon><fixed name="t"><joint joint="j" coef="2"/></fixed></tendon>
<actuator><general joint="j" dyntype="filter"/></actuator></mujoco>"""
ARRAYS = {"q", "q0", "q1", "qd", "qdd", "tau", "f_ext", "ctrl", "act", "warm_start"}
FUNCTIONS = [name for name in kt.__all__ if callable(getattr(kt, name)) and not isinstance(getattr(kt, name), type)]
OPEN = {"rollout"}  # What it returns depends on what is asked for.


def shapes_in(hint):
    """The shapes that a type names, in order: kinetree's own way to write them, or jaxtyping's."""
    if get_origin(hint) is Annotated:
        return list(hint.__metadata__)
    if hasattr(hint, "dim_str"):
        return [hint.dim_str]
    parts = [shapes_in(part) for part in get_args(hint)]
    if get_origin(hint) in (Union, UnionType):
        return next(filter(None, parts), [])
    return [shape for part in parts for shape in part]


def fits(shape, array, sizes):
    """Whether an array has a shape, with sizes of named axes; those that are not known yet are taken from it."""
    axes = shape.split()
    batch = axes[:1] == ["..."]
    own = np.shape(array)[np.ndim(array) - len(axes) + batch :]
    enough = np.ndim(array) >= len(axes) - batch if batch else np.ndim(array) == len(axes)
    wanted = [int(a) if a.isdigit() else sizes.setdefault(a, n) for a, n in zip(axes[batch:], own, strict=True)]
    return enough and list(own) == wanted


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arrays_have_shapes_in_signatures(name):
    signature = inspect.signature(getattr(kt, name))
    for parameter in signature.parameters.values():
        if parameter.name in ARRAYS:
            assert shapes_in(parameter.annotation), parameter
    if name not in OPEN:
        assert signature.return_annotation is not Any


@pytest.fixture(scope="module")
def model():
    return kt.load(ARM)


OTHERS = {"body": 0, "force": np.ones(6), "dt": 1e-3}


def needed(name):
    """The parameters, after the model, that a call must give."""
    parameters = list(inspect.signature(getattr(kt, name)).parameters.values())[1:]
    return [p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]


def of_states(name):
    """Whether a function makes arrays of states alone; `step` does too, and takes long to compile."""
    hint = inspect.signature(getattr(kt, name)).return_annotation
    return bool(shapes_in(hint)) and set(needed(name)) <= ARRAYS | set(OTHERS) and name != "step"


@pytest.mark.parametrize("name", list(filter(of_states, FUNCTIONS)))
def test_results_have_the_shapes_of_their_types(name, model):
    function = getattr(kt, name)
    wanted = shapes_in(inspect.signature(function).return_annotation)
    arrays = {"q": "nq", "q0": "nq", "q1": "nq", "ctrl": "nu", "act": "na"}
    sizes = {"nq": model.nq, "nv": model.nv, "nu": model.nu, "na": model.na, "bodies": model.n_bodies}
    rng = np.random.default_rng(0)
    given = [OTHERS[n] if n in OTHERS else rng.uniform(-1, 1, (2, 3, sizes[arrays.get(n, "nv")])) for n in needed(name)]
    found = jax.tree.leaves(function(model, *given))
    assert len(found) == len(wanted)
    for shape, array in zip(wanted, found, strict=True):
        assert fits(shape, array, sizes)
        assert np.shape(array)[:2] == (2, 3)
        assert isinstance(array, np.ndarray)


def test_states_and_poses_have_the_shapes_of_their_types(model):
    state = kt.initial_state(model, batch=(2,))
    sizes = {"nq": model.nq, "nv": model.nv, "na": model.na, "bodies": model.n_bodies}
    for record in (state, kt.forward_kinematics(model, state.q)):
        for name, hint in type(record).__annotations__.items():
            assert fits(*shapes_in(hint), getattr(record, name), sizes), name


def test_wrong_shapes_are_seen():
    assert not fits("... nv", np.zeros((2, 3)), {"nv": 4})
    assert not fits(" nv", np.zeros((2, 3)), {})
    assert fits("... 3 nv", np.zeros((2, 3, 5)), {"nv": 5})


def test_programs_with_jaxtyping_get_its_types():
    jaxtyping = pytest.importorskip("jaxtyping")
    own = runpy.run_path(_types.__file__)
    assert own["Float"] is jaxtyping.Float
    assert isinstance(np.zeros((2, 3)), own["Float"][np.ndarray, "... 3"])
    assert not isinstance(np.zeros((2, 3)), own["Float"][np.ndarray, "... 4"])

"""Direct calls of all functions that have them: what jit computes, without XLA, for every kind of model."""

import sys

import jax
import numpy as np
import pytest

import kinetree as kt
from kinetree.lanes.cpu import direct
from kinetree.model.fork import _Process
from tests.dynamics.test_passive import sprung

pytestmark = pytest.mark.skipif(not direct.available(), reason="no direct calls in this interpreter")

CALLS = {  # name -> the function on a model, q and two vectors of velocities
    "inverse_dynamics": kt.inverse_dynamics,
    "forward_dynamics": kt.forward_dynamics,
    "mass_matrix": lambda m, q, v, x: kt.mass_matrix(m, q),
    "forward_kinematics": lambda m, q, v, x: kt.forward_kinematics(m, q),
    "jacobian": lambda m, q, v, x: kt.jacobian(m, q, m.n_bodies - 1),
    "jacobian by name": lambda m, q, v, x: kt.jacobian(m, q, m.names[1], frame="local"),
    "bias_force": lambda m, q, v, x: kt.bias_force(m, q, v),
    "gravity_force": lambda m, q, v, x: kt.gravity_force(m, q),
}


def coupled_tree():
    """Springs, dampers, quaternion joints, and hinges of which one follows another."""
    model = sprung()
    kinds = model.structure.joints
    single = [
        name for name, code in zip(model.joint_names, model.structure.joint_code, strict=True) if kinds[code].nq == 1
    ]
    return model.couple({single[-1]: (single[0], -0.5, 0.2), single[1]: (single[0], 0.7, 0.0)})


MODELS = {
    "hinges": lambda: kt.auto_tree(7, 1.5, skew=0.3),
    "dampers": lambda: kt.auto_tree(7, 1.5, skew=0.3).replace(damping=0.3, armature=0.1),
    "mixed": sprung,
    "coupled": coupled_tree,
    "coupled hinges": lambda: kt.auto_tree(5, 1.5, skew=0.3).couple({"joint_3": ("joint_1", 2.0, 0.1)}),
}


def states(model, batch=(9,)):
    q, v = kt.random_state(model, 3, batch)
    return q, v, np.random.default_rng(4).standard_normal(v.shape)


@pytest.mark.parametrize("kind", MODELS)
def test_they_compute_what_xla_computes(kind, monkeypatch):
    """One state and a batch on NumPy arrays, where XLA is lost, against jit."""
    model = MODELS[kind]()
    given = states(model)
    by_jit = {name: jax.jit(lambda *s, call=call: call(model, *s))(*given) for name, call in CALLS.items()}
    monkeypatch.setattr(_Process, "lost_xla", True)
    for name, call in CALLS.items():
        wanted = [np.asarray(x) for x in jax.tree.leaves(by_jit[name])]
        batch, one = call(model, *given), call(model, *(x[2] for x in given))
        assert type(batch) is type(one) is type(jax.tree.map(np.asarray, by_jit[name])), name
        for a, b, c in zip(jax.tree.leaves(batch), jax.tree.leaves(one), wanted, strict=True):
            assert a.shape == c.shape, name
            assert b.shape == c.shape[1:], name
            np.testing.assert_allclose(a, c, rtol=1e-11, atol=1e-11, err_msg=name)
            np.testing.assert_array_equal(a[2], b, err_msg=name)


@pytest.mark.parametrize("name", CALLS)
def test_float32_stays_float32(name):
    model = MODELS["hinges"]()
    given = states(model)
    wanted = CALLS[name](model, *given)
    found = CALLS[name](model, *(x.astype(np.float32) for x in given))
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=1e-2, atol=1e-2 * np.abs(b).max())


def test_several_outputs_leave_nothing_behind():
    model = MODELS["hinges"]()
    q, *_ = states(model)
    bad = np.full_like(q, np.nan)
    kt.forward_kinematics(model, q)
    builtin = vars(model)["_forward_kinematics"]
    pose = builtin(q)
    held = sys.getrefcount(pose.rotation)
    assert held == 2  # the pose, and that call
    assert builtin(bad) is None
    before = sys.getrefcount(q), sys.getrefcount(bad)
    for _ in range(50):
        builtin(q), builtin(bad), builtin(q, q), builtin(q[:, :3])
    assert (sys.getrefcount(q), sys.getrefcount(bad)) == before

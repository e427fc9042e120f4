"""kinetree.explain says what auto does."""

import jax
import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.schedules.blocks import can_block
from kinetree.dynamics.schedules.choose import Call, choose, choose_mass_matrix, recorded
from kinetree.lanes.target import facts as target


@pytest.mark.parametrize("n", [3, 30, 2000])
@pytest.mark.parametrize("batch", [2, 100])
def test_what_runs_is_what_is_explained(n, batch):
    model = kt.auto_tree(n, 1.5, 0.3)
    q, qd, x = np.random.default_rng(0).uniform(-1, 1, (3, batch, n))
    said = kt.explain(model, batch)
    with recorded() as ran:  # by the ordinary path: builtins, which answer plain calls, record nothing
        kt.inverse_dynamics.__wrapped__(model, q, qd, x)
        kt.forward_dynamics.__wrapped__(model, q, qd, x)
    assert [choice for _, choice in ran] == [said.inverse_dynamics, said.forward_dynamics]


MODELS = {
    "one": (1, 1),
    "arm": (7, 1),
    "tree": (40, 2),
    "chain": (120, 1),
    "star": (80, 60),
    "large": (2100, 2),
}


@pytest.mark.parametrize("arrays", ["numpy", "float32", "jax", "jit"])
@pytest.mark.parametrize("batch", [1, 3, 70])
@pytest.mark.parametrize("model", MODELS)
def test_every_function_goes_the_way_that_is_chosen(model, batch, arrays):
    """Three functions for each of 72 cases. `kt.explain` is about NumPy arrays of float64."""
    n, branching = MODELS[model]
    robot = kt.auto_tree(n, branching, 0.3)
    x = np.zeros((batch, n), np.float32 if arrays == "float32" else np.float64)
    calls = {
        "inverse_dynamics": lambda x: kt.inverse_dynamics.__wrapped__(robot, x, x, x),
        "forward_dynamics": lambda x: kt.forward_dynamics.__wrapped__(robot, x, x, x),
        "mass_matrix": lambda x: kt.mass_matrix.__wrapped__(robot, x),
    }
    said = kt.explain(robot, batch)
    facts = Call(robot, batch, {"float32": "numpy", "jit": "traced"}.get(arrays, arrays), x.dtype, False, target())
    for name, call in calls.items():
        if n > 200 and (arrays == "jax" or (name == "mass_matrix" and batch > 1)):
            continue  # gigabytes of zeros, or long to compile; traced calls come by the same choice
        with recorded() as ran:
            if arrays == "jit":
                jax.eval_shape(call, x)
            else:
                call(jax.numpy.asarray(x) if arrays == "jax" else x)
        ((_, choice),) = ran
        wanted = choose_mass_matrix(facts) if name == "mass_matrix" else choose(facts, blocks=can_block)
        assert choice == wanted
        if arrays == "numpy":
            assert choice == getattr(said, name)


@pytest.mark.cpu
def test_the_text_names_the_way_and_the_reason():
    text = repr(kt.explain(kt.auto_tree(12, 2), 4096))
    assert "12 degrees of freedom" in text
    assert "4096 states fill the lanes" in text
    assert "rnea, lanes (lanes, native, shared program)" in text

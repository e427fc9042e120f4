"""The two lane programs of inverse dynamics, by matrices and by quaternions: right for all, and where each serves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.algorithms.aba import ABA
from kinetree.dynamics.algorithms.rnea import RNEA
from kinetree.dynamics.schedules.lanes import lane_program_of
from kinetree.dynamics.schedules.tuning import DEEP_MIN_LEVELS as DEEP
from tests.build import build_model
from tests.dynamics.programs import aba_lanes, rnea_lanes
from tests.dynamics.trees import worst
from tests.reference import dense, generate


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("kinds", [("revolute", "prismatic", "helical"), generate.KINDS], ids=["screws", "every joint"])
def test_every_joint_agrees_with_the_oracle(kinds, external, deep):
    rng = np.random.default_rng(7)
    d = generate.random_tree(rng, 20, kinds, "forest")
    s = generate.random_state(rng, d)
    model = build_model(d)
    program = rnea_lanes(model.structure.has_quaternions, external, deep)
    applied = (s.f_ext.reshape(1, -1),) if external else ()
    (tau,) = program(model, s.q[None], s.qd[None], s.qdd[None], *applied)
    assert worst(tau[0], dense.rnea(d, s.q, s.qd, s.qdd, s.f_ext if external else None)) < 1e-13


@pytest.mark.parametrize("lanes", [rnea_lanes, aba_lanes])
def test_hinges_alone_make_a_shorter_program_with_the_same_bits(lanes):
    model, state = kt.auto_tree(9, 1.5, 0.3), np.random.default_rng(0).standard_normal((3, 40, 9))
    short, long = (lanes(False, False, False, hinges)(model, *state)[0] for hinges in (True, False))
    np.testing.assert_array_equal(short, long)


@pytest.mark.parametrize("algorithm", [RNEA, ABA], ids=lambda a: a.name)
def test_only_hinges_without_rotors_take_the_program_for_hinges(algorithm):
    arm = kt.auto_tree(4, 1, 0.3)
    rotor = arm.replace(armature=[0, 0, 0.1, 0])
    slider = build_model(generate.random_tree(np.random.default_rng(0), 3, ("revolute", "prismatic"), "chain"))
    assert "hinges" in lane_program_of(algorithm, arm).program.name
    for other in (rotor, slider, jax.tree.map(jnp.asarray, arm)):  # whose numbers may still be traced
        assert "hinges" not in lane_program_of(algorithm, other).program.name


@pytest.mark.parametrize("n", [DEEP - 1, DEEP, 10 * DEEP])
def test_deep_mechanisms_stay_accurate(n):
    """Matrices of a chain of 1 000 leave 3e-14; what is chosen leaves a fifth of that."""
    model, exact = kt.auto_tree(n, 1, 0.3), generate.auto_tree(n, 1, 0.3)
    state = np.random.default_rng(n).standard_normal((3, n))
    wanted = np.asarray(dense.rnea(exact, *state), float)
    found = kt.inverse_dynamics(model, *state, schedule="lanes")
    assert np.linalg.norm(found - wanted) < 1e-14 * np.linalg.norm(wanted)
    assert lane_program_of(RNEA, model) is rnea_lanes(False, False, n >= DEEP, True)

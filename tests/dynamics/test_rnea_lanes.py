"""The two lane programs of inverse dynamics, by matrices and by quaternions: right for all, and where each serves."""

import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.lane_rows import DEEP
from kinetree.dynamics.rnea_lanes import rnea_lanes, rnea_of
from tests.build import build_model
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


@pytest.mark.parametrize("n", [DEEP - 1, DEEP, 10 * DEEP])
def test_deep_mechanisms_stay_accurate(n):
    """Matrices of a chain of 1 000 leave 3e-14; what is chosen leaves a fifth of that."""
    model, exact = kt.auto_tree(n, 1, 0.3), generate.auto_tree(n, 1, 0.3)
    state = np.random.default_rng(n).standard_normal((3, n))
    wanted = np.asarray(dense.rnea(exact, *state), float)
    found = kt.inverse_dynamics(model, *state, schedule="lanes")
    assert np.linalg.norm(found - wanted) < 1e-14 * np.linalg.norm(wanted)
    assert rnea_of(model.structure) is rnea_lanes(False, False, n >= DEEP)

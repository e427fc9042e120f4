"""A lone lane does several columns in one vector, with the bits that a block of lanes has."""

import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.closed_form import sweeps
from kinetree.dynamics.closed_form.rnea import program_of
from kinetree.dynamics.closed_form.shape import Skeleton
from kinetree.dynamics.regressor import regressor_of
from kinetree.lanes.cpu.compiled import module_text

pytestmark = pytest.mark.cpu


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("rows", "branching"), [(19, 1), (21, 2)])  # by sweeps, in groups of 4, 2 and 1; by factors
def test_one_state_has_the_bits_of_a_batch(rows, branching, dtype):
    model = kt.auto_tree(rows, branching, 0.3)
    assert sweeps.sweeps_are_faster(Skeleton.of(model)) == (branching == 1)
    q, qd, tau = np.random.default_rng(0).standard_normal((3, 17, rows)).astype(dtype)
    many = kt.forward_dynamics_derivatives(model, q, qd, tau)
    one = kt.forward_dynamics_derivatives(model, q[3], qd[3], tau[3])
    for a, b in zip(one, many, strict=True):
        np.testing.assert_array_equal(a, b[3])


@pytest.mark.parametrize(("rows", "branching"), [(19, 1), (21, 2)])
def test_a_lone_lane_uses_vectors(rows, branching):
    program = program_of(kt.auto_tree(rows, branching, 0.3), False, True).program
    text = module_text(program, np.dtype(np.float64), 2)
    lone = text[text.index("define i1 @lane(") :]
    assert "<8 x double>" in lone[: lone.index("\n}")]


def test_a_lone_lane_uses_vectors_if_joints_follow_others():
    model = kt.auto_tree(5, 2, 0.3)
    coupled = model.couple({model.joint_names[2]: (model.joint_names[1], 0.5, 0.0)})
    program = regressor_of(coupled).program
    text = module_text(program, np.dtype(np.float64), 2)
    lone = text[text.index("define i1 @lane(") :]
    assert "<8 x double>" in lone[: lone.index("\n}")]

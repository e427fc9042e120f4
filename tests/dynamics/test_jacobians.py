"""Jacobians of bodies and frames."""

import numpy as np
import pytest

import kinetree as kt
from tests.dynamics.mixed import BODIES, mixed_model, rate, state

ALL = ("world", "local", "aligned")


@pytest.mark.parametrize("frame", ALL)
def test_times_velocity_is_the_frame_velocity(frame):
    model = mixed_model()
    q, qd, _ = state(model)
    for body in BODIES:
        J = kt.jacobian(model, q, body, frame)
        expected = kt.frame_velocity(model, q, qd, body, frame)
        np.testing.assert_allclose(np.einsum("bij,bj->bi", J, qd), expected, atol=1e-12)


def test_aligned_is_the_derivative_of_the_pose():
    model = mixed_model()
    q, qd, _ = state(model)
    pose = kt.forward_kinematics(model, q)
    rotating, moving = rate(model, lambda q, _: kt.forward_kinematics(model, q), q, qd)
    for body in BODIES:
        angular, linear = np.split(np.einsum("bij,bj->bi", kt.jacobian(model, q, body, "aligned"), qd), 2, -1)
        np.testing.assert_allclose(linear, moving[:, body], atol=1e-11)
        turning = np.einsum("bij,bkj->bik", rotating[:, body], pose.rotation[:, body])  # Ṙ Rᵀ = ω×
        np.testing.assert_allclose(
            angular, np.stack([turning[:, 2, 1], turning[:, 0, 2], turning[:, 1, 0]], -1), atol=1e-11
        )


def test_the_three_are_one_motion():
    model = mixed_model()
    q, _, _ = state(model)
    body = BODIES[-1]
    world, local, aligned = (np.asarray(kt.jacobian(model, q, body, frame)) for frame in ALL)
    pose = kt.forward_kinematics(model, q)
    R, p = np.asarray(pose.rotation[:, body]), np.asarray(pose.position[:, body])
    np.testing.assert_allclose(R @ local[:, :3], aligned[:, :3], atol=1e-13)
    np.testing.assert_allclose(R @ local[:, 3:], aligned[:, 3:], atol=1e-12)
    np.testing.assert_allclose(world[:, 3:] + np.cross(world[:, :3], p[:, :, None], axis=1), aligned[:, 3:], atol=1e-12)


def test_columns_of_joints_that_do_not_carry_the_body_are_zero():
    model = kt.auto_tree(7, branching=2, skew=0.3)
    q, _ = kt.random_state(model, 0)
    J = kt.jacobian(model, q, 6)
    on_the_way = [0, 2, 6]
    assert np.flatnonzero(np.abs(J).max(0) > 0).tolist() == on_the_way
    assert J.shape == (6, 7)


def test_bodies_by_name_and_what_is_refused():
    model = kt.auto_tree(3, skew=0.3)
    q = np.zeros(3)
    np.testing.assert_array_equal(kt.jacobian(model, q, "body_2"), kt.jacobian(model, q, 2))
    with pytest.raises(KeyError, match="no body is called 'hand'"):
        kt.jacobian(model, q, "hand")
    with pytest.raises(ValueError, match="outside 0"):
        kt.jacobian(model, q, 3)
    with pytest.raises(ValueError, match="unknown frame 'body': choose from world, local, aligned"):
        kt.jacobian(model, q, 0, "body")


def test_a_body_fixed_to_the_base_does_not_move():
    model = kt.Model.from_arrays([-1, -1], ["fixed", "Rz"], np.stack([np.eye(6)] * 2), np.stack([np.eye(6)] * 2))
    np.testing.assert_array_equal(kt.jacobian(model, np.ones(1), 0, "local"), np.zeros((6, 1)))
    np.testing.assert_array_equal(kt.frame_velocity(model, np.ones(1), np.ones(1), 0), np.zeros(6))

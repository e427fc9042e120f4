"""Forward kinematics and Jacobians under every schedule, against Pinocchio and against one another."""

from itertools import cycle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from tests.build import build_model
from tests.reference import generate
from tests.second import few, in_turn

from .mixed import mixed_model, state

pytest.importorskip("pinocchio")
from .pinocchio_tree import KINDS, WAYS, PinocchioTree

SCHEDULES = ("lanes", "sequential", "levels", "paths")
STATES = 11  # a block of lanes, and some


def case(shape, kinds=KINDS, n=13):
    description = generate.random_tree(np.random.default_rng(6), n, kinds, shape)
    model = build_model(description)
    q, _ = kt.random_state(model, 2, (STATES,))
    return PinocchioTree(description), model, q


@in_turn(("schedule", "shape"), ["auto", *SCHEDULES], ["random", "forest"])
def test_pinocchio_has_the_same_poses(shape, schedule):
    theirs, model, q = case(shape)
    pose = kt.forward_kinematics(model, q, schedule=schedule)
    for k in range(STATES):
        rotations, positions = theirs.poses(q[k])
        np.testing.assert_allclose(pose.rotation[k], rotations, atol=1e-14 * model.n_bodies)
        np.testing.assert_allclose(pose.position[k], positions, atol=1e-14 * model.n_bodies * np.abs(positions).max())


@in_turn(("schedule", "mechanism"), ["auto", *SCHEDULES], [("forest", KINDS), ("random", ("revolute", "prismatic"))])
def test_pinocchio_has_the_same_jacobians(schedule, mechanism):
    theirs, model, q = case(*mechanism)
    for body, way in zip(range(0, model.n_bodies, 3), cycle(WAYS), strict=False):
        J = kt.jacobian(model, q, body, way, schedule=schedule)
        for k in range(STATES):
            wanted = theirs.jacobian(q[k], body, way)
            np.testing.assert_allclose(J[k], wanted, atol=1e-13 * max(1, np.abs(wanted).max()))


@few("dtype", [np.float64, np.float32], [np.float32])
def test_schedules_agree(dtype):
    model = mixed_model()  # every kind of joint
    q = np.asarray(state(model, STATES)[0]).astype(dtype)
    bound = 50 * float(np.finfo(dtype).eps)
    poses = [kt.forward_kinematics(model, q, schedule=s) for s in SCHEDULES]
    jacobians = [kt.jacobian(model, q, 9, "local", schedule=s) for s in SCHEDULES]
    for pose, J in zip(poses, jacobians, strict=True):
        assert pose.rotation.dtype == pose.position.dtype == J.dtype == dtype
        np.testing.assert_allclose(pose.rotation, poses[0].rotation, atol=bound)
        np.testing.assert_allclose(pose.position, poses[0].position, atol=bound * np.abs(poses[0].position).max())
        np.testing.assert_allclose(J, jacobians[0], atol=bound * np.abs(J).max())


def test_batch_axes_and_vmap_are_lanes():
    model = mixed_model()
    q = np.asarray(state(model, 6)[0])
    pose = kt.forward_kinematics(model, q)
    J = kt.jacobian(model, q, 9)
    by_two = kt.forward_kinematics(model, q.reshape(2, 3, -1))
    np.testing.assert_array_equal(by_two.position.reshape(pose.position.shape), pose.position)
    np.testing.assert_array_equal(kt.forward_kinematics(model, q[4]).rotation, pose.rotation[4])
    np.testing.assert_array_equal(kt.jacobian(model, q[4], 9), J[4])
    nested = jax.jit(jax.vmap(jax.vmap(lambda q: kt.jacobian(model, q, 9))))(jnp.asarray(q.reshape(2, 3, -1)))
    np.testing.assert_array_equal(np.asarray(nested).reshape(J.shape), J)


def test_derivatives_do_not_depend_on_the_schedule():
    model = mixed_model()
    q = state(model, 2)[0]
    for f in (
        lambda q, s: kt.forward_kinematics(model, q, schedule=s).position,
        lambda q, s: kt.jacobian(model, q, 9, schedule=s),
    ):
        tangents = [jax.jvp(lambda q, s=s, f=f: f(q, s), (q,), (jnp.cos(q),))[1] for s in ("lanes", "paths")]
        np.testing.assert_allclose(*tangents, atol=1e-12 * np.abs(tangents[0]).max())


def test_nothing_moves():
    """A model without degrees of freedom has poses."""
    x = np.stack([np.eye(6)] * 2)
    model = kt.Model.from_arrays([-1, 0], "fixed", x, x)
    for q in (np.zeros((3, 0)), jnp.zeros((3, 0))):
        for schedule in SCHEDULES:
            pose = kt.forward_kinematics(model, q, schedule=schedule)
            np.testing.assert_array_equal(pose.rotation, np.broadcast_to(np.eye(3), (3, 2, 3, 3)))


def test_schedules_that_can_not_be():
    model = kt.auto_tree(3)
    for f in (kt.forward_kinematics, lambda m, q, **o: kt.jacobian(m, q, 1, **o)):
        with pytest.raises(ValueError, match="unknown schedule 'fast'"):
            f(model, np.zeros(3), schedule="fast")
    with pytest.raises(ValueError, match="euler has no layout"):
        kt.jacobian(model, np.zeros(3), 1, schedule="euler")


def test_constants_kept_for_bodies_do_not_pile_up():
    from kinetree.dynamics.jacobians import jacobian_lanes
    from kinetree.dynamics.schedules.lane_algorithm import MAX_KEPT_CONSTANTS as KEPT

    model = kt.auto_tree(KEPT + 20, 2)
    program = jacobian_lanes(False, False, 0)
    for body in range(model.n_bodies):
        kt.jacobian(model, np.zeros(model.nq), body)
    assert 0 < len(program._constants[model]) <= KEPT


def test_without_bodies_there_are_no_poses():
    nothing = kt.Model.from_arrays([], [], np.zeros((0, 6, 6)), np.zeros((0, 6, 6)))
    assert kt.forward_kinematics(nothing, np.zeros((5, 0))).rotation.shape == (5, 0, 3, 3)

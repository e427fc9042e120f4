"""Velocities and accelerations of frames."""

import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.algorithms.frames import frame_acceleration_of, frame_velocity_of
from kinetree.dynamics.schedules.run import run
from tests.dynamics.mixed import BODIES, mixed_model, rate, state
from tests.second import few


@pytest.mark.parametrize("frame", ["world", "local", "aligned"])
def test_acceleration_is_the_rate_of_velocity(frame):
    model = mixed_model()
    q, qd, qdd = state(model)
    for body in BODIES:
        expected = rate(model, lambda q, qd, body=body: kt.frame_velocity(model, q, qd, body, frame), q, qd, qdd)
        got = kt.frame_acceleration(model, q, qd, qdd, body, frame)
        np.testing.assert_allclose(got, expected, atol=1e-10)


def test_gravity_has_no_part_in_accelerations():
    model = mixed_model()
    q, qd, qdd = state(model)
    elsewhere = model.replace(gravity=(1.0, 2.0, 3.0))
    accelerations = [kt.frame_acceleration(m, q, qd, qdd, 9) for m in (model, elsewhere)]
    np.testing.assert_array_equal(*accelerations)


def test_pinocchio_agrees(tmp_path):
    """The three accelerations are Pinocchio's spatial ones in world and local axes, and its classical one."""
    pin = pytest.importorskip("pinocchio")
    from tests.io.pinocchio_agreement import SWAP, robot_files

    path = robot_files()["ur_description/urdf/ur5_robot.urdf"]
    theirs = pin.buildModelFromUrdf(str(path))
    data = theirs.createData()
    model = kt.load(path).without_passive
    rng = np.random.default_rng(3)
    q, qd, qdd = rng.standard_normal((3, model.nv))
    pin.forwardKinematics(theirs, data, q, qd, qdd)
    frame = theirs.getFrameId("tool0", pin.BODY)
    expected = {
        "world": pin.getFrameAcceleration(theirs, data, frame, pin.WORLD),
        "local": pin.getFrameAcceleration(theirs, data, frame, pin.LOCAL),
        "aligned": pin.getFrameClassicalAcceleration(theirs, data, frame, pin.LOCAL_WORLD_ALIGNED),
    }
    for way, motion in expected.items():
        got = kt.frame_acceleration(model, q, qd, qdd, "tool0", way)
        np.testing.assert_allclose(got, motion.vector[SWAP], atol=1e-12)


@few("schedule", ["levels", "paths"], ["paths"])
def test_walks_over_the_tree_give_what_lanes_give(schedule):
    """Large trees on a GPU go this way; here every body, fixed ones too, and the three ways to give a motion."""
    model = mixed_model()
    q, qd, qdd = state(model)
    for way, body in enumerate(BODIES):
        for passes, inputs in (
            (frame_velocity_of(way), {"q": q, "qd": qd}),
            (frame_acceleration_of(way), {"q": q, "qd": qd, "qdd": qdd}),
        ):
            lanes, tree = (run(passes, model, inputs, schedule=s, about=body)["motion"] for s in ("lanes", schedule))
            np.testing.assert_allclose(tree, lanes, rtol=1e-11, atol=1e-11)

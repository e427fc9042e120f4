"""RK4 against a plain one around Pinocchio's ABA: what energy drifts is the method's own error, not ours."""

import numpy as np
import pytest

import kinetree as kt
from tests.simulate.robots import ROBOTS, energy

pin = pytest.importorskip("pinocchio")
from tests.io.pinocchio_agreement import robot_files  # noqa: E402

FILES = robot_files()


def plain_rk4(model, q, v, h: float, steps: int) -> np.ndarray:
    """Kutta's method for hinges, (steps + 1, nq)."""
    data, tau, path = model.createData(), np.zeros(model.nv), [q]

    def accelerations(q, v):
        return pin.aba(model, data, q, v, tau).copy()

    for _ in range(steps):
        a1, v2 = (a := accelerations(q, v)), v + h / 2 * a
        a2, v3 = (a := accelerations(q + h / 2 * v, v2)), v + h / 2 * a
        a3, v4 = (a := accelerations(q + h / 2 * v2, v3)), v + h * a
        a4 = accelerations(q + h * v3, v4)
        q, v = q + h / 6 * (v + 2 * v2 + 2 * v3 + v4), v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        path.append(q)
    return np.array(path)


def test_rk4_takes_the_steps_of_a_plain_one_around_pinocchio():
    """The bare arm, six random states, 300 steps: the same to rounding, which the motion has made grow."""
    file = ROBOTS / "arm7.urdf"
    model, theirs = kt.load(file).without_constraints, pin.buildModelFromUrdf(str(file))
    q, qd = kt.random_state(model, 0, (6,))
    run = kt.simulate(model, q, qd, dt=1e-3, steps=300, integrator="rk4")
    for k in range(6):
        np.testing.assert_allclose(run.q[:, k], plain_rk4(theirs, q[k], qd[k], 1e-3, 300), rtol=0, atol=1e-12)
    assert np.abs(run.q[-1] - run.q[0]).max() > 1, "it has not moved"


@pytest.mark.parametrize(
    ("name", "rotors"),
    [
        pytest.param("ur_description/urdf/ur5_robot.urdf", 0.0, id="ur5, bare"),
        pytest.param("panda_description/urdf/panda.urdf", 0.1, id="panda, rotors as MuJoCo Menagerie has them"),
    ],
)
def test_rk4_keeps_the_energy_of_real_arms(name, rotors):
    """Six random states, ten seconds, 1 ms."""
    if name not in FILES:
        pytest.skip("needs example-robot-data")
    model = kt.load(FILES[name]).without_passive.without_constraints.replace(friction=0, armature=rotors)
    q, qd = kt.random_state(model, 0, (6,))
    run = kt.simulate(model, q, qd, dt=1e-3, steps=10_000, integrator="rk4", record=20)
    e = energy(model, run)
    assert np.abs(e / e[0] - 1).max() < 1e-6

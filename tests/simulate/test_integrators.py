"""Integrators against closed forms, against SciPy's DOP853, and against their own order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import ellipj, ellipk

import kinetree as kt
from tests.second import few, second
from tests.simulate.robots import arm, brick, double_pendulum, energy, pendulum, tree20


def test_pendulum_follows_its_elliptic_function():
    """From rest at angle a: sin(q/2) = k sn(K − ω t | k²), k = sin(a/2)."""
    start, omega = 2.5, np.sqrt(9.81)
    k = np.sin(start / 2)
    run = kt.simulate(pendulum(), [start], [0.0], dt=1e-3, steps=10_000, integrator="rk4", record=100)
    sn = ellipj(ellipk(k * k) - omega * run.time, k * k)[0]
    np.testing.assert_allclose(run.q[:, 0], 2 * np.arcsin(k * sn), rtol=0, atol=1e-8)


def lagrange(t, state):
    """Accelerations of the double pendulum of robots.py, from its Lagrangian in absolute angles."""
    m1, m2, l1, l2, g = 1.0, 0.7, 1.0, 0.6, 9.81
    a, b = state[0], state[0] + state[1]
    u, v = state[2], state[2] + state[3]
    M = np.array([[(m1 + m2) * l1 * l1, m2 * l1 * l2 * np.cos(a - b)], [m2 * l1 * l2 * np.cos(a - b), m2 * l2 * l2]])
    f = np.array(
        [
            -m2 * l1 * l2 * np.sin(a - b) * v * v - (m1 + m2) * g * l1 * np.sin(a),
            m2 * l1 * l2 * np.sin(a - b) * u * u - m2 * g * l2 * np.sin(b),
        ]
    )
    accelerations = np.linalg.solve(M, f)
    return np.array([state[2], state[3], accelerations[0], accelerations[1] - accelerations[0]])


def test_double_pendulum_follows_dop853():
    start = np.array([1.2, 0.8, 0.3, -0.5])
    dt, steps = 2.5e-4, 12_000
    run = kt.simulate(double_pendulum(), start[:2], start[2:], dt=dt, steps=steps, integrator="rk4", record=120)
    exact = solve_ivp(lagrange, (0, run.time[-1]), start, "DOP853", run.time, rtol=1e-13, atol=1e-13).y.T
    np.testing.assert_allclose(np.concatenate([run.q, run.qd], 1), exact, rtol=0, atol=1e-8)


def euler_equations(t, state):
    """A free body with moments 1, 2, 3: quaternion (w, x, y, z) and angular velocity."""
    w, v, omega = state[0], state[1:4], state[4:]
    moments = np.array([1.0, 2.0, 3.0])
    turned = [-v @ omega, *(w * omega + np.cross(v, omega))]
    return np.array([*(0.5 * np.array(turned)), *(-np.cross(omega, moments * omega) / moments)])


def test_spinning_body_turns_over_as_dzhanibekov_saw():
    """Spun about its middle axis with a small disturbance, a body flips again and again.

    The disturbance is not too small, as rounding errors grow as exp(2.9 t) while the body is about to flip.
    """
    omega = np.array([1e-2, 5.0, 1e-2])
    run = kt.simulate(
        brick(), kt.neutral(brick()), [*omega, 0, 0, 0], dt=1e-3, steps=10_000, integrator="rk4", record=50
    )
    start = np.array([1.0, 0, 0, 0, *omega])
    exact = solve_ivp(euler_equations, (0, 10), start, "DOP853", run.time, rtol=1e-13, atol=1e-13).y.T
    assert run.qd[:, 1].min() < -4.9, "it has not turned over"
    np.testing.assert_allclose(run.qd[:, :3], exact[:, 4:], rtol=0, atol=1e-8)
    same = np.sign(np.sum(run.q[:, 3:] * exact[:, :4], -1, keepdims=True))
    np.testing.assert_allclose(run.q[:, 3:] * same, exact[:, :4], rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("integrator", "order", "joint"),
    [
        ("semi_implicit", 1, "hinges"),
        ("rk4", 4, "hinges"),
        ("variational", 2, "hinges"),
        ("rk4", 4, "free"),
        second("variational", 2, "free"),  # the last test of this file has that order
    ],
)
def test_order_of_convergence(integrator, order, joint):
    """Halving the step divides the error by 2^order, on hinges and on quaternions, which stay of unit length."""
    model = double_pendulum() if joint == "hinges" else brick(gravity=(0, 0, -9.81))
    q, qd = (np.array([1.0, 0.5]), np.array([0.5, 1.0])) if joint == "hinges" else kt.random_state(model, 1)
    exact, errors = kt.simulate(model, q, qd, dt=2.5e-4, steps=2000, integrator="rk4").final, []
    for steps in (25, 50) if integrator == "rk4" else (100, 200):
        run = kt.simulate(model, q, qd, dt=0.5 / steps, steps=steps, integrator=integrator)
        away = kt.difference(model, run.q[-1], exact[0]), run.qd[-1] - exact[1]
        errors.append(np.abs(away).max())
        if joint == "free":
            np.testing.assert_allclose(np.linalg.norm(run.q[..., 3:], axis=-1), 1, rtol=0, atol=1e-15)
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.25)


def drift(model: kt.Model, run: kt.Trajectory) -> float:
    e = energy(model, run)
    return np.abs(e / e[0] - 1).max()


def test_rk4_keeps_the_energy_of_an_arm_with_rotors():
    """Ten seconds, 1 ms, any state: below 1e-6. Rotors keep the flange from spinning at 200 rad/s."""
    model = arm().replace(armature=0.05)
    q, qd = kt.random_state(model, 0, (6,))
    run = kt.simulate(model, q, qd, dt=1e-3, steps=10_000, integrator="rk4", record=20)
    assert drift(model, run) < 1e-6


def test_rk4_keeps_the_energy_of_a_swinging_arm():
    """The bare arm, let go a radian from hanging down."""
    model = arm()
    q = np.array([0.3, np.pi - 0.7, 0.5, 0.6, -0.4, 0.3, 0.2])
    run = kt.simulate(model, q, np.zeros(7), dt=1e-3, steps=10_000, integrator="rk4", record=20)
    assert drift(model, run) < 1e-6


def test_rk4_keeps_the_energy_of_a_tree_of_20():
    model = tree20()
    q, qd = kt.random_state(model, 0)
    run = kt.simulate(model, q, qd, dt=1e-3, steps=10_000, integrator="rk4", record=20)
    assert np.ptp(kt.potential_energy(model, run.q)) > 10, "gravity has no part in it"
    assert drift(model, run) < 1e-6


def energy_for_ten_minutes(model: kt.Model, q, qd, dt: float) -> tuple[float, float, float]:
    """Energy errors relative to the kinetic energy that is reached: the largest of all, the largest of the first
    minute, and how far the mean moves from the first minute to the last.

    The largest error of one minute differs by a factor of two between starts that differ by 1e-9 rad; the mean is what
    tells a drift from an oscillation. That of RK4 moves by seven times its first minute's error and more.
    """
    run = kt.simulate(model, q, qd, dt=dt, steps=round(600 / dt), integrator="variational", record=round(0.1 / dt))
    error = (energy(model, run) - energy(model, run[:1])) / kt.kinetic_energy(model, run.q, run.qd).max()
    minute = len(error) // 10
    first, last = error[:minute], error[-minute:]
    return np.abs(error).max(), np.abs(first).max(), abs(last.mean() - first.mean())


@pytest.mark.usefixtures("full_compilation")
@few("robot", ["double pendulum", "arm with rotors"], ["double pendulum"])
def test_variational_energy_is_bounded_for_ten_minutes(robot):
    """Both tumble for 600 s: the energy stays within 2 %, and does not drift."""
    if robot == "double pendulum":
        largest, first, drifted = energy_for_ten_minutes(double_pendulum(), [2.0, 1.0], [0.0, 0.0], 1e-2)
    else:
        model = arm().replace(armature=0.05)
        largest, first, drifted = energy_for_ten_minutes(model, *kt.random_state(model, 0), 5e-3)
    assert largest < 0.02
    assert drifted < first / 10


def test_variational_steps_do_not_depend_on_the_batch():
    """Each state iterates until it is solved itself, whatever its neighbours need."""
    model = arm().replace(armature=0.05)
    q, qd = kt.random_state(model, 3, (5,))
    together = kt.simulate(model, q, qd, dt=5e-3, steps=40, integrator="variational", record=40)
    alone = [
        kt.simulate(model, *x, dt=5e-3, steps=40, integrator="variational", record=40) for x in zip(q, qd, strict=True)
    ]
    np.testing.assert_allclose(together.q[-1], [run.q[-1] for run in alone], rtol=0, atol=1e-11)


@pytest.mark.slow
def test_variational_keeps_momentum_without_gravity():
    """Linear and angular momentum of a floating tree, to rounding: symmetries hold in every step."""
    I = np.diag([0.2, 0.3, 0.4, 2.0, 2.0, 2.0])
    x_tree = np.tile(np.eye(6), (4, 1, 1))
    x_tree[1:, 3:, :3] = -np.cross([0.3, 0.2, 0.1], np.eye(3)).T
    model = kt.Model.from_arrays([-1, 0, 0, 1], ["free", "Ry", "Rx", "Rz"], x_tree, np.stack([I] * 4))
    model = model.replace(gravity=(0, 0, 0))
    q, qd = kt.random_state(model, 5)
    run = kt.simulate(model, q, qd, dt=5e-3, steps=200, integrator="variational", record=20)
    momentum = kt.momentum(model, run.q, run.qd)
    np.testing.assert_allclose(momentum, np.broadcast_to(momentum[0], momentum.shape), rtol=0, atol=1e-9)


def test_stiff_springs_and_dampers_are_stable():
    """A spring of period 2 ms under a step of 10 ms: RK4 explodes, the variational step does not."""
    model = pendulum().replace(stiffness=1e7)
    run = kt.simulate(model, [0.5], [0.0], dt=1e-2, steps=1000, integrator="variational")
    assert np.abs(run.q).max() < 0.51
    with pytest.raises(kt.SimulationError):
        kt.simulate(model, [0.5], [0.0], dt=1e-2, steps=1000, integrator="rk4")
    damped = pendulum().replace(damping=1e5)
    run = kt.simulate(damped, [0.5], [1.0], dt=1e-2, steps=100)
    creeping = -9.81 * np.sin(run.q[:, 0]) / 1e5  # where damping balances gravity
    np.testing.assert_allclose(run.qd[10:, 0], creeping[10:], rtol=1e-4)


@pytest.mark.slow
def test_step_under_jit_and_jvp():
    """How far a pendulum swings, by the strength of its push: the derivative against a difference."""
    model = pendulum()

    def swing(push):
        def body(state, _):
            return kt.step(model, *state, 1e-2), None

        (q, _), _ = jax.lax.scan(body, (jnp.zeros(1), push[None]), None, length=50)
        return q[0]

    push, h = jnp.asarray(2.0), 1e-5
    slope = jax.jit(jax.jacfwd(swing))(push)
    assert float(slope) == pytest.approx(float(swing(push + h) - swing(push - h)) / (2 * h), rel=1e-7)


def test_variational_steps_with_a_rotor_on_a_free_joint():
    """The rotor keeps its momentum in the world, whichever way the body turns."""
    model = brick().replace(armature=0.5)
    q, qd = kt.random_state(model, 3)
    ends = [
        kt.simulate(model, q, qd, dt=0.1 / n, steps=n, record=n, integrator=name).q[-1]
        for name, n in (("rk4", 40), ("variational", 20), ("variational", 40))
    ]
    coarse, fine = (np.abs(ends[0] - e).max() for e in ends[1:])
    assert fine < 1e-4
    assert coarse / fine == pytest.approx(4, rel=0.2)  # second order

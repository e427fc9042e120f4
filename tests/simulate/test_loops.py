"""Rigid loops in time: they stay closed, and energy and momentum stay what they were."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt

from ..dynamics.closed import FOUR_BAR_GUESS, four_bar


def opening(model: kt.Model, q: np.ndarray) -> float:
    """How far the four-bar is open, in metres."""
    pose = kt.forward_kinematics(model, q)
    tips = [pose.position[..., b, :] + pose.rotation[..., b, :, 0] * length for b, length in ((1, 0.8), (2, 0.6))]
    return float(np.abs(tips[0] - tips[1]).max())


def energy(model: kt.Model, q: np.ndarray, qd: np.ndarray) -> float:
    return float(kt.kinetic_energy(model, q, qd) + kt.potential_energy(model, q))


def test_loops_stay_closed():
    model = four_bar().closed
    q, qd = kt.close_loops(model, FOUR_BAR_GUESS, np.array([0.5, 0, 0]))
    state = kt.initial_state(model, q, qd, batch=(2,))
    later = kt.advance(model, state, dt=1e-3, substeps=2000, integrator="semi_implicit")
    assert opening(model, later.q) < 1e-10
    before = energy(model, q, qd)
    assert abs(energy(model, later.q[1], later.qd[1]) - before) < 0.02 * abs(before)


@pytest.mark.thorough
def test_ten_minutes_leave_a_loop_closed():
    model = four_bar().closed.replace(integrator="rk4", timestep=1e-2)
    q, qd = kt.close_loops(model, FOUR_BAR_GUESS, np.array([0.5, 0, 0]))
    end = kt.advance(model, kt.initial_state(model, q, qd), substeps=60_000)
    assert opening(model, end.q) < 1e-9
    assert abs(energy(model, end.q, end.qd) - energy(model, q, qd)) < 0.02 * abs(energy(model, q, qd))


def test_variational_says_that_it_serves_no_loops():
    with pytest.raises(ValueError, match="rigid loops"):
        kt.advance(four_bar().closed, kt.initial_state(four_bar().model), integrator="variational")


@pytest.mark.thorough
@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4", "semi_implicit"])
def test_every_integrator_keeps_loops_closed(integrator):
    """With strong dampers, which implicit integrators take at the end of a step."""
    model = four_bar().closed.replace(damping=np.array([0.0, 50.0, 0.0]) if integrator != "RK4" else 0.1)
    q, qd = kt.close_loops(model, FOUR_BAR_GUESS, np.array([2.0, 0, 0]))
    state = kt.advance(model, kt.initial_state(model, q, qd), dt=5e-3, substeps=400, integrator=integrator)
    assert opening(model, state.q) < 1e-8
    assert energy(model, state.q, state.qd) < energy(model, q, qd)


@pytest.mark.thorough
def test_gradients_of_a_rollout_with_loops():
    model = four_bar().closed
    q, qd = kt.close_loops(model, FOUR_BAR_GUESS, np.array([1.0, 0, 0]))
    with jax.enable_x64(True):

        def end(push):
            state = kt.initial_state(model, jnp.asarray(q), jnp.asarray(qd) + push * along)
            return kt.advance(model, state, substeps=20, dt=1e-3, integrator="semi_implicit").q

        along = jnp.asarray(kt.close_loops(model, q, np.array([1.0, 0, 0]))[1])
        slope, reverse = jax.jacfwd(end)(0.0), jax.jacrev(end)(0.0)
        difference = (end(1e-5) - end(-1e-5)) / 2e-5
    np.testing.assert_allclose(slope, difference, atol=1e-8)
    np.testing.assert_allclose(reverse, difference, atol=1e-8)

"""Rigid loops in time: they stay closed, and energy and momentum stay what they were."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.simulate.native import slope
from kinetree.simulate.native.plan import StepPlan
from kinetree.simulate.native.step import variant_of
from tests.slopes import slopes_agree

from ..constrain.test_rigid_loops import soft_and_rigid
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


def gradients(model: kt.Model, q: np.ndarray, qd: np.ndarray, integrator: str, steps: int) -> None:
    """Of the state after some steps, against central differences in all coordinates, in both modes."""

    def end(x):
        moved = replace(model, loops=replace(model.loops, position2=model.loops.position2 + x[6:9]))
        state = kt.initial_state(moved, q + x[:3], qd + x[3:6])
        after = kt.advance(kt.scaled(moved, mass=1 + x[9]), state, substeps=steps, dt=5e-3, integrator=integrator)
        return jnp.concatenate([100 * after.q, after.qd])

    with jax.enable_x64(True):
        slopes_agree(end, jnp.zeros(10), 1e-7, 1e-11)


@pytest.mark.usefixtures("no_xla")
def test_gradients_of_steps_with_loops():
    """Far from closed loops too: a step ends with a projection, whose derivative counts the way that it goes."""
    q, qd = kt.close_loops(four_bar().closed, FOUR_BAR_GUESS, np.array([3.0, 0, 0]))
    gradients(four_bar().closed, q + 1e-3, qd, "semi_implicit", 1)


@pytest.mark.thorough
@pytest.mark.usefixtures("no_xla")
@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "semi_implicit"])
def test_gradients_of_steps_with_loops_and_contact(integrator):
    """Dampers are taken at the end of a step: accelerations and forces of loops are then others than those of x."""
    q, qd = kt.close_loops(soft_and_rigid(), FOUR_BAR_GUESS, np.array([-1.0, 0, 0]))
    gradients(soft_and_rigid(), q, qd, integrator, 2)


def test_tables_have_the_columns_that_loops_read():
    """One had a column more than its loop knew: gradients of damped steps were wrong with several loops."""
    model = four_bar().closed.replace(damping=1.0)
    plan = StepPlan(model, "semi_implicit")
    variant = variant_of(model, plan, "semi_implicit", False)
    for native in (slope._loaded(variant, back) for back in (False, True)):
        assert [p.table(plan).shape[1] for p in native.parts] == [p.loop.columns for p in native.parts]

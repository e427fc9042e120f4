"""MuJoCo's integrators. The facts are those of its mj_Euler, mj_implicit, mj_RungeKutta and mj_advance.

Euler           u′ = u + h α, q′ = q ⊕ h u′, with joint damping taken at the end of the step (unless the file disables
                eulerdamp).
implicitfast    the same with the velocity terms of actuators taken at the end too (implicit.py).
implicit        the same with those of all smooth forces.
RK4             the classical method for the move from the start of the step, whose rotation vectors make it of fourth
                order for ball and free joints too (MuJoCo 4.0; before, it was of second order there).

Velocities u have the linear parts of free joints in world axes (world_axes.py). Activations make one step with the
rates at its start (RK4: mean rates), and are kept within their ranges.
"""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree.actuate import next_activation
from kinetree.actuate.force import nearest_setpoint
from kinetree.actuate.transmission import columns_of
from kinetree.model import DEFAULT_STEPPING, Model, State
from kinetree.model.actuators import INTEGRATOR
from kinetree.model.configuration import integrate_straight, move_rate

from .constrained import constrained
from .drive import Drive, acted, four_stages
from .implicit import Forces, damped_acceleration, fully_implicit_acceleration, implicit_acceleration
from .world_axes import drift, to_body, to_world


def activated(model: Model, state: State, rate: Any, h: Any, length: Any) -> Any:
    """Activations at the end of the step, from their rates and the last lengths (batch, n) of the actuators."""
    if model.actuators is None or model.na == 0:
        return state.act
    act = next_activation(model.actuators, state.act, rate, h)
    wiring = model.actuators.wiring
    at = columns_of(model)
    for i, (column, kind) in enumerate(zip(wiring.activations, wiring.dynamics, strict=True)):
        if kind == INTEGRATOR and at.winds[i]:  # a setpoint that is an angle stays within a turn of the joint
            repeated = jnp.broadcast_to(act[:, column, None], length.shape)
            act = act.at[:, column].set(nearest_setpoint(model, at, repeated, length)[:, i])
    return act


def _moved(model: Model, state: State, act: Any, alpha: Any, h: Any, warm_start: Any, mean: Any = None) -> State:
    """The state after a step with acceleration α in world axes, along the new velocity or along a mean one."""
    u = to_world(model, state.q, state.qd) + h * alpha
    q = integrate_straight(model, state.q, h * (u if mean is None else mean))
    return State(q, to_body(model, q, u), act, state.time + h, warm_start)


def euler_step(model: Model, state: State, drive: Drive) -> State:
    """Semi-implicit Euler, with joint damping taken at the end of the step."""
    return _first_order(model, state, drive, fast=False)


def implicitfast_step(model: Model, state: State, drive: Drive) -> State:
    """An Euler step, with the velocity terms of actuators taken at the end too."""
    return _first_order(model, state, drive, fast=True)


def implicit_step(model: Model, state: State, drive: Drive) -> State:
    """An Euler step, with the velocity terms of all smooth forces taken at the end."""
    return _first_order(model, state, drive, fast=True, ends=fully_implicit_acceleration)


def _first_order(model: Model, state: State, drive: Drive, fast: bool, ends: Any = implicit_acceleration) -> State:
    q, qd, h = state.q, state.qd, drive.h
    tau, rate, found = acted(model, q, qd, state.act, drive)
    damping = None if model.passive is None else model.passive.damping
    stepping = model.stepping or DEFAULT_STEPPING
    damped = damping is not None and stepping.damps_later(damping)
    qdd = warm_start = state.warm_start
    total = None
    if drive.constraints is not None or not (fast or damped):
        reached = constrained(model, drive.constraints, q, qd, tau, drive.f_ext, state.warm_start, h, drive.solver)
        qdd, total = reached.qdd, reached.total
        warm_start = qdd
    forces = Forces(tau, drive.f_ext, total, drive.constraints)
    if fast:
        qdd = ends(model, q, qd, forces, h, found)
    elif damped:
        any_positive = stepping.heavy_actuators | jnp.any(jnp.asarray(damping) > 0)
        later = jnp.where(any_positive, h, 0.0)  # `damps_later` does not know all numbers
        qdd = damped_acceleration(model, q, qd, forces, later)
    alpha = to_world(model, q, qdd + drift(model, q, qd))
    return _moved(model, state, activated(model, state, rate, h, found and found.length), alpha, h, warm_start)


def runge_kutta_step(model: Model, state: State, drive: Drive) -> State:
    """The classical Runge-Kutta method of four stages, in moves from the start (Munthe-Kaas 1999)."""
    h = drive.h
    start = to_world(model, state.q, state.qd)

    def stage(carry: tuple, share: Any, weight: Any) -> tuple:
        (growth, alpha, rate), total, warm_start, _ = carry
        move, u = share * h * growth, start + share * h * alpha
        q = integrate_straight(model, state.q, move)
        qd = to_body(model, q, u)
        tau, rate, found = acted(model, q, qd, state.act + share * h * rate, drive, share)
        qdd = constrained(model, drive.constraints, q, qd, tau, drive.f_ext, warm_start, h, drive.solver).qdd
        now = move_rate(model, move, u), to_world(model, q, qdd + drift(model, q, qd)), rate
        length = None if found is None else found.length
        return now, jax.tree.map(lambda a, b: a + weight * b, total, now), qdd, length

    still = jnp.zeros_like(start), jnp.zeros_like(start), jnp.zeros_like(state.act)
    length = None if model.actuators is None else jnp.zeros((len(start), len(model.actuators.wiring.joints)), h.dtype)
    end = four_stages(stage, (still, still, state.warm_start, length), drive)
    _, (growth, alpha, rate), warm_start, length = end
    return _moved(model, state, activated(model, state, rate, h, length), alpha, h, warm_start, growth)

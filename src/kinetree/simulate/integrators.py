"""Steps in time. A configuration moves on its manifold: quaternions keep unit length.

semi_implicit   v′ = v + h a(q, v), q′ = q ⊕ h v′: first order, one evaluation; joint dampers are taken at v′.
rk4             the classical Runge-Kutta method: fourth order, four evaluations. Its stages add the rates q̇ of the
                coordinates, quaternions being four numbers; the end of the step is brought back to unit length.
variational     the discrete Euler-Lagrange equations (variational.py): second order, implicit, symplectic; for long
                runs and stiff springs.
"""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree.actuate import next_activation
from kinetree.dynamics import bias_force, forward_dynamics
from kinetree.dynamics.loaded import loaded_forward_dynamics
from kinetree.model import Model, State, integrate

from .constrained import constrained
from .drive import Drive, acted, four_stages
from .forces import rubbed
from .implicit import Forces, damped_acceleration
from .variational import variational_step

Rates = tuple[Any, Any]  # of q and qd


def _after(model: Model, state: State, drive: Drive, q: Any, qd: Any, rate: Any, warm_start: Any) -> State:
    act = state.act if model.actuators is None else next_activation(model.actuators, state.act, rate, drive.h)
    return State(q, qd, act, state.time + drive.h, warm_start)


def semi_implicit_step(model: Model, state: State, drive: Drive) -> State:
    """The symplectic Euler method, with (H + h D) qdd = ... so that dampers, however strong, stay stable."""
    q, qd, h = state.q, state.qd, drive.h
    tau, rate, _ = acted(model, q, qd, state.act, drive)
    warm_start = state.warm_start
    if drive.constraints is not None:
        warm_start, total, _ = constrained(
            model, drive.constraints, q, qd, tau, drive.f_ext, warm_start, h, drive.solver
        )
        qdd = damped_acceleration(model, q, qd, Forces(tau, drive.f_ext, total), h)
    elif model.passive is not None:
        load = h * jnp.asarray(model.passive.damping, q.dtype)[None]
        qdd = loaded_forward_dynamics(model, q, qd, rubbed(model, tau, q, qd), drive.f_ext, load)
    else:
        qdd = forward_dynamics(model, q, qd, rubbed(model, tau, q, qd), drive.f_ext)
    qd = qd + h * qdd
    return _after(model, state, drive, integrate(model, q, h * qd, 1.0), qd, rate, warm_start)


def coordinate_rate(model: Model, q: Any, qd: Any) -> Any:
    """q̇, (..., nq): the derivative of q ⊕ t qd at t = 0."""
    zero = jnp.zeros(q.shape[:-1], q.dtype)
    return jax.jvp(lambda t: integrate(model, q, qd, t), (zero,), (jnp.ones_like(zero),))[1]


def rk4_step(model: Model, state: State, drive: Drive) -> State:
    """Kutta's method of 1901, in coordinates."""
    h = drive.h
    start = state.q, state.qd

    def moved(k: Rates, by: Any) -> Rates:
        return start[0] + by * k[0], start[1] + by * k[1]

    def stage(carry: tuple, share: Any, weight: Any) -> tuple:
        before, total, warm_start = carry
        q, qd = moved(before, share * h)
        tau = acted(model, q, qd, state.act, drive, share)[0]
        if drive.constraints is None:
            qdd = forward_dynamics(model, q, qd, rubbed(model, tau, q, qd), drive.f_ext)
        else:
            qdd = constrained(model, drive.constraints, q, qd, tau, drive.f_ext, warm_start, h, drive.solver).qdd
        now = coordinate_rate(model, q, qd), qdd
        return now, jax.tree.map(lambda a, b: a + weight * b, total, now), qdd

    still = jnp.zeros_like(start[0]), jnp.zeros_like(start[1])
    _, mean, warm_start = four_stages(stage, (still, still, state.warm_start), drive)
    q, qd = moved(mean, h)
    q = integrate(model, q, jnp.zeros_like(qd), 1.0)
    rate = acted(model, *start, state.act, drive)[1]
    return _after(model, state, drive, q, qd, rate, warm_start)


def discrete_step(model: Model, state: State, drive: Drive) -> State:
    """The variational integrator, in which constraints do not act."""

    def controller(t: Any, q: Any, qd: Any) -> Any:
        tau = acted(model, q, qd, state.act, drive, (t - start) / drive.h)[0]
        if drive.f_ext is None:
            return tau
        still = jnp.zeros_like(qd)
        return tau + bias_force(model, q, still) - bias_force(model, q, still, drive.f_ext)

    start = jnp.zeros_like(drive.h)
    rate = acted(model, state.q, state.qd, state.act, drive)[1]
    q, qd = variational_step(model, controller, start, (state.q, state.qd), drive.h)
    return _after(model, state, drive, q, qd, rate, state.warm_start)

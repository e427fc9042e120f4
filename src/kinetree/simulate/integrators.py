"""Steps in time. A configuration moves on its manifold: quaternions keep unit length.

semi_implicit   v′ = v + h a(q, v), q′ = q ⊕ h v′: first order, one evaluation; joint dampers are taken at v′.
rk4             the classical Runge-Kutta method: fourth order, four evaluations. Its stages add the rates q̇ of the
                coordinates, quaternions being four numbers; the end of the step is brought back to unit length.
variational     the discrete Euler-Lagrange equations (variational.py): second order, implicit, symplectic; for long
                runs and stiff springs.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from kinetree._unknown import unknown
from kinetree.dynamics import forward_dynamics
from kinetree.model import Model, integrate

from .forces import Controller, joint_force
from .stiffness import stiffened
from .variational import variational_step

State = tuple[Any, Any]  # q, qd
Step = Callable[[Model, Controller | None, Any, State, float], State]


def semi_implicit_step(model: Model, controller: Controller | None, t: Any, state: State, h: float) -> State:
    """The symplectic Euler method, with (H + h D) qdd = ... so that dampers, however strong, stay stable."""
    q, qd = state
    qd = qd + h * forward_dynamics(stiffened(model, damped=h), q, qd, joint_force(model, controller, t, q, qd))
    return integrate(model, q, qd, h), qd


def coordinate_rate(model: Model, q: Any, qd: Any) -> Any:
    """q̇, (..., nq): the derivative of q ⊕ t qd at t = 0."""
    zero = jnp.zeros(q.shape[:-1], q.dtype)
    return jax.jvp(lambda t: integrate(model, q, qd, t), (zero,), (jnp.ones_like(zero),))[1]


def rk4_step(model: Model, controller: Controller | None, t: Any, state: State, h: float) -> State:
    """Kutta's method of 1901, in coordinates."""

    def rate(t: Any, q: Any, qd: Any) -> State:
        qdd = forward_dynamics(model, q, qd, joint_force(model, controller, t, q, qd))
        return coordinate_rate(model, q, qd), qdd

    def moved(k: State, by: float) -> State:
        return state[0] + by * k[0], state[1] + by * k[1]

    k1 = rate(t, *state)
    k2 = rate(t + h / 2, *moved(k1, h / 2))
    k3 = rate(t + h / 2, *moved(k2, h / 2))
    k4 = rate(t + h, *moved(k3, h))
    mean = jax.tree.map(lambda a, b, c, d: (a + 2 * (b + c) + d) / 6, k1, k2, k3, k4)
    q, qd = moved(mean, h)
    return integrate(model, q, jnp.zeros_like(qd), 1.0), qd


INTEGRATORS: dict[str, Step] = {
    "semi_implicit": semi_implicit_step,
    "rk4": rk4_step,
    "variational": variational_step,
}


def step_function(integrator: str) -> Step:
    """The step behind an integrator's name."""
    if integrator not in INTEGRATORS:
        raise ValueError(unknown("integrator", integrator, INTEGRATORS))
    return INTEGRATORS[integrator]


def step(
    model: Model,
    q: Any,
    qd: Any,
    dt: float,
    controller: Controller | None = None,
    *,
    t: Any = 0.0,
    integrator: str = "semi_implicit",
) -> State:
    """One step in time, as a pure function: for loops of your own under `jit`, `vmap` and `grad`.

    Arguments:
        model: the mechanism.
        q: configurations, (..., nq).
        qd: velocities, (..., nv).
        dt: the step.
        controller: (t, q, qd) -> tau, or None.
        t: time at the start of the step.
        integrator: "semi_implicit", "rk4" or "variational".

    Returns:
        q, qd after the step.
    """
    return step_function(integrator)(model, controller, t, (jnp.asarray(q), jnp.asarray(qd)), dt)

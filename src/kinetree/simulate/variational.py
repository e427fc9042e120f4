"""The variational midpoint integrator.

Instead of the equations of motion, Hamilton's principle is made discrete: over a step from q0 to q1 the action is

    L_d(q0, q1) = h L(q0 ⊕ ξ/2, ξ/h),   ξ = q1 ⊖ q0,

and its derivatives are the momenta at the two ends (Marsden and West 2001, eqs. 1.3.1 and 3.2.1 with forces):

    p0 = −D1 L_d − h/2 f,   p1 = D2 L_d + h/2 f,   f the forces at the middle.

The first is solved for q1, the second then gives p1. Such a map is symplectic: energy does not drift, it oscillates
within O(h²) for as long as the step resolves the motion, and momenta of symmetries are kept exactly. Springs are
taken at the midpoint, so a stiff one is stable at any step.

The equation is solved by Newton's method with H + h/2 D + h²/4 K, D and K the joints' dampers and springs, for its
matrix: one forward dynamics to an iteration (the quasi-Newton of Lee, Liu, Park and Srinivasa 2016, section 4).
"""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree.dynamics import forward_dynamics, kinetic_energy, potential_energy
from kinetree.model import Model, difference, integrate

from .forces import Controller, damping_force, joint_force
from .stiffness import stiffened

ITERATIONS = 50


def discrete_lagrangian(model: Model, q0: Any, q1: Any, h: float) -> Any:
    """The action of a step: h (T − V) at its middle, (...,)."""
    way = difference(model, q0, q1)
    middle = integrate(model, q0, way, 0.5)
    return h * (kinetic_energy(model, middle, way / h) - potential_energy(model, middle))


def momenta(model: Model, q0: Any, v: Any, h: float) -> tuple[Any, Any]:
    """−D1 L_d and D2 L_d of the step from q0 with velocity v, in the velocities' coordinates."""
    q1 = integrate(model, q0, v, h)

    def action(at_start: Any, at_end: Any) -> Any:
        moved = integrate(model, q0, at_start, 1.0), integrate(model, q1, at_end, 1.0)
        return discrete_lagrangian(model, *moved, h).sum()

    zero = jnp.zeros_like(v)
    start, end = jax.grad(action, (0, 1))(zero, zero)
    return -start, end


def momentum_of(model: Model, q: Any, v: Any) -> Any:
    """H v."""
    return jax.grad(lambda v: kinetic_energy(model, q, v).sum())(v)


def variational_step(model: Model, controller: Controller | None, t: Any, state: Any, h: float) -> Any:
    """One step; not a number where Newton's method fails."""
    q0, qd0 = state
    undriven = model.without_passive.replace(gravity=(0.0, 0.0, 0.0))
    matrix = stiffened(model, damped=h / 2, sprung=h * h / 4, rubbed=h / 2).without_passive.replace(
        gravity=(0.0, 0.0, 0.0)
    )
    p0 = momentum_of(model, q0, qd0)
    zero = jnp.zeros_like(qd0)

    def forces(v: Any) -> Any:
        middle = integrate(model, q0, v, h / 2)
        return joint_force(model, controller, t + h / 2, middle, v) + damping_force(model, v)

    def correction(v: Any) -> Any:
        r = p0 + h / 2 * forces(v) - momenta(model, q0, v, h)[0]
        return forward_dynamics(matrix, integrate(model, q0, v, h / 2), zero, r)

    def size(x: Any) -> Any:
        return jnp.max(jnp.abs(x), axis=-1, initial=0.0)

    def unfinished(carry: Any) -> Any:
        """Until the corrections of every state are within rounding, or stop getting smaller."""
        v, change, before, count = carry
        moving = (change > eps * (1 + size(v))) & (change < before)
        return (count < ITERATIONS) & ((count < 3) | moving.any())

    def iterate(carry: Any) -> Any:
        v, change, _, count = carry
        dv = correction(v)
        return v + dv, size(dv), change, count + 1

    eps = jnp.finfo(qd0.dtype).eps
    far = jnp.full(qd0.shape[:-1], jnp.inf, qd0.dtype)
    v, change, _, _ = jax.lax.while_loop(unfinished, iterate, (qd0, far, far, 0))
    q1 = integrate(model, q0, v, h)
    p1 = momenta(model, q0, v, h)[1] + h / 2 * forces(v)
    qd1 = forward_dynamics(undriven, q1, zero, p1)
    solved = change <= 1e5 * eps * (1 + size(v))
    return q1, jnp.where(solved[..., None], qd1, jnp.nan)

"""The variational integrator: a step takes every particle of every body along a straight line.

Instead of the equations of motion, Hamilton's principle is made discrete. Over a step of length h from q0 to q1 the
action is

    L_d(q0, q1) = Σ_particles m |x1 − x0|² / 2h − h (V(q0) + V(q1)) / 2,

V the potential of gravity. Its derivatives are the momenta at the two ends (Marsden and West 2001, section 1.5 and,
with forces, 3.2.5). A particle has the momentum m (x1 − x0)/h at both, with the moment m x0 × x1 / h about the
origin, at both ends the same. So each body has one spatial momentum W in a step, and with the Jacobians J of the
bodies

    p0 = J(q0)ᵀ W + h/2 g(q0) − h/2 f,   p1 = J(q1)ᵀ W − h/2 g(q1) + h/2 f,

f being the forces of joints and controller in the middle. The first equation is solved for q1, the second gives p1.
Such a
map is symplectic: energy does not drift, it oscillates within O(h²), and momenta of symmetries are kept exactly.
Springs act in the middle of the step, which makes stiff ones stable at any h.

For a body with pose (R, p), mass m, first moment c and second moment Σ = ∫ b bᵀ dm the sums over particles are
∫ x0 × (x1 − x0) dm = m p0 × Δp + p0 × ΔR c + R0 c × Δp + axial(R0 Σ ΔRᵀ).

The equation is solved by Newton's method with the matrix H + h/2 D + h²/4 K, D and K the joints' dampers and springs:
one forward dynamics to an iteration, as Lee, Liu, Park and Srinivasa (2016) do for their integrator.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._varying import while_loop
from kinetree.dynamics import (
    Pose,
    forward_dynamics,
    forward_kinematics,
    gravity_force,
    inverse_dynamics,
    passive_force,
)
from kinetree.dynamics.matrices.dense import solve_general
from kinetree.model import Model, integrate
from kinetree.spatial import Quaternion, Vec3

from .forces import Controller, joint_force
from .stiffness import stiffened

ITERATIONS = 50


def _vector(x: Any) -> Vec3:
    return Vec3(x[..., 0], x[..., 1], x[..., 2])


def _columns(M: Any) -> list[Vec3]:
    return [_vector(M[..., k]) for k in range(3)]


def _combined(columns: list[Vec3], weights: Any) -> Vec3:
    """A matrix, by columns, times a vector."""
    x, y, z = (column * weight for column, weight in zip(columns, weights, strict=True))
    return x + y + z


def body_momentum(model: Model, start: Pose, end: Pose, h: float) -> Any:
    """W, (..., n_bodies, 6): momenta of bodies that go from one pose to another, moment about the world origin
    first.
    """
    I = jax.tree.map(lambda x: jnp.asarray(x, start.position.dtype), model.inertia)
    half_trace = 0.5 * (I.I.xx + I.I.yy + I.I.zz)
    xx, yy, zz = half_trace - I.I.xx, half_trace - I.I.yy, half_trace - I.I.zz
    second = ((xx, -I.I.xy, -I.I.xz), (-I.I.xy, yy, -I.I.yz), (-I.I.xz, -I.I.yz, zz))
    R, dR = _columns(start.rotation), _columns(end.rotation - start.rotation)
    p, dp = _vector(start.position), _vector(end.position - start.position)
    linear = dp * I.mass + _combined(dR, I.h)
    # axial(R Σ ΔRᵀ) is the sum of the cross products of the columns of R Σ and ΔR
    x, y, z = (_combined(R, weights).cross(column) for weights, column in zip(second, dR, strict=True))
    angular = p.cross(linear) + _combined(R, I.h).cross(dp) + (x + y + z)
    return jnp.stack([*angular, *linear], -1) / h


def rotor_velocity(model: Model, q: Any, v: Any, moved: Any) -> Any:
    """Velocities of rotors, (..., nv): v, but in sliding rows of free joints the straight way `moved`, seen from q.

    `moved` is the change of coordinates, (..., nq), over the time of the step.
    """
    joints = model.structure.quaternion_joints
    first, start, _ = joints[joints[:, 2] == 1].T
    three = np.arange(3)[:, None]
    here = Quaternion(*(q[..., start + 3 + k] for k in range(4))).normalized()
    way = here.conjugate().turn(Vec3(*(moved[..., start + k] for k in range(3))))
    return v.at[..., first + 3 + three].set(jnp.stack(way, -2)) if len(first) else v


def joint_momentum(model: Model, q: Any, W: Any, v: Any, moved: Any) -> Any:
    """J(q)ᵀ W, and the rotors' momenta at velocity v: what inverse dynamics asks for to bear −W, or to give v to
    rotors; `moved` as in `rotor_velocity`.
    """
    zero = jnp.zeros_like(v)
    rotors = jnp.asarray(model.rows.armature, v.dtype)
    if model.coupling is None:
        spinning = rotors * rotor_velocity(model, q, v, moved)
    else:
        wide_q, wide_v = model.coupling.widen_q(q), model.coupling.widen_v(v)
        wide_moved = moved[..., model.coupling.source_q]  # free joints neither follow nor lead
        turning = rotor_velocity(model, wide_q, wide_v, wide_moved)
        spinning = model.coupling.narrow(rotors * turning)
    return spinning - inverse_dynamics(model, q, zero, zero, W)


def _newton(residual: Any, step: Any, v: Any, h: float) -> tuple[Any, Any]:
    """The zero of the residual, from a guess (..., nv), and which states reached it; `step` divides by the slope."""
    eps = jnp.finfo(v.dtype).eps

    def size(x: Any) -> Any:
        return jnp.max(jnp.abs(x), axis=-1, initial=0.0)

    def unfinished(carry: Any) -> Any:
        *_, running, count = carry
        return (count < ITERATIONS) & running.any()

    def iterate(carry: Any) -> Any:
        """Each state iterates, by itself, until its corrections are within rounding or stop decreasing."""
        v, before, running, count = carry
        dv = step(residual(v))
        v, change = jnp.where(running[..., None], v + dv, v), jnp.where(running, size(dv), before)
        moving = (change > 2 * eps / h * (1 + size(v))) & (change < before)
        return v, change, running & ((count < 1) | moving), count + 1

    far = jnp.full(v.shape[:-1], jnp.inf, v.dtype)
    v, change, _, _ = while_loop(unfinished, iterate, (v, far, jnp.full(far.shape, True), 0))
    solved = change <= 1e4 * eps / h * (1 + size(v))
    return v, jnp.asarray(solved, v.dtype)  # a number, as JAX takes derivatives of it too


def _solve_linear(times: Any, b: Any) -> Any:
    """x with times(x) = b, (..., nv), for each state: the matrix, column by column, and a dense solve.

    So derivatives of a step are those of the equation that it solves, not of Newton's iterations.
    """
    unit = jnp.broadcast_to(jnp.eye(b.shape[-1], dtype=b.dtype), (*b.shape[:-1], *2 * b.shape[-1:]))
    matrix = jax.vmap(times, -1, -1)(unit)

    def solve(matrix: Any, b: Any) -> Any:
        return solve_general(matrix, b[..., None])[..., 0]

    return jax.lax.custom_linear_solve(
        times,
        b,
        lambda _, b: solve(matrix, b),
        lambda _, b: solve(jnp.swapaxes(matrix, -1, -2), b),
    )


def variational_step(model: Model, controller: Controller | None, t: Any, state: Any, h: float) -> Any:
    """One step; NaN in states where Newton's method fails."""
    q0, qd0 = state
    free = model.without_passive.replace(gravity=(0.0, 0.0, 0.0))
    matrix = stiffened(model, damped=h / 2, sprung=h * h / 4, rubbed=h / 2).without_passive.replace(
        gravity=(0.0, 0.0, 0.0)
    )
    zero, start = jnp.zeros_like(qd0), forward_kinematics(model, q0)
    p0 = inverse_dynamics(free, q0, zero, qd0) - h / 2 * gravity_force(model.without_passive, q0)

    def forces(v: Any) -> Any:
        middle = integrate(model, q0, v, h / 2)
        return joint_force(model, controller, t + h / 2, middle, v) + passive_force(model, middle, v)

    def momentum(v: Any) -> Any:
        return body_momentum(model, start, forward_kinematics(model, integrate(model, q0, v, h)), h)

    def lacking(v: Any) -> Any:
        moved = (integrate(model, q0, v, h) - q0) / h
        return p0 + h / 2 * forces(v) - joint_momentum(free, q0, momentum(v), v, moved)

    pushed = joint_force(model, controller, t, q0, qd0)
    guess = qd0 + h / 2 * forward_dynamics(stiffened(model, damped=h / 2, rubbed=h / 2), q0, qd0, pushed)

    def solve(residual: Any, guess: Any) -> tuple[Any, Any]:
        return _newton(residual, lambda force: forward_dynamics(matrix, q0, zero, force), guess, h)

    v, solved = jax.lax.custom_root(lacking, guess, solve, _solve_linear, has_aux=True)
    q1 = integrate(model, q0, v, h)
    p1 = joint_momentum(free, q1, momentum(v), v, (q1 - q0) / h)
    p1 = p1 - h / 2 * gravity_force(model.without_passive, q1) + h / 2 * forces(v)
    return q1, jnp.where(solved[..., None] > 0, forward_dynamics(free, q1, zero, p1), jnp.nan)

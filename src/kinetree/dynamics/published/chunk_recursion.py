"""Two-handle equations of a chunk of bodies by O(n) recursions (Critchley, Anderson and Binani 2007, eq. 44 – 71).

The forward recursion goes from the chunk's outermost body to its innermost: Î A = f1 + Ê f2 + F̂ (eq. 55 – 59), the
articulated-body recursion with one more term. It gives handle 1. The backward recursion goes from the innermost to the
outermost, with inner and outer exchanged (eq. 60 – 71), and gives handle 2. A chunk of one body has the equations of
that body (eq. 13 – 16). Arrays are (steps, chunks, batch, ...); shorter chunks are padded at their outer end.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from kinetree._varying import scan as loop

from ..matrices.dense import solve_spd, times, transpose
from .jointed_bodies import JointedBodies, plucker_inverse
from .two_handle import Subsystem


def scan(step: Callable, start: Any, turns: Any, reverse: bool = False) -> tuple[Any, Any]:
    """`lax.scan`, also of zero turns, which JAX refuses under `disable_jit`."""
    none = jax.tree.leaves(turns)[0].shape[0] == 0
    with jax.disable_jit(False) if none else nullcontext():
        return loop(step, start, turns, reverse=reverse)


class Recursive(NamedTuple):
    """Î, Ê, F̂ of a body; without the body's own terms, what it receives."""

    I: Any
    E: Any
    F: Any


def _choose(mask: Any, a: Any, b: Any) -> Any:
    return jax.tree.map(lambda x, y: jnp.where(mask.reshape(-1, *(1,) * (x.ndim - 1)), x, y), a, b)


def _released(r: Recursive, P: Any, c: Any, tau: Any, armature: Any) -> Recursive:
    """The body as seen across its free joint: U, M of eq. 46 and 47."""
    U = r.I @ P
    M = transpose(P) @ U + armature[..., None] * jnp.eye(P.shape[-1], dtype=P.dtype)
    N = transpose(solve_spd(M, transpose(U)))  # U M⁻¹
    left = r.I - N @ transpose(U)
    left = 0.5 * (left + transpose(left))
    F = r.F - times(N, times(transpose(P), r.F)) - times(left, c) - times(N, tau)
    return Recursive(left, r.E - N @ (transpose(P) @ r.E), F)


def forward(bodies: JointedBodies, valid: Any, outer: Any) -> Recursive:
    """Î, Ê, F̂ of every body (eq. 44 – 47, 58); `outer`, (chunks, batch, 6, m), takes forces at handle 2 to the last."""
    nothing = Recursive(jnp.zeros_like(bodies.I[0]), outer, jnp.zeros_like(bodies.p[0]))

    def step(received: Recursive, turn: Any) -> tuple[Recursive, Recursive]:
        (X, P, c, I, p, tau, armature), ok = turn
        own = Recursive(I + received.I, received.E, received.F - p)
        free, Xt = _released(own, P, c, tau, armature), transpose(X)
        passed = Recursive(Xt @ free.I @ X, Xt @ free.E, times(Xt, free.F))
        return _choose(ok, passed, received), own

    return scan(step, nothing, (tuple(bodies[:-1]), valid), reverse=True)[1]


def backward(bodies: JointedBodies, valid: Any) -> Recursive:
    """Ǐ, Ě, F̌ of the outermost body of each chunk (eq. 64 – 69)."""
    one = jnp.broadcast_to(jnp.eye(6, dtype=bodies.I.dtype), bodies.I.shape[1:])
    start = Recursive(bodies.I[0], one, -bodies.p[0])

    def step(inner: Recursive, turn: Any) -> tuple[Recursive, None]:
        (X, P, c, I, p, tau, armature), ok = turn
        back = plucker_inverse(X)
        moved = Recursive(transpose(back) @ inner.I @ back, transpose(back) @ inner.E, times(transpose(back), inner.F))
        free = _released(moved, P, -c, -tau, armature)
        return _choose(ok, Recursive(I + free.I, free.E, free.F - p), inner), None

    return scan(step, start, (jax.tree.map(lambda x: x[1:], tuple(bodies[:-1])), valid[1:]))[0]


def equations(bodies: JointedBodies, valid: Any, X_next: Any, c_next: Any, every: Recursive) -> Subsystem:
    """Eq. 51 and 52, from the forward recursion `every` and a backward one; X_next, c_next: of the body beyond."""
    base = jax.tree.map(lambda x: x[0], every)
    right = solve_spd(
        base.I,
        jnp.concatenate(
            [jnp.broadcast_to(jnp.eye(6, dtype=base.I.dtype), base.I.shape), base.E, base.F[..., None]], -1
        ),
    )
    end = backward(bodies, valid)
    tip = solve_spd(end.I, jnp.concatenate([end.E, transpose(X_next), end.F[..., None]], -1))
    return Subsystem(
        right[..., :6],
        right[..., 6:12],
        X_next @ tip[..., :6],
        X_next @ tip[..., 6:12],
        right[..., 12],
        times(X_next, tip[..., 12]) + c_next,
    )


def terminal_equations(every: Recursive) -> tuple[Any, Any]:
    """Φ11 and b1 of terminal chunks (eq. 50)."""
    base = jax.tree.map(lambda x: x[0], every)
    one = jnp.broadcast_to(jnp.eye(6, dtype=base.I.dtype), base.I.shape)
    solved = solve_spd(base.I, jnp.concatenate([one, base.F[..., None]], -1))
    return solved[..., :6], solved[..., 6]


def solution(bodies: JointedBodies, valid: Any, every: Recursive, a_first: Any, f2: Any) -> tuple[Any, Any]:
    """u̇ and A of every body, outward, eq. 57. The first body's A is given; its u̇ is found outside the chunk."""

    def step(a: Any, turn: Any) -> tuple[Any, Any]:
        (X, P, c, _, _, tau, armature), (I, E, F), ok = turn
        M = transpose(P) @ I @ P + armature[..., None] * jnp.eye(P.shape[-1], dtype=P.dtype)
        reached = times(X, a) + c
        force = times(I, reached) - times(E, f2) - F
        u = solve_spd(M, (tau - times(transpose(P), force))[..., None])[..., 0]
        moved = reached + times(P, u)
        return _choose(ok, moved, a), (u, moved)

    rest = jax.tree.map(lambda x: x[1:], (tuple(bodies[:-1]), tuple(every), valid))
    _, (u, a) = scan(step, a_first, rest)
    first = jnp.zeros_like(bodies.tau[:1])
    return jnp.concatenate([first, u]), jnp.concatenate([a_first[None], a])

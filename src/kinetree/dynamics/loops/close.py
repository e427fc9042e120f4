"""Configurations and velocities in which loops are closed.

`close_loops` finds a configuration near a guess by Levenberg and Marquardt's method on the manifold of configurations.
The damping decreases as the square of the error, so convergence is quadratic, also with redundant rows (Fan and Yuan
2005). If the search stalls, as in a stretched mechanism that must bend, it starts again at a nearby point.
`kept_closed` removes the drift of a time step: two Newton steps with the metric of the mass matrix, and a projection of
the velocity.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from kinetree._types import Array, Float
from kinetree._varying import while_loop
from kinetree.model import Model, difference, integrate
from kinetree.model.arguments import evaluate_for
from kinetree.model.required import require_model

from ..forward_dynamics import forward_dynamics
from ..matrices.dense import solve_spd
from .forward import answers_of, force_solver, rows_of_state
from .rows import LoopRows, row_layout

MAX_CLOSING_STEPS = 300  # steps of all attempts together; from a good guess 4 to 8 are enough
MAX_TRIES = 12  # attempts, each from another start
RESTART_DISTANCE = 0.1  # radians and metres; the second attempt starts this far from q, each later one further away
DAMPING_GROWTH = 4.0  # The damping is multiplied by this after a step that did not help.
DAMPING_DECAY = 0.25  # The damping is multiplied by this after a step that helped.
MAX_DAMPING = 1e6  # An attempt ends at this damping: its steps have become too short to help.
CLOSED_POWER = 0.6  # power of the machine epsilon: the largest error of a closed loop (m, rad), 4e-10 or 7e-5
DONE_EPS = 4.0  # machine epsilons; loops with a smaller error are closed as well as rounding allows


@jax.jit
def _search(model: Model, q: Any, aside: Any) -> tuple[Any, Any]:
    """The best configuration of one state, (nq,), and its errors (m,); `aside`, (tries, nv): offsets of the starts."""

    def rows(q: Any) -> tuple[Any, Any]:
        found = rows_of_state(model, q[None], jnp.zeros((1, model.nv), q.dtype))
        return found.G[0], found.error[0]

    eps = jnp.finfo(q.dtype).eps
    least = DONE_EPS * eps

    def unfinished(s: Any) -> Any:
        _, _, error, _, count, tries, _ = s
        return (jnp.abs(error).max() > least) & (count < MAX_CLOSING_STEPS) & (tries < MAX_TRIES)

    def improve(s: Any) -> Any:
        q, G, error, damping, count, tries, best = s
        size = (error * error).sum()
        there = integrate(model, q, _least_motion(G, error, damping * size), 1.0)
        G_there, error_there = rows(there)
        better = (error_there * error_there).sum() < size
        q, G, error = (
            jnp.where(better, a, b) for a, b in zip((there, G_there, error_there), (q, G, error), strict=True)
        )
        damping = damping * jnp.where(better, DAMPING_DECAY, DAMPING_GROWTH)
        closer = jnp.abs(error).max() < jnp.abs(best[1]).max()
        best = jnp.where(closer, q, best[0]), jnp.where(closer, error, best[1])
        near = jnp.abs(best[1]).max() <= eps**CLOSED_POWER
        stalled = damping > MAX_DAMPING
        ended = stalled & near  # closed to rounding, and no step helps any more
        start = integrate(model, first, aside[jnp.minimum(tries, MAX_TRIES - 1)], 1.0)
        again = stalled & ~near

        def restart(_: None) -> Any:
            return (start, *rows(start))

        q, G, error = lax.cond(again, restart, lambda _: (q, G, error), None)
        tries = jnp.where(ended, MAX_TRIES, tries + again.astype(tries.dtype))
        return q, G, error, jnp.where(again, 1.0, damping).astype(q.dtype), count + 1, tries, best

    first = q
    G, error = rows(q)
    zero = jnp.zeros((), jnp.int32)
    state = q, G, error, jnp.ones((), q.dtype), zero, zero, (q, error)
    return while_loop(unfinished, improve, state)[-1]


def _least_motion(G: Any, error: Any, damping: Any) -> Any:
    """The least motion, (nv,), that takes away an error; rows G may depend on others."""
    K = G @ G.T
    small = 8 * jnp.finfo(G.dtype).eps * jnp.trace(K) + jnp.finfo(G.dtype).tiny
    A = K + (damping + small) * jnp.eye(len(error), dtype=G.dtype)
    return -(G.T @ solve_spd(A, error[:, None])[:, 0])


def _one_more_step(model: Model, q: Any, found: Any) -> Any:
    """The configurations that were `found`, after one more step. They move as projections of q.

    The search is not differentiated. What q moves by is added where it ended, and the last step closes loops again.
    """
    by = difference(model, lax.stop_gradient(q), q)  # zero
    near = integrate(model, found, by, 1.0)
    rows = rows_of_state(model, near, jnp.zeros_like(by))
    back = jax.vmap(_least_motion, (0, 0, None))(lax.stop_gradient(rows.G), rows.error, 0.0)
    return integrate(model, near, back, 1.0)


def _closed(model: Model, q: Any) -> Any:
    """q with the loops closed; NaN in states where they stay open."""
    rng = np.random.default_rng(0)
    aside = (
        RESTART_DISTANCE * np.linspace(1, MAX_TRIES, MAX_TRIES)[:, None] * rng.standard_normal((MAX_TRIES, model.nv))
    )

    def compute(q: Any) -> Any:
        still = lax.stop_gradient((model, q))
        found, error = jax.vmap(_search, (None, 0, None))(*still, jnp.asarray(aside, q.dtype))
        found = _one_more_step(model, q, found)
        limit = jnp.finfo(q.dtype).eps ** CLOSED_POWER
        return jnp.where(jnp.abs(error).max(-1, keepdims=True) <= limit, found, jnp.nan)

    return evaluate_for(model, compute, q=q)


@overload
def close_loops(model: Model, q: Float[Array, "... nq"], qd: None = None) -> Float[Array, "... nq"]: ...


@overload
def close_loops(
    model: Model, q: Float[Array, "... nq"], qd: Float[Array, "... nv"]
) -> tuple[Float[Array, "... nq"], Float[Array, "... nv"]]: ...


def close_loops(
    model: Model, q: Float[Array, "... nq"], qd: Float[Array, "... nv"] | None = None
) -> Float[Array, "... nq"] | tuple[Float[Array, "... nq"], Float[Array, "... nv"]]:
    """The configuration near q in which the rigid loops of a model are closed, and a velocity that keeps them so.

        model = kt.load("robot.xml", rigid_equalities=True)
        q = kt.close_loops(model, kt.neutral(model))

    Arguments:
        model: the mechanism; without loops nothing changes.
        q: (..., nq), a guess.
        qd: (..., nv), if velocities are wanted too.

    Returns:
        q, (..., nq); with qd the pair q, qd, the velocity nearest to it in the metric of the mass matrix. Where no such
        configuration was found: NaN in that state, for JAX arrays. Derivatives, in both modes, are those of the nearest
        closed configuration, as if the guess were where the search ended.

    Raises:
        ValueError: the same for NumPy arrays; says in which state, and which loop stays open.
    """
    require_model(model)
    if model.loops is None:
        if qd is None:
            return evaluate_for(model, lambda q: q, q=q)
        return evaluate_for(model, lambda q, qd: (q, qd), q=q, qd=qd)
    closed = _closed(model, q)
    _require_closed(model, q, closed)
    if qd is None:
        return closed
    return closed, evaluate_for(model, partial(along_loops, model), q=closed, qd=qd)


def _require_closed(model: Model, q: Any, closed: Any) -> None:
    if not isinstance(closed, np.ndarray) or not np.isnan(closed).any():
        return
    loops = model.loops
    assert loops is not None
    state = tuple(map(int, np.argwhere(np.isnan(closed).any(-1))[0]))
    own = np.broadcast_to(np.asarray(q, float), closed.shape)[state][None]
    still = np.zeros((1, model.nv))
    rows = evaluate_for(model, partial(rows_of_state, model), q=own, qd=still)
    error = np.abs(rows.error[0])
    row = int(np.argmax(error))
    where = f", state {', '.join(map(str, state))}" if state else ""
    if row < loops.starts[-1]:
        i = int(np.searchsorted(loops.starts, row, side="right")) - 1
        names = [repr(model.names[b]) if b >= 0 else "the base" for b in (loops.bodies1[i], loops.bodies2[i])]
        which = f"loop {i} ({loops.kinds[i]} of {names[0]} and {names[1]})"
    else:
        which = "a joint that follows another"
    raise ValueError(
        f"close_loops{where}: no configuration near q closes all loops. At q {which} is the furthest open, by "
        f"{error[row]:.3g}: the bodies may be too short to meet, or q too far from where they do"
    )


def along_loops(model: Model, q: Any, qd: Any) -> Any:
    """The velocity nearest to qd, in the metric of the mass matrix, that keeps loops closed; (batch, nv)."""
    rows, back = _way_back(model, q, qd)
    return qd + back(-rows.velocity)


def kept_closed(model: Model, q: Any, qd: Any) -> tuple[Any, Any]:
    """A state, (batch, ...), without the drift of a time step: q after two Newton steps, and qd projected."""
    rows, back = _way_back(model, q, qd)
    q = integrate(model, q, back(-rows.error), 1.0)
    rows, back = _way_back(model, q, qd)
    return integrate(model, q, back(-rows.error), 1.0), qd + back(-rows.velocity)


def _way_back(model: Model, q: Any, qd: Any) -> tuple[LoopRows, Callable[[Any], Any]]:
    """The rows, and the least motion, (batch, nv), that closes them."""
    assert model.loops is not None
    rows = rows_of_state(model, q, qd)
    hold = force_solver(rows.G, answers_of(model, forward_dynamics, q, rows.G), row_layout(model.loops).classes)
    return rows, lambda right: hold(right)[1]

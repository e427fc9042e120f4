"""Coupling rows by conjugate gradients: (A + GᵀCG) x = f + Gᵀg, with A⁻¹, two sweeps over the tree, as preconditioner.

With x = A⁻¹(f + Gᵀλ) the unknowns are the forces λ of the coupling rows, which must be λ = g − C G x. The residual of x
is then Gᵀρ with ρ = g − C G x − λ, and all inner products are sums over coupling rows. An iteration costs one
application of G A⁻¹ Gᵀ. Without rounding errors it ends after the number of active rows plus one; on nets of loops much
earlier. Inactive rows have C = 0 and stay at λ = 0.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from kinetree._varying import while_loop
from kinetree.spatial import Scalar

from .cones import Response, Vector, dot, times, total
from .groups import Group, Load
from .rigid import RigidInverse
from .sweeps import Answer, TreeInverse

RESIDUAL_EPS = 4.0  # machine epsilons; iterations end at this ratio of residual to right side, in the norm of A
EXTRA_STEPS = 20  # the limit of iterations is three for each direction plus these, because of rounding


Rows = tuple[Vector, ...]  # numbers of all coupling rows, by group


class Found(NamedTuple):
    """The solution for the tree and its coupling rows."""

    answer: Answer
    converged: Scalar  # (batch,)


class _State(NamedTuple):
    force: Rows  # λ
    rest: Rows  # ρ
    way: Rows  # the direction, in forces
    moves: Rows  # G A⁻¹ Gᵀ times the direction
    size: Scalar  # ρᵀ G A⁻¹ Gᵀ ρ of the last iteration
    least: Scalar  # the size at which iterations end
    done: Scalar
    count: Scalar


def _sum(a: Rows, b: Rows) -> Scalar:
    return sum(total(dot(x, y)) for x, y in zip(a, b, strict=True))  # type: ignore[return-value]


def _plus(a: Rows, factor: Scalar, b: Rows) -> Rows:
    return jax.tree.map(lambda x, y: x + factor * y, a, b)


def _curved(responses: list[Response], y: Rows) -> Rows:
    """C y."""
    return tuple(times(r.curvature, own) for r, own in zip(responses, y, strict=True))


def _pull(groups: list[Group], like: Scalar, force: Rows) -> Load:
    load = Load.none(like)
    for group, own in zip(groups, force, strict=True):
        load = group.pull(load, own)
    return load


def solve_coupled(
    inverse: TreeInverse | RigidInverse, groups: list[Group], responses: list[Response], old: Scalar, skip: Scalar
) -> Found:
    """x of every position.

    Arguments:
        inverse: A⁻¹, with the forces f of the load.
        groups: of coupling rows.
        responses: of the groups; curvatures stay, and the iteration starts from the forces. old: Δx is measured from
        here. skip: (batch,), lanes that are done already.
    """
    inverse = inverse.kept()
    pulls, start = tuple(r.pull for r in responses), tuple(r.force for r in responses)
    directions = sum(len(own) * own[0].shape[0] for own in start)
    most = 3 * directions + EXTRA_STEPS
    least = (RESIDUAL_EPS * jnp.finfo(old.dtype).eps) ** 2

    def improve(s: _State) -> _State:
        """The first turn finds the residual of the start, and each one after it is an iteration."""
        first = s.count == 0
        load = _pull(groups, old, _choose(first, start, s.rest))
        found = inverse.reply(load.force, load.body.bias, jnp.where(first, 1.0, 0.0).astype(old.dtype))
        moved = tuple(g.rates(found.x, found.a) for g in groups)
        begun = _choose(first, _rest(groups, responses, pulls, start, moved), s.rest)
        # an iteration; it has no effect in the first turn
        size = _sum(s.rest, moved)
        done = s.done | (~first & (size <= s.least))
        beta = jnp.where(done | (s.count <= 1), 0.0, size / jnp.where(s.size > 0, s.size, 1.0))
        way, moves = _plus(s.rest, beta, s.way), _plus(moved, beta, s.moves)
        toward = _plus(way, jnp.ones_like(size), _curved(responses, moves))
        bent = _sum(toward, moves)
        alpha = jnp.where(done | first | ~(bent > 0), 0.0, size / jnp.where(bent > 0, bent, 1.0))
        return _State(
            _plus(s.force, alpha, way),
            _plus(begun, -alpha, toward),
            way,
            moves,
            size,
            jnp.where(first, total(found.squared) * least, s.least),
            done,
            s.count + 1,
        )

    nothing = jax.tree.map(jnp.zeros_like, start)
    zero = jnp.zeros_like(old[0])
    begin = _State(start, nothing, nothing, nothing, zero, zero, skip, jnp.zeros((), jnp.int32))
    end = while_loop(lambda s: ~s.done.all() & (s.count < most), improve, begin)
    force = end.force
    if isinstance(inverse, RigidInverse):  # a force against loops alone moves nothing, so iterations do not see it
        force = _plus(force, jnp.ones_like(zero), end.rest)
    load = _pull(groups, old, force)
    return Found(inverse.first(old, load.force, load.body.bias), end.done)


def _choose(first: Scalar, a: Rows, b: Rows) -> Rows:
    return jax.tree.map(lambda x, y: jnp.where(first, x, y), a, b)


def _rest(groups: list[Group], responses: list[Response], pulls: Rows, force: Rows, moved: Rows) -> Rows:
    """ρ = g − C w − λ, with w = G x − a_ref."""
    w = tuple(tuple(y - r for y, r in zip(own, g.ref, strict=True)) for g, own in zip(groups, moved, strict=True))
    return jax.tree.map(lambda g, c, f: g - c - f, pulls, _curved(responses, w), force)

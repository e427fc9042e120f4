"""Friction that does not creep: MuJoCo's noslip, solved to convergence.

Soft friction lets a resting contact slip a little. After the solve all other forces are kept, and friction f, within
its bounds, is found again without softness: the f in K that minimises ½ fᵀ G M⁻¹ Gᵀ f + fᵀ (G a − a_ref). K is an
interval for friction loss and for each direction of a pyramidal cone, and an ellipse for elliptic cones. Newton's
method needs some softness, so the force is found by the proximal point method (Rockafellar 1976): with f the last force
and D a stiffness, the force is Π_K(f − D w). At the fixed point this has no softness. Each turn makes the error about D
G M⁻¹ Gᵀ times smaller. MuJoCo makes some sweeps of Gauss and Seidel towards the same minimum (`noslip_iterations`);
kinetree goes on until it is reached.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import jax.numpy as jnp
from jax.tree_util import register_dataclass

from kinetree._varying import scan
from kinetree.model import Coupling
from kinetree.spatial import Scalar

from .cones import Cone, Dry, Response, Vector, dot
from .groups import Group
from .newton import FreeTree, Solution, constraint_force, minimise

STIFFER = {"float64": 1e4, "float32": 1e2}  # the stiffness of a turn over that of soft friction
TURNS = 8


@register_dataclass
@dataclass(frozen=True)
class Grip:
    """Friction within bounds, about a last force; of contacts the normal force comes first, and stays."""

    normal: Scalar | None
    force: Vector  # the last one
    D: Vector
    bound: Vector  # of each direction
    round: bool = field(metadata={"static": True})  # all directions share one bound, an ellipse

    def response(self, w: Vector) -> Response:
        along = w if self.normal is None else w[1:]
        free = tuple(f - d * x for f, d, x in zip(self.force, self.D, along, strict=True))
        force, H, state, curved = (_within_ellipse if self.round else _within_box)(free, self.D, self.bound)
        pull = list(force)
        for i, row in enumerate(H):
            for j, h in enumerate(row, start=i):
                pull[i] = pull[i] + h * along[j]
                pull[j] = pull[j] + (h * along[i] if j > i else 0.0)
        if self.normal is None:
            return Response(force, H, tuple(pull), state, curved)
        zero = jnp.zeros_like(self.normal)
        still = (zero,) * (1 + len(along))
        return Response((self.normal, *force), (still, *H), (self.normal, *pull), state, curved)


def _within_box(free: Vector, D: Vector, bound: Vector) -> tuple[Vector, Any, Scalar, Scalar]:
    zero = jnp.zeros_like(free[0] * bound[0])
    state, force, H = zero.astype(jnp.int32), [], []
    for k, (f, d, most) in enumerate(zip(free, D, bound, strict=True)):
        low, high = f <= -most, f >= most
        force.append(jnp.where(low, -most, jnp.where(high, most, f)))
        H.append((jnp.where(low | high, zero, d + zero), *(zero,) * (len(free) - 1 - k)))
        state = state + (low.astype(jnp.int32) + 2 * high.astype(jnp.int32)) * 4**k
    return tuple(force), tuple(H), state, jnp.zeros_like(zero, bool)


def _within_ellipse(free: Vector, D: Vector, bound: Vector) -> tuple[Vector, Any, Scalar, Scalar]:
    """Π of the ellipse Σ (f/bound)² ≤ 1, in a norm in which it is round: D grows with the square of the bound."""
    zero = jnp.zeros_like(free[0] * bound[0])
    some = bound[0] > 0
    unit = tuple(jnp.where(some, f / jnp.where(some, b, 1.0), zero) for f, b in zip(free, bound, strict=True))
    squared = dot(unit, unit)
    slides = (squared > 1) | ~some
    length = jnp.sqrt(jnp.where(squared > 1, squared, 1.0))
    e = tuple(u / length for u in unit)
    force = tuple(jnp.where(slides, b * x, f) for b, x, f in zip(bound, e, free, strict=True))

    def block(i: int, j: int) -> Scalar:
        own = jnp.where(some, D[i] / length, zero) if i == j else zero
        across = jnp.where(some, jnp.sqrt(D[i] * D[j]) / length * e[i] * e[j], zero)
        return jnp.where(slides, own - across, D[i] + zero if i == j else zero)

    n = len(free)
    H = tuple(tuple(block(i, j) for j in range(i, n)) for i in range(n))
    return force, H, slides.astype(jnp.int32), slides & some


def cone_grip(cone: Cone, force: Vector, bound: Vector) -> Grip:
    """Friction of a contact about its last force, whose first part is the normal one."""
    mu = cone.friction
    stiffer = STIFFER[force[0].dtype.name]
    if cone.elliptic:
        D = tuple(stiffer * cone.D * cone.impratio * (m / mu[0]) * (m / mu[0]) for m in mu)
    else:
        D = tuple(stiffer * 2 * cone.D * m * m for m in mu)
    return Grip(force[0], force[1:], D, bound, cone.elliptic)


def cone_bounds(cone: Cone, w: Vector, r: Response) -> Vector:
    """The friction limit of a contact in each direction, from its soft forces."""
    mu = cone.friction
    if cone.elliptic:
        return tuple(m * r.force[0] for m in mu)
    return tuple(
        m * cone.D * (jnp.maximum(-(w[0] + m * t), 0) + jnp.maximum(-(w[0] - m * t), 0))
        for m, t in zip(mu, w[1:], strict=True)
    )


def _cone_grip(cone: Cone, w: Vector, r: Response) -> Grip:
    return cone_grip(cone, r.force, cone_bounds(cone, w, r))


def _gripping(group: Group, w: Vector) -> Group | None:
    """The group with friction that does not creep; None if all its forces stay."""
    r, cost = group.response(w), group.cost
    if isinstance(cost, Cone) and len(w) > 1:
        return replace(group, cost=_cone_grip(cost, w, r))
    if isinstance(cost, Dry):
        return replace(group, cost=loss_grip(cost.D, cost.most, r.force))
    return group if group.inertial else None


def loss_grip(D: Scalar, most: Scalar, force: Vector) -> Grip:
    """Friction loss about its last force."""
    return Grip(None, force, (STIFFER[D.dtype.name] * D,), (most,), False)


def _with_force(group: Group, force: Vector) -> Any:
    """About another last force."""
    if not isinstance(group.cost, Grip):
        return group
    own = force if group.cost.normal is None else force[1:]
    return replace(group, cost=replace(group.cost, force=own))


def without_slip(
    coupling: Coupling | None, most: int, tree: FreeTree, groups: list[Group], found: Solution
) -> tuple[FreeTree, list[Group], Solution]:
    """The problem with friction that does not creep, and its solution, from that of the soft one.

    The forces of the groups that are left out are in the tree's b.
    """
    made = [_gripping(g, w) for g, w in zip(groups, found.w, strict=True)]
    kept = [g for g in made if g is not None]
    if not any(isinstance(g.cost, Grip) for g in kept):
        return tree, groups, found
    out = [(g, w) for g, w, m in zip(groups, found.w, made, strict=True) if m is None]
    b = tree.b + constraint_force(tree, [g for g, _ in out], tuple(w for _, w in out))
    held = tree._replace(own=tree.own._replace(force=b))
    w = tuple(w for w, m in zip(found.w, made, strict=True) if m is not None)
    counts = jnp.zeros_like(found.iterations)

    def turn(carry: Any, _: Any) -> Any:
        now, x, w, count, good, _ = carry
        s = minimise(coupling, most, held, now, x, w)
        ahead = [_with_force(g, g.response(own).force) for g, own in zip(now, s.w, strict=True)]
        return (ahead, s.x, s.w, count + s.iterations, good & s.converged, s.multipliers), None

    start = (kept, found.x, w, counts, jnp.ones_like(found.converged), found.multipliers)
    (kept, x, w, count, good, loops), _ = scan(turn, start, None, length=TURNS)
    total = Solution(x, w, loops, found.iterations + count, found.converged & good)
    return held, kept, total


def all_forces(trees: tuple[FreeTree, FreeTree], kept: list[Group], found: Solution) -> Scalar:
    """Jᵀ force of all constraints, by position: those that stayed are in the second tree's b."""
    stayed = trees[1].b - trees[0].b
    return stayed + constraint_force(trees[1], kept, found.w, found.multipliers, inertial=False)

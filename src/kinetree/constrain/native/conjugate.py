"""Conjugate gradients on the forces between two moving bodies, in lanes, with the tree as preconditioner.

The method is that of constrain/conjugate.py. With x = A⁻¹(f + Gᵀλ) the unknowns are the forces λ of the coupling rows,
which must be λ = g − C w; the residual is ρ. A turn solves with the tree for ρ: a sweep inward with known pivots, and
one outward. After the turns x is moved by the forces that were found, in all lanes together. Lanes without such
contacts take no turn.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from kinetree.dynamics.elements.articulated import freed_bias, joint_answer
from kinetree.lanes import Slots
from kinetree.spatial import Force, Motion

from ..cones import dot, times
from ..conjugate import RESIDUAL_EPS
from . import roots
from .coupled import BODY1, BODY2, POINT, REPLY1, REPLY2, apart, both_forces
from .delassus import correct_solution
from .kinds import Kind
from .kinematics import without_roots
from .memory import (
    NUMBER,
    REPLY,
    ROW,
    SIDES,
    ZERO3,
    Conjugate,
    Norms,
    PivotSlots,
    articulated_bias,
    coupled_memory,
    fixed,
    summed,
    total,
    totals,
)
from .parts import Again, Part, added, copy, fill, once, part, table
from .plan import Plan

FORESEEN = 100.0  # safety factor on the largest ρᵀ G A⁻¹ Gᵀ ρ / ρᵀ ρ so far: another ρ may be ten times as steep
SWEPT = "swept"  # The list of rows that move bodies which touch others.
MOST_TURNS = 200  # turns of conjugate gradients; without rounding, the active rows plus two are enough


def _field(dim: int, name: str) -> Any:
    return coupled_memory(dim).at(POINT, name)


def beginning(kind: Kind, dim: int) -> Part:
    """Put the present forces of the contacts on the tree, before it is swept."""

    def step(known, *reads):
        kept, r = kind.state(known, reads)
        one, two = both_forces(kept[0], kept[3], r.force)
        return (r.force, r.force, -one, -two)

    made = (_field(dim, "force"), _field(dim, "first"), *added(articulated_bias(BODY1), articulated_bias(BODY2)))
    return kind.part(step, (*kind.own, *kind.now), made, rare=True)


def find_residual(kind: Kind, dim: int) -> Part:
    """Find ρ = g − C w − λ, with w after the tree was solved with the forces λ."""

    def step(known, *reads):
        kept, r = kind.state(known, reads)
        new, force = tuple(reads[-3:-1]), reads[-1]
        bent = times(r.curvature, kind.residual(known, kind.bare(kept), new))
        rest = tuple(g - c - f for g, c, f in zip(r.pull, bent, force, strict=True))
        none = tuple(jnp.zeros_like(x) for x in rest)
        return (rest, none, none, dot(rest, rest))

    reads = (*kind.own, *kind.now, *kind.at(1), _field(dim, "force"))
    writes = tuple(_field(dim, f) for f in ("rest", "way", "moves"))
    return kind.part(step, reads, (*writes, *added(fixed("rest"))))


def load_tree(kind: Kind, dim: int, last: bool) -> Part:
    """Put forces on the tree: the residual; after the last turn all forces added since the beginning."""

    def step(point, other, *forces):
        f = tuple(b - a for a, b in zip(*forces, strict=True)) if last else forces[0]
        one, two = both_forces(point, other, f)
        return (-one, -two)

    reads = tuple(_field(dim, f) for f in ("point", "other", *(("first", "force") if last else ("rest",))))
    return kind.part(
        step, reads, added(REPLY.at(REPLY1, "applied"), REPLY.at(REPLY2, "applied")), plain=True, rare=True
    )


def measure_residual(kind: Kind, dim: int) -> Part:
    """Find how the bodies move apart for the residual, and the size of the residual."""

    def step(point, other, rest, a1, a2):
        moved = apart(point, other, a1, a2, dim)
        return (moved, dot(rest, moved))

    own = tuple(_field(dim, f) for f in ("point", "other", "rest"))
    reads = (*own, REPLY.at(REPLY1, "a"), REPLY.at(REPLY2, "a"))
    return kind.part(step, reads, (_field(dim, "moved"), *added(fixed("product"))), plain=True)


def choose_direction(kind: Kind, dim: int) -> Part:
    """Choose the next direction; find its effect on the residual (in the place of `moved`), and its curvature."""

    def step(known, *reads):
        _, r = kind.state(known, reads)
        rest, way, moves, moved, state = reads[-5:]
        way = tuple(a + state.beta * b for a, b in zip(rest, way, strict=True))
        moves = tuple(a + state.beta * b for a, b in zip(moved, moves, strict=True))
        toward = tuple(a + b for a, b in zip(way, times(r.curvature, moves), strict=True))
        return (way, moves, toward, dot(toward, moves))

    own = tuple(_field(dim, f) for f in ("rest", "way", "moves", "moved"))
    reads = (*kind.own, *kind.now, *own, fixed("conjugate"))
    return kind.part(step, reads, (*own[1:], *added(fixed("bent"))))


def update_forces(kind: Kind, dim: int) -> Part:
    """Update forces and residual by a step along the direction."""

    def step(force, rest, way, toward, state):
        rest = tuple(x - state.alpha * t for x, t in zip(rest, toward, strict=True))
        return (tuple(f + state.alpha * p for f, p in zip(force, way, strict=True)), rest, dot(rest, rest))

    own = tuple(_field(dim, f) for f in ("force", "rest", "way", "moved"))
    return kind.part(step, (*own, fixed("conjugate")), (*own[:2], *added(fixed("lacks"))), plain=True)


# -- the tree ---------------------------------------------------------------------------------------------------------


def solve_tree(links: bool, rigid: bool, last: bool) -> list[Part]:
    """How the tree answers the forces in `applied`: the accelerations of A⁻¹ of them.

    Only bodies that touch others get forces, and only their accelerations are asked for. So other rows are left out,
    but not where there are links. The `last` time x and the accelerations of all rows are computed again, with all
    forces. Free joints on which trees hang answer in one turn, but where links ask for the pivots of all rows. `rigid`:
    some links are loops.
    """

    def inward(applied, S, pivot):
        u = -S.dot(applied)
        return (u, Force(ZERO3, ZERO3), freed_bias(pivot.U, pivot.d_inverse, u, applied))

    def outward(above, u, S, pivot):
        return (above + S * joint_answer(pivot.U, pivot.d_inverse, u, above),)

    def again(above, change, u, S, pivot, x):
        new = joint_answer(pivot.U, pivot.d_inverse, pivot.u + u, above)
        norms, change = step_norms(change, S, pivot, x, new)
        return (new, above + S * new, change, norms.change)

    def sweep(plan: Plan) -> np.ndarray:
        return _sweep(plan, links)

    def back(plan: Plan) -> np.ndarray:
        return _sweep(plan, links)[::-1].copy()

    def ends(plan: Plan) -> np.ndarray:
        rows = _swept_rows(plan, links)
        return table(plan.row(rows), plan.reply(rows), plan.up(rows), plan.total(rows))

    joint, options = (ROW.at(0, "S"), ROW.at(0, "pivot")), {"scratch": True, "follows": "" if links else SWEPT}
    made = (*REPLY.of(1, "u", "applied"), *added(REPLY.at(2, "applied")))
    inwards = [part(back, inward, (REPLY.at(1, "applied"), *joint), made, backward=not links, **options)]

    asks = "wanted" if rigid else ""
    inwards += correct_solution(True, asks, _state("closing")) if links else []
    if not last:
        rooted = [] if links else [roots.reply_of_roots()]
        reads = (REPLY.at(2, "a"), REPLY.at(1, "u"), *joint)
        return [*inwards, *rooted, part(sweep, outward, reads, (REPLY.at(1, "a"),), **options)]
    norm = _changed(total(3, "norms"))
    rooted = [] if links else [roots.solve_roots(norm=norm)]
    none = fill(Plan.totals, *map(_changed, totals("norms")))
    reads = (*ROW.of(2, "a_new", "change"), REPLY.at(1, "u"), *joint, ROW.at(0, "x"))
    return [*inwards, none, *rooted, part(ends, again, reads, (*ROW.of(0, "x_new", "a_new", "change"), *added(norm)))]


def _sweep(plan: Plan, links: bool) -> np.ndarray:
    rows = _swept_rows(plan, links)
    return table(plan.row(rows), plan.reply(rows), plan.reply_up(rows))


def _swept_rows(plan: Plan, links: bool) -> np.ndarray:
    return plan.outward_rows if links else without_roots(plan, plan.outward_rows)


def unforced(kinds: list[Kind], links: bool) -> list[Part]:
    """Clear the forces on rows, before Newton's first round; each turn clears them again. Bases are at rest.

    Without links, list the rows that move bodies which touch others.
    """
    fields = ("applied", "u", "a", "on")
    none = fill(lambda plan: table(plan.reply(np.arange(-plan.n_trees, plan.n))), *REPLY.of(0, *fields), scratch=True)
    if links:
        return [none]

    on, both = REPLY.at(1, "on"), (REPLY.at(REPLY1, "on"), REPLY.at(REPLY2, "on"))
    marks = [fill(kind.table, *both, values=(1.0, 1.0), rare=True, **kind.acting) for kind in kinds]
    up, listed = REPLY.at(2, "on"), (SWEPT, fixed("product"))
    return [
        none,
        *marks,
        part(
            lambda plan: _sweep(plan, False)[::-1].copy(), lambda *x: (jnp.maximum(*x),), (on, up), (up,), scratch=True
        ),
        copy(lambda plan: _sweep(plan, False), (on,), listed[1:], columns=3, lists=listed),
    ]


def _state(field: str) -> Slots:
    state = fixed("conjugate")
    return state._replace(offset=state.offset + Conjugate._fields.index(field), tree=NUMBER)


def step_norms(change: Motion, S: Motion, pivot: PivotSlots, x: Any, new: Any) -> tuple[Norms, Motion]:
    """The terms of a row in the norms of a step, from the change above it; and the change of its own acceleration."""
    by = new - x
    e = by + change.dot(pivot.U) * pivot.d_inverse
    return Norms(e * e * pivot.d, pivot.u * pivot.u * pivot.d_inverse), change + S * by


def _changed(norms: Slots) -> Slots:
    """The norm of the step alone, which is the first of the norms."""
    return norms._replace(tree=NUMBER)


# -- what to do next --------------------------------------------------------------------------------------------------


def _flag(condition: Any, like: Any) -> Any:
    return jnp.where(condition, jnp.ones_like(like), jnp.zeros_like(like))


def decide_start(finishes: bool) -> Part:
    """Decide if another round follows: the residual is not small yet, and this is not the last round."""

    def step(rest, *last):
        some = rest > 0
        if finishes:
            some = some & (last[0] == 0)
        return (_flag(some, rest), rest, Conjugate(*6 * (jnp.zeros_like(rest),)))

    reads = (fixed("rest"), *((fixed("finishing"),) if finishes else ()))
    writes = tuple(map(fixed, ("coupling", "lacks", "conjugate")))
    return part(once, step, reads, writes)


def _least(norms: Norms) -> Any:
    """The size of ρᵀ G A⁻¹ Gᵀ ρ if ρ is only rounding error."""
    return (RESIDUAL_EPS * float(jnp.finfo(norms.size.dtype).eps)) ** 2 * norms.size


def decide_round() -> Part:
    """Decide if the residual is below rounding; if not, find the factor of the last direction in the next one."""

    def step(*reads):
        state, product, coupling, lacks = reads[:4]
        least = _least(summed(reads[4:]))
        steep = jnp.maximum(state.steep, product / jnp.where(lacks > 0, lacks, 1.0))
        zero = jnp.zeros_like(product)
        done, first = product <= least, state.turns == 0
        beta = jnp.where(done | first, zero, product / jnp.where(state.size > 0, state.size, 1.0))
        closing, again = _flag(done & ~first, zero), coupling * _flag(~done, zero)
        return (Conjugate(state.turns + 1, closing, product, zero, beta, steep), again)

    reads = (*map(fixed, ("conjugate", "product", "coupling", "lacks")), *totals("norms"))
    return part(Plan.totals, step, reads, (fixed("conjugate"), fixed("coupling")), columns=SIDES)


def choose_length() -> Part:
    """Choose the length of the step along the direction; zero when the turns are over."""

    def step(state, bent, coupling):
        still = (coupling == 0) | ~(bent > 0)
        alpha = jnp.where(still, jnp.zeros_like(bent), state.size / jnp.where(still, 1.0, bent))
        return (state._replace(alpha=alpha), 0.0)

    own = fixed("conjugate")
    reads = (own, *map(fixed, ("bent", "coupling")))
    return part(once, step, reads, (own, fixed("lacks")))


def predict_end() -> Part:
    """Predict if the residual is below rounding, without a solve with the tree."""

    def step(*reads):
        closing, coupling, steep, lacks = reads[:4]
        little = (lacks * steep * FORESEEN <= _least(summed(reads[4:]))) & (coupling != 0)
        return (jnp.where(little, 1.0, closing), jnp.where(little, 0.0, coupling))

    own = _state("closing"), fixed("coupling")
    reads = (*own, _state("steep"), fixed("lacks"), *totals("norms"))
    return part(Plan.totals, step, reads, own, columns=SIDES)


def conjugate_gradients(
    kinds: list[tuple[Kind, int]], finishes: bool, links: bool, rigid: bool = False
) -> list[Part | Again]:
    """All turns, after the tree was swept; `links`: some are of its matrix, too; `rigid`: of these some are loops."""
    turn: list[Part | Again] = [
        fill(once, fixed("product"), fixed("bent"), scratch=True),
        *(load_tree(k, d, False) for k, d in kinds),
        *solve_tree(links, rigid, last=False),
        *(measure_residual(k, d) for k, d in kinds),
        decide_round(),
        *(choose_direction(k, d) for k, d in kinds),
        choose_length(),
        *(update_forces(k, d) for k, d in kinds),
        predict_end(),
    ]
    lacks = [find_residual(k, d) for k, d in kinds]
    again = Again(turn, fixed("coupling").offset, MOST_TURNS)
    moving = [*(load_tree(k, d, True) for k, d in kinds), *solve_tree(links, rigid, last=True)]
    last = Again(moving, _state("closing").offset, 1)
    return [fill(once, fixed("rest")), *lacks, decide_start(finishes), again, last]

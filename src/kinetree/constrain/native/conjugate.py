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
from kinetree.lanes import Loop, Slots
from kinetree.spatial import Force, Motion

from ..cones import dot, times
from ..conjugate import RESIDUAL_EPS
from . import roots
from .coupled import COLUMNS, HELD1, HELD2, POINT, REPLY1, REPLY2, apart, both_forces
from .delassus import correct_solution
from .kinds import Kind
from .kinematics import without_roots
from .memory import (
    NOTHING,
    NUMBER,
    REPLY,
    ROW,
    SIDES,
    ZERO3,
    Conjugate,
    Norms,
    PivotSlots,
    coupled_memory,
    fixed,
    held_bias,
    summed,
    total,
    totals,
)
from .parts import Again, Part, copy, fill, once, table
from .plan import Plan

FORESEEN = 100.0  # safety factor on the largest ρᵀ G A⁻¹ Gᵀ ρ / ρᵀ ρ so far: another ρ may be ten times as steep
SWEPT = "swept"  # The list of rows that move bodies which touch others.
MOST_TURNS = 200  # turns of conjugate gradients; without rounding, the active rows plus two are enough


def _field(dim: int, name: str) -> Any:
    return coupled_memory(dim).at(POINT, name)


def beginning(kind: Kind, dim: int) -> Part:
    """Put the present forces of the contacts on the tree, before it is swept."""

    def step(known: Any, _: tuple, reads: tuple) -> tuple:
        kept, r = kind.state(known, reads)
        one, two = both_forces(kept[0], kept[3], r.force)
        return (r.force, r.force), (-one, -two), ()

    writes, adds = (_field(dim, "force"), _field(dim, "first")), (held_bias(HELD1), held_bias(HELD2))
    reads = (*kind.own, *kind.now)
    return Part(
        Loop(step, COLUMNS, kind.constants, reads=reads, writes=writes, adds=adds, rare=True, **kind.acting),
        kind.table,
        kind.numbers,
    )


def find_residual(kind: Kind, dim: int) -> Part:
    """Find ρ = g − C w − λ, with w after the tree was solved with the forces λ."""

    def step(known: Any, _: tuple, reads: tuple) -> tuple:
        kept, r = kind.state(known, reads)
        new, force = tuple(reads[-3:-1]), reads[-1]
        bent = times(r.curvature, kind.residual(known, kind.bare(kept), new))
        rest = tuple(g - c - f for g, c, f in zip(r.pull, bent, force, strict=True))
        none = tuple(jnp.zeros_like(x) for x in rest)
        return (rest, none, none), (dot(rest, rest),), ()

    reads = (*kind.own, *kind.now, *kind.at(1), _field(dim, "force"))
    writes = tuple(_field(dim, f) for f in ("rest", "way", "moves"))
    loop = Loop(step, COLUMNS, kind.constants, reads=reads, writes=writes, adds=(fixed("rest"),), **kind.acting)
    return Part(loop, kind.table, kind.numbers)


def load_tree(kind: Kind, dim: int, last: bool) -> Part:
    """Put forces on the tree: the residual; after the last turn all forces added since the beginning."""

    def step(_: tuple, __: tuple, reads: tuple) -> tuple:
        point, other, *forces = reads
        f = tuple(b - a for a, b in zip(*forces, strict=True)) if last else forces[0]
        one, two = both_forces(point, other, f)
        return (), (-one, -two), ()

    reads = tuple(_field(dim, f) for f in ("point", "other", *(("first", "force") if last else ("rest",))))
    adds = (REPLY.at(REPLY1, "sag"), REPLY.at(REPLY2, "sag"))
    return Part(Loop(step, COLUMNS, NOTHING, reads=reads, adds=adds, rare=True, **kind.acting), kind.table)


def measure_residual(kind: Kind, dim: int) -> Part:
    """Find how the bodies move apart for the residual, and the size of the residual."""

    def step(_: tuple, __: tuple, reads: tuple) -> tuple:
        point, other, rest, a1, a2 = reads
        moved = apart(point, other, a1, a2, dim)
        return (moved,), (dot(rest, moved),), ()

    own = tuple(_field(dim, f) for f in ("point", "other", "rest"))
    reads = (*own, REPLY.at(REPLY1, "a"), REPLY.at(REPLY2, "a"))
    loop = Loop(
        step, COLUMNS, NOTHING, reads=reads, writes=(_field(dim, "moved"),), adds=(fixed("product"),), **kind.acting
    )
    return Part(loop, kind.table)


def choose_direction(kind: Kind, dim: int) -> Part:
    """Choose the next direction; find its effect on the residual (in the place of `moved`), and its curvature."""

    def step(known: Any, _: tuple, reads: tuple) -> tuple:
        _, r = kind.state(known, reads)
        rest, way, moves, moved, state = reads[-5:]
        way = tuple(a + state.beta * b for a, b in zip(rest, way, strict=True))
        moves = tuple(a + state.beta * b for a, b in zip(moved, moves, strict=True))
        toward = tuple(a + b for a, b in zip(way, times(r.curvature, moves), strict=True))
        return (way, moves, toward), (dot(toward, moves),), ()

    own = tuple(_field(dim, f) for f in ("rest", "way", "moves", "moved"))
    reads = (*kind.own, *kind.now, *own, fixed("conjugate"))
    loop = Loop(step, COLUMNS, kind.constants, reads=reads, writes=own[1:], adds=(fixed("bent"),), **kind.acting)
    return Part(loop, kind.table, kind.numbers)


def update_forces(kind: Kind, dim: int) -> Part:
    """Update forces and residual by a step along the direction."""

    def step(_: tuple, __: tuple, reads: tuple) -> tuple:
        force, rest, way, toward, state = reads
        rest = tuple(x - state.alpha * t for x, t in zip(rest, toward, strict=True))
        return (
            (
                tuple(f + state.alpha * p for f, p in zip(force, way, strict=True)),
                rest,
            ),
            (dot(rest, rest),),
            (),
        )

    own = tuple(_field(dim, f) for f in ("force", "rest", "way", "moved"))
    reads, adds = (*own, fixed("conjugate")), (fixed("lacks"),)
    return Part(Loop(step, COLUMNS, NOTHING, reads=reads, writes=own[:2], adds=adds, **kind.acting), kind.table)


# -- the tree ---------------------------------------------------------------------------------------------------------


def solve_tree(links: bool, rigid: bool, last: bool) -> list[Part]:
    """How the tree answers the forces in `sag`: the accelerations of A⁻¹ of them.

    Only bodies that touch others get forces, and only their accelerations are asked for. So other rows are left out,
    but not where there are links. The `last` time x and the accelerations of all rows are computed again, with all
    forces. Free joints on which trees hang answer in one turn, but where links ask for the pivots of all rows. `rigid`:
    some links are loops.
    """

    def inward(_: tuple, __: tuple, reads: tuple) -> tuple:
        sag, S, pivot = reads
        u = -S.dot(sag)
        return (u, Force(ZERO3, ZERO3)), (freed_bias(pivot.U, pivot.d_inverse, u, sag),), ()

    def outward(_: tuple, __: tuple, reads: tuple) -> tuple:
        above, u, S, pivot = reads
        return (above + S * joint_answer(pivot.U, pivot.d_inverse, u, above),), (), ()

    def again(_: tuple, __: tuple, reads: tuple) -> tuple:
        above, change, u, S, pivot, x = reads
        new = joint_answer(pivot.U, pivot.d_inverse, pivot.u + u, above)
        norms, change = step_norms(change, S, pivot, x, new)
        return (new, above + S * new, change), (norms.change,), ()

    joint = (ROW.at(0, "S"), ROW.at(0, "pivot"))
    back = Loop(
        inward,
        3,
        NOTHING,
        reads=(REPLY.at(1, "sag"), *joint),
        writes=REPLY.of(1, "u", "sag"),
        adds=(REPLY.at(2, "sag"),),
        scratch=True,
        follows="" if links else SWEPT,
        backward=not links,
    )
    reads = (REPLY.at(2, "a"), REPLY.at(1, "u"), *joint)
    follows = "" if links else SWEPT
    out = Loop(outward, 3, NOTHING, reads=reads, writes=(REPLY.at(1, "a"),), scratch=True, follows=follows)
    reads = (*ROW.of(2, "a_new", "change"), REPLY.at(1, "u"), *joint, ROW.at(0, "x"))
    norm = _changed(total(3, "norms"))
    end = Loop(again, 4, NOTHING, reads=reads, writes=ROW.of(0, "x_new", "a_new", "change"), adds=(norm,))

    def ends(plan: Plan) -> np.ndarray:
        rows = _swept_rows(plan, links)
        return table(plan.row(rows), plan.reply(rows), plan.up(rows), plan.total(rows))

    asks = "wanted" if rigid else ""
    corrected = correct_solution(True, asks, _state("closing")) if links else []
    inwards = [Part(back, lambda plan: _sweep(plan, links)[::-1].copy()), *corrected]
    if not last:
        rooted = [] if links else [roots.reply_of_roots()]
        return [*inwards, *rooted, Part(out, lambda plan: _sweep(plan, links))]
    rooted = [] if links else [roots.solve_roots(norm=norm)]
    none = fill(Plan.totals, *map(_changed, totals("norms")))
    return [*inwards, none, *rooted, Part(end, ends)]


def _sweep(plan: Plan, links: bool) -> np.ndarray:
    rows = _swept_rows(plan, links)
    return table(plan.row(rows), plan.reply(rows), plan.reply_up(rows))


def _swept_rows(plan: Plan, links: bool) -> np.ndarray:
    return plan.outward_rows if links else without_roots(plan, plan.outward_rows)


def unforced(kinds: list[Kind], links: bool) -> list[Part]:
    """Clear the forces on rows, before Newton's first round; each turn clears them again. Bases are at rest.

    Without links, list the rows that move bodies which touch others.
    """
    fields = ("sag", "u", "a", "on")
    none = fill(lambda plan: table(plan.reply(np.arange(-plan.n_trees, plan.n))), *REPLY.of(0, *fields), scratch=True)
    if links:
        return [none]

    def carry(_: tuple, __: tuple, reads: tuple) -> tuple:
        return (jnp.maximum(*reads),), (), ()

    on, both = REPLY.at(1, "on"), (REPLY.at(REPLY1, "on"), REPLY.at(REPLY2, "on"))
    marks = [fill(kind.table, *both, values=(1.0, 1.0), rare=True, **kind.acting) for kind in kinds]
    carried = Loop(carry, 3, NOTHING, reads=(on, REPLY.at(2, "on")), writes=(REPLY.at(2, "on"),), scratch=True)
    listed = (SWEPT, fixed("product"))
    return [
        none,
        *marks,
        Part(carried, lambda plan: _sweep(plan, False)[::-1].copy()),
        copy(lambda plan: _sweep(plan, False), reads=(on,), writes=listed[1:], columns=3, lists=listed),
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

    def step(_: tuple, __: tuple, reads: tuple) -> tuple:
        rest, *last = reads
        some = rest > 0
        if finishes:
            some = some & (last[0] == 0)
        return (_flag(some, rest), rest, Conjugate(*6 * (jnp.zeros_like(rest),))), (), ()

    reads = (fixed("rest"), *((fixed("finishing"),) if finishes else ()))
    writes = tuple(map(fixed, ("coupling", "lacks", "conjugate")))
    return Part(Loop(step, 0, NOTHING, reads=reads, writes=writes), once)


def _least(norms: Norms) -> Any:
    """The size of ρᵀ G A⁻¹ Gᵀ ρ if ρ is only rounding error."""
    return (RESIDUAL_EPS * float(jnp.finfo(norms.size.dtype).eps)) ** 2 * norms.size


def decide_round() -> Part:
    """Decide if the residual is below rounding; if not, find the factor of the last direction in the next one."""

    def step(_: tuple, __: tuple, reads: tuple) -> tuple:
        state, product, coupling, lacks = reads[:4]
        least = _least(summed(reads[4:]))
        steep = jnp.maximum(state.steep, product / jnp.where(lacks > 0, lacks, 1.0))
        zero = jnp.zeros_like(product)
        done, first = product <= least, state.turns == 0
        beta = jnp.where(done | first, zero, product / jnp.where(state.size > 0, state.size, 1.0))
        closing, again = _flag(done & ~first, zero), coupling * _flag(~done, zero)
        return (Conjugate(state.turns + 1, closing, product, zero, beta, steep), again), (), ()

    reads = (*map(fixed, ("conjugate", "product", "coupling", "lacks")), *totals("norms"))
    return Part(Loop(step, SIDES, NOTHING, reads=reads, writes=(fixed("conjugate"), fixed("coupling"))), Plan.totals)


def choose_length() -> Part:
    """Choose the length of the step along the direction; zero when the turns are over."""

    def step(_: tuple, __: tuple, reads: tuple) -> tuple:
        state, bent, coupling = reads
        still = (coupling == 0) | ~(bent > 0)
        alpha = jnp.where(still, jnp.zeros_like(bent), state.size / jnp.where(still, 1.0, bent))
        return (state._replace(alpha=alpha), 0.0), (), ()

    own = fixed("conjugate")
    reads = (own, *map(fixed, ("bent", "coupling")))
    return Part(Loop(step, 0, NOTHING, reads=reads, writes=(own, fixed("lacks"))), once)


def predict_end() -> Part:
    """Predict if the residual is below rounding, without a solve with the tree."""

    def step(_: tuple, __: tuple, reads: tuple) -> tuple:
        closing, coupling, steep, lacks = reads[:4]
        little = (lacks * steep * FORESEEN <= _least(summed(reads[4:]))) & (coupling != 0)
        return (jnp.where(little, 1.0, closing), jnp.where(little, 0.0, coupling)), (), ()

    own = _state("closing"), fixed("coupling")
    reads = (*own, _state("steep"), fixed("lacks"), *totals("norms"))
    return Part(Loop(step, SIDES, NOTHING, reads=reads, writes=own), Plan.totals)


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

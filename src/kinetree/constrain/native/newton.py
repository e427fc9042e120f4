"""Newton's method in lanes: each step is one sweep inward and one outward over a tree with heavier bodies.

As constrain/newton.py, with all spatial quantities in world axes. Every lane goes on until it is done. The sweeps solve
for the new x, not for its change; when no constraint changes its state, x is exact. A last round, if there is one,
solves for the acceleration of the integrator: the forces of the constraints stay, and the load is added to the joints.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.dynamics.elements.articulated import freed_bias, joint_answer, joint_drive, joint_inertia
from kinetree.model import Model
from kinetree.spatial import Force

from ..newton import FULL_STEP_SLOPE, SEARCH_SLOPE, SEARCH_STEPS, below_rounding
from ..noslip import TURNS
from . import joined, roots
from .conjugate import beginning, conjugate_gradients, step_norms, unforced
from .kinds import Kind, compare_constraints, load_constraints, move_constraints, probe_constraints
from .kinematics import without_roots
from .memory import (
    ARTICULATED_BLOCK,
    BODY,
    ROW,
    SIDES,
    ArticulatedBody,
    PivotSlots,
    Search,
    fixed,
    summed,
    total,
    totals,
)
from .parts import Again, Known, Part, added, copy, fill, once, part, table
from .plan import Plan

UNBOUNDED = 1e30  # the upper end of a bracket without an upper end
MAX_ROUNDS = 100_000  # rounds; the model's own number of iterations ends them earlier


# -- the tree ---------------------------------------------------------------------------------------------------------


def unloaded(finishes: bool) -> list[Part]:
    """The tree without constraints."""

    def rows(armature, b, *last):
        if finishes:
            armature = armature + last[0] * last[1]
        return (armature, b)

    def bodies(I):
        return (ArticulatedBody(I.articulated(), Force.zero_like(I.mass)),)

    def massive(plan: Plan) -> np.ndarray:
        return table(plan.body(plan.massive), plan.articulated[plan.massive])

    reads = (ROW.at(0, "b"), *((ROW.at(0, "load"), fixed("finishing")) if finishes else ()))
    armature = 0.0, lambda model, *_: model.rows.armature
    return [
        part(Plan.every_row, rows, reads, ROW.of(0, "resistance", "push"), armature, scratch=True),
        part(massive, bodies, (BODY.at(0, "inertia"),), (ARTICULATED_BLOCK.at(1, "body"),), scratch=True),
        fill(
            lambda plan: table(plan.articulated[plan.empty_articulated]), ARTICULATED_BLOCK.at(0, "body"), scratch=True
        ),
    ]


def inward(rooted: bool) -> list[Part]:
    """Articulated bodies (RBDA chapter 7): each row's joint is released, and the rest is passed to the parent.

    First the limbs, which are similar (`Plan.side`); then their result is put on the trunk; then the trunk. `rooted`:
    all rows except those of free roots.
    """

    def step(merges, whole, onto, S, resistance, push):
        U = whole.inertia @ S
        d = joint_inertia(S, U, resistance)
        d_inverse = 1 / d
        u = joint_drive(S, push, whole.bias)
        left = ArticulatedBody(whole.inertia.without(U, d_inverse), freed_bias(U, d_inverse, u, whole.bias))
        passed = jax.tree.map(lambda a, b: b + merges * a, onto, left)
        return (PivotSlots(U, d, d_inverse, u), passed)

    reads = (ARTICULATED_BLOCK.at(1, "body"), ARTICULATED_BLOCK.at(2, "body"), *ROW.of(0, "S", "resistance", "push"))
    writes = (ROW.at(0, "pivot"), ARTICULATED_BLOCK.at(2, "body"))

    def swept(limbs: bool) -> Part:
        def rows(plan: Plan) -> np.ndarray:
            every = outward_rows(plan, rooted)[::-1]
            return every[(plan.side(every) > 0) == limbs]

        def turns(plan: Plan) -> np.ndarray:
            own = rows(plan)
            onto = np.where(np.isin(own, plan.limbs), plan.articulated[own], plan.passes_to[own])
            return table(plan.row(own), plan.articulated[own], onto)

        def merges(model: Model, plan: Plan, known: Known) -> np.ndarray:
            return np.where(np.isin(rows(plan), plan.limbs), 0.0, plan.merges[rows(plan)])

        return part(turns, step, reads, writes, (0.0, merges), scratch=True)

    own, trunk = ARTICULATED_BLOCK.at(0, "body"), ARTICULATED_BLOCK.at(1, "body")

    def limbs(plan: Plan) -> np.ndarray:
        return table(plan.articulated[plan.limbs], plan.passes_to[plan.limbs])

    return [swept(True), copy(limbs, (own,), added(trunk), scratch=True), swept(False)]


def outward_rows(plan: Plan, rooted: bool) -> np.ndarray:
    """All rows, or all except those of free roots, level by level."""
    return without_roots(plan, plan.outward_rows) if rooted else plan.outward_rows


def outward(rooted: bool) -> list[Part]:
    """Find the new x, and its changes; `rooted`: first that of free roots."""

    def step(above, change, S, pivot, x):
        new = joint_answer(pivot.U, pivot.d_inverse, pivot.u, above)
        norms, change = step_norms(change, S, pivot, x, new)
        return (new, above + S * new, change, norms)

    reads = (*ROW.of(0, "a_new", "change"), *ROW.of(1, "S", "pivot", "x"))
    made = (*ROW.of(1, "x_new", "a_new", "change"), *added(total(2, "norms")))

    def turns(plan: Plan) -> np.ndarray:
        rows = outward_rows(plan, rooted)
        return table(plan.up(rows), plan.row(rows), plan.total(rows))

    return [*([roots.solve_roots()] if rooted else []), part(turns, step, reads, made, scratch=True)]


# -- what to do next --------------------------------------------------------------------------------------------------


def _flag(condition: Any, like: Any) -> Any:
    return jnp.where(condition, jnp.ones_like(like), jnp.zeros_like(like))


def cleared() -> Part:
    """Sums at zero."""
    return fill(Plan.totals, *totals("sums"), *totals("norms"), scratch=True)


def judged(finishes: bool, coupled: bool) -> Part:
    """Decide if the step is the last one, and if it needs a line search, whose start is the third result.

    The first step is always taken whole (constrain/newton.py).
    """

    def step(*reads):
        sums, (h, size) = summed(reads[:SIDES]), summed(reads[SIDES : 2 * SIDES])
        last = list(reads[2 * SIDES :])
        settled = ((sums.changed == 0) & (sums.curved == 0)) | below_rounding(h, size)
        if coupled:  # and the forces between bodies were found
            settled = settled & (last.pop() == 0)
        slope = sums.begin - sums.end - sums.bent
        take = settled | (jnp.abs(slope) <= FULL_STEP_SLOPE * h) | (last[0] == 0)
        if finishes:
            take = take | (last[1] != 0)
        one = jnp.ones_like(h)
        search = Search(one, 0 * one, UNBOUNDED * one, sums.begin - h, h - sums.bent)
        return (_flag(settled, h), _flag(~take, h), search)

    flags = {"iterations": True, "finishing": finishes, "coupling": coupled}
    names = tuple(name for name, there in flags.items() if there)
    reads = (*totals("sums"), *totals("norms"), *map(fixed, names))
    writes = tuple(map(fixed, ("settled", "searching", "search")))
    return part(Plan.totals, step, reads, writes, columns=SIDES)


def search_step(kinds: list[Kind]) -> Again:
    """Find the length of the step: the zero of the slope, by Newton's method within a bracket."""

    def improve(*reads):
        sums, norms = summed(reads[:SIDES]), summed(reads[SIDES : 2 * SIDES])
        alpha, low, high, m1, m2 = reads[-1]
        s, c = m1 + m2 * alpha - sums.power, m2 + sums.bending
        low, high = jnp.where(s < 0, alpha, low), jnp.where(s < 0, high, alpha)
        to = alpha - s / c
        inside = (low < to) & (to < high)
        to = jnp.where(inside, to, jnp.where(high >= UNBOUNDED, 2 * alpha, 0.5 * (low + high)))
        found = jnp.abs(s) <= SEARCH_SLOPE * norms.change
        return (_flag(~found, s), Search(jnp.where(found, alpha, to), low, high, m1, m2))

    reads = (*totals("slope"), *totals("norms"), fixed("search"))
    parts: list[Part | Again] = [
        fill(Plan.totals, *totals("slope")),
        *map(probe_constraints, kinds),
        part(Plan.totals, improve, reads, (fixed("searching"), fixed("search")), columns=SIDES),
    ]
    return Again(parts, fixed("searching").offset, SEARCH_STEPS)


def along_step(search: Search, old: Any, new: Any) -> Any:
    """Go along the step, by the length that the search found."""
    return jnp.where(search.alpha == 1, new, old + search.alpha * (new - old))


def moved(finishes: bool) -> Part:
    """x at the end of the step; in the last round it stays, and only the acceleration of the integrator is new."""

    def step(x, x_new, search, *last):
        reached = along_step(search, x, x_new)
        return (jnp.where(last[0] != 0, x, reached), reached) if finishes else (reached,)

    reads = (ROW.at(0, "x"), ROW.at(0, "x_new"), fixed("search"), *((fixed("finishing"),) if finishes else ()))
    writes = (ROW.at(0, "x"), ROW.at(0, "alpha"))[: 1 + finishes]
    return part(Plan.every_row, step, reads, writes)


def take_acceleration(of: str) -> Part:
    """Set the acceleration of the integrator to a field."""
    return copy(Plan.every_row, (ROW.at(0, of),), (ROW.at(0, "alpha"),))


def at_rest() -> Part:
    """Set the motion of bases to zero."""
    return fill(Plan.every_base, *ROW.of(0, "a_new", "change"))


def count_round(finishes: bool) -> Part:
    """Count an iteration; decide if there is another, or a last round."""

    def step(most, iterations, settled, converged, *last):
        more = iterations + 1
        zero = jnp.zeros_like(more)
        done = (settled != 0) | (more >= most)
        good = _flag((settled != 0) & (more < most), more)
        if not finishes:
            return (more, good, _flag(~done, more))
        finishing = last[0] != 0
        return (
            jnp.where(finishing, iterations, more),
            jnp.where(finishing, converged, good),
            jnp.where(finishing, zero, jnp.ones_like(more)),
            _flag(done & ~finishing, more),
        )

    names = ("iterations", "converged", "going", *(("finishing",) if finishes else ()))
    reads = tuple(map(fixed, ("iterations", "settled", "converged", *(("finishing",) if finishes else ()))))
    return part(once, step, reads, tuple(map(fixed, names)), (0.0, most_rounds))


def most_rounds(model: Model, plan: Plan, known: Known) -> np.ndarray:
    """The largest number of rounds."""
    return np.array([float(plan.world.iterations * (1 + TURNS * plan.world.noslip))])


class Linked(NamedTuple):
    """Parts of a round that links add (linked.py), and friction without slip (gripping.py)."""

    before: list[Part]  # constraints are loaded
    after: list[Part]
    swept: list[Part]  # the tree was swept inward
    moved: list[Part]  # x_new is known
    ended: list[Part]  # the step was taken
    begun: tuple[Part, ...] = ()  # before the first round
    judged: tuple[Part, ...] = ()  # it is known whether the step is the last one
    rigid: bool = False  # some are rigid loops: the first step goes to where they are closed, and all others stay there


NO_LINKS = Linked([], [], [], [], [])


def newton(
    kinds: list[Kind],
    between: list[tuple[Kind, int]],
    finishes: bool,
    linked: Linked = NO_LINKS,
    joins: bool = False,
) -> list[Part | Again]:
    """All rounds, from the first guess in `x`, and in w of the constraints.

    Arguments:
        kinds: of constraints that the tree carries.
        between: kinds that couple two bodies, with their dimensions.
        finishes: a last round solves for the acceleration of the integrator.
        linked: the parts that links add.
        joins: constraints that couple bodies are solved for by a matrix, not by conjugate gradients.
    """
    every = [*kinds, *(k for k, _ in between)]
    free = finishes and not every  # the last round is the only one
    rooted = not linked.swept  # links need the pivots of all rows

    coupled = [k for k, _ in between]
    solved: list[Part | Again] = [*inward(rooted), *linked.swept, *outward(rooted)]
    if joins:
        solved = [*joined.solve_joins()]
    elif between:
        solved += conjugate_gradients(between, finishes, bool(linked.swept), linked.rigid)
    names = ("going", "finishing", "iterations", "converged")
    start = fill(once, *map(fixed, names), values=(1.0, float(free), 0.0, float(free)))
    parts: list[Part | Again] = [
        *unloaded(finishes),
        *linked.before,
        *(load_constraints(kind, finishes) for kind in kinds),
        *linked.after,
        *(joined.load_joins(coupled, finishes) if joins else [beginning(kind, dim) for kind, dim in between]),
        cleared(),
        *solved,
        *linked.moved,
        *map(compare_constraints, every),
        judged(finishes, bool(between) and not joins),
        *([search_step(every)] if every else []),
        moved(finishes and not free),
        *linked.judged,
        count_round(finishes),
        *(move_constraints(kind, fixed("search"), along_step) for kind in every if kind.keeps),
        *linked.ended,
    ]
    rounds = Again(parts, fixed("going").offset, MAX_ROUNDS)
    looks = joined.find_touching_bodies(coupled) if joins else unforced(coupled, bool(linked.swept)) if between else []
    first = [start, *linked.begun, at_rest(), *looks]
    return [*first, rounds, *([] if finishes and not free else [take_acceleration("x")])]

"""Newton's method in lanes: each step is one sweep inward and one outward over a tree with heavier bodies.

As constrain/newton.py, with all spatial quantities in world axes. Every lane goes on until it is done. The sweeps solve
for the new x, not for its change; when no constraint changes its state, x is exact. A last round, where there is one,
solves for the acceleration of the integrator: the forces of the constraints stay, and the load is added to the joints.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from kinetree.lanes import Loop
from kinetree.spatial import Force

from ..newton import CURVED_POWER, FULL_STEP_SLOPE, SEARCH_SLOPE, SEARCH_STEPS
from .coupled import beginning, conjugate_gradients
from .forks import at_roots, forks_inward, no_columns
from .kinds import Kind, along_step, comparing, comparing_bodies, loading, loading_bodies, probing
from .memory import (
    BODY,
    CLIMB,
    FORK,
    HELD,
    NOTHING,
    NUMBER,
    ROW,
    ZERO3,
    Climb,
    Held,
    Norms,
    Pivot,
    Search,
    Slope,
    Sums,
    fixed,
)
from .parts import Again, Part, Strand, braided, once, table
from .plan import Plan

UNBOUNDED = 1e30  # the upper end of a bracket that has none yet
MOST = 100_000  # rounds at the most; the model's own number of iterations ends them earlier


# -- the tree ---------------------------------------------------------------------------------------------------------


def every_row(plan: Plan) -> np.ndarray:
    """Of all trees."""
    return np.arange(plan.n)


def unloaded(finishes: bool, stores: bool) -> Part:
    """Joints, and bodies that are pressed, without constraints."""

    def rows(armature: Any, _: tuple, reads: tuple) -> tuple:
        b = reads[0]
        if finishes:
            armature = armature + reads[1] * reads[2]
        return (armature, b, *((Force(ZERO3, ZERO3),) if stores else ())), (), ()

    reads = (ROW.at(0, "b"), *((ROW.at(0, "load"), fixed("finishing")) if finishes else ()))
    writes = tuple(ROW.at(0, f) for f in ("resistance", "push", *(("pressed",) if stores else ())))
    loop = Loop(rows, 1, NUMBER, reads=reads, writes=writes, scratch=True)
    return Part(loop, lambda plan: table(plan.row(every_row(plan))), lambda model, *_: model.rows.armature)


def inward(kinds: list[Kind], finishes: bool, stores: bool) -> Part:
    """Articulated bodies (RBDA chapter 7): each row's joint is released, and what is left goes to the parent."""

    def body(_: tuple, __: tuple, reads: tuple, held: Held) -> tuple:
        return (), (), (), held._replace(inertia=held.inertia + reads[0].articulated())

    def row(_: tuple, __: tuple, reads: tuple, held: Held) -> tuple:
        S, resistance, push, *pressed = reads
        bias = held.bias + pressed[0] if stores else held.bias
        U = held.inertia @ S
        d = S.dot(U) + resistance
        d_inverse = 1 / d
        u = push - S.dot(bias)
        left = Held(held.inertia.without(U, d_inverse), bias + U * (u * d_inverse))
        return (Pivot(U, d, d_inverse, u),), (), (), left

    own = Loop(body, 1, NOTHING, reads=(BODY.at(0, "inertia"),))
    reads = tuple(ROW.at(0, f) for f in ("S", "resistance", "push", *(("pressed",) if stores else ())))
    joint = Loop(row, 1, NOTHING, reads=reads, writes=(ROW.at(0, "pivot"),), scratch=True)
    gathered, left = forks_inward("held")
    strands = [
        gathered,
        Strand(Part(own, lambda plan: table(plan.body(plan.massive))), lambda plan: plan.massive),
        *(loading_bodies(kind, finishes) for kind in kinds),
        Strand(Part(joint, lambda plan: table(plan.row(every_row(plan)))), every_row),
        *left,
    ]
    return braided(HELD, strands, False)


class Sweep(NamedTuple):
    """What goes outward, and sums over rows and constraints."""

    climb: Climb
    norms: Norms
    sums: Sums


SWEEP = Sweep(CLIMB, Norms(0.0, 0.0), Sums(*5 * (0.0,)))


def outward(kinds: list[Kind], again: bool, stores: bool) -> Part:
    """The new x, what it changes, and what it does to constraints on bodies.

    Arguments:
        kinds: the constraints.
        again: x_new is there already, and is only followed.
        stores: `a_new` is asked for.
    """

    def start(_: tuple, __: tuple, ___: tuple, sweep: Sweep) -> tuple:
        return (), (), (), sweep._replace(climb=CLIMB)

    def resume(_: tuple, __: tuple, reads: tuple, sweep: Sweep) -> tuple:
        return (), (), (), sweep._replace(climb=reads[0])

    def keep(_: tuple, __: tuple, ___: tuple, sweep: Sweep) -> tuple:
        return (sweep.climb,), (), (), sweep

    def row(_: tuple, __: tuple, reads: tuple, sweep: Sweep) -> tuple:
        S, pivot, x, *found = reads
        (above, change), norms = sweep.climb, sweep.norms
        new = found[0] if again else (pivot.u - above.dot(pivot.U)) * pivot.d_inverse
        dx = new - x
        e = dx + change.dot(pivot.U) * pivot.d_inverse
        norms = Norms(norms.change + e * e * pivot.d, norms.size + pivot.u * pivot.u * pivot.d_inverse)
        climb = Climb(above + S * new, change + S * dx)
        made = (*(() if again else (new,)), *((climb.new,) if stores else ()))
        return made, (), (), sweep._replace(climb=climb, norms=norms)

    def end(_: tuple, __: tuple, ___: tuple, sweep: Sweep) -> tuple:
        return (sweep.sums, sweep.norms), (), (), sweep

    def late(plan: Plan) -> np.ndarray:
        return np.flatnonzero((plan.parent >= 0) & ~plan.first_branch)

    kept = (FORK.at(0, "climb"),)
    reads = tuple(ROW.at(0, f) for f in ("S", "pivot", "x", *(("x_new",) if again else ())))
    writes = (*(() if again else ("x_new",)), *(("a_new",) if stores else ()))
    joint = Loop(row, 1, NOTHING, reads=reads, writes=tuple(ROW.at(0, f) for f in writes), scratch=True)
    fork = Loop(keep, 1, NOTHING, writes=kept, scratch=True)
    branch = Loop(resume, 1, NOTHING, reads=kept)
    total = Loop(end, 0, NOTHING, writes=(fixed("sums"), fixed("norms")), scratch=True)

    def last(plan: Plan) -> np.ndarray:
        return np.argsort(plan.place)[-1:]

    strands = [
        Strand(Part(Loop(start, 0, NOTHING), no_columns(at_roots)), at_roots),
        Strand(Part(branch, lambda plan: table(plan.fork(plan.parent[late(plan)]))), late),
        Strand(Part(joint, lambda plan: table(plan.row(every_row(plan)))), every_row),
        Strand(Part(fork, lambda plan: table(plan.fork(plan.forks))), lambda plan: plan.forks),
        *map(comparing_bodies, kinds),
        Strand(Part(total, no_columns(last)), last),
    ]
    return braided(SWEEP, strands, True)


# -- what to do next --------------------------------------------------------------------------------------------------


def _flag(condition: Any, like: Any) -> Any:
    return jnp.where(condition, jnp.ones_like(like), jnp.zeros_like(like))


def judged(finishes: bool, coupled: bool) -> Part:
    """Whether the step is the last one, and whether it is taken as it is."""

    def step(_: tuple, __: tuple, reads: tuple) -> tuple:
        sums, norms, *last = reads
        h, size = norms
        tiny = float(jnp.finfo(h.dtype).eps) ** CURVED_POWER
        settled = ((sums.changed == 0) & (sums.curved == 0)) | (h <= tiny * size)
        if coupled:  # and the forces between bodies were found
            settled = settled & (last.pop() == 0)
        slope = sums.begin - sums.end - sums.bent
        take = settled | (jnp.abs(slope) <= FULL_STEP_SLOPE * h)
        if finishes:
            take = take | (last[0] != 0)
        one = jnp.ones_like(h)
        search = Search(one, 0 * one, UNBOUNDED * one, sums.begin - h, h - sums.bent)
        return (_flag(settled, h), _flag(~take, h), search), (), ()

    names = (*(("finishing",) if finishes else ()), *(("coupling",) if coupled else ()))
    reads = (fixed("sums"), fixed("norms"), *map(fixed, names))
    return Part(
        Loop(step, 0, NOTHING, reads=reads, writes=(fixed("settled"), fixed("searching"), fixed("search"))), once
    )


def searching(kinds: list[Kind]) -> Again:
    """How far to go: the zero of the slope, by Newton's method within a bracket."""

    def begin(_: tuple, __: tuple, ___: tuple) -> tuple:
        return (Slope(0.0, 0.0),), (), ()

    def improve(_: tuple, __: tuple, reads: tuple) -> tuple:
        search, sums, norms = reads
        alpha, low, high, m1, m2 = search
        s, c = m1 + m2 * alpha - sums.power, m2 + sums.bending
        low, high = jnp.where(s < 0, alpha, low), jnp.where(s < 0, high, alpha)
        to = alpha - s / c
        inside = (low < to) & (to < high)
        to = jnp.where(inside, to, jnp.where(high >= UNBOUNDED, 2 * alpha, 0.5 * (low + high)))
        found = jnp.abs(s) <= SEARCH_SLOPE * norms.change
        return (_flag(~found, s), Search(jnp.where(found, alpha, to), low, high, m1, m2)), (), ()

    start = Loop(begin, 0, NOTHING, writes=(fixed("slope"),))
    reads = (fixed("search"), fixed("slope"), fixed("norms"))
    end = Loop(improve, 0, NOTHING, reads=reads, writes=(fixed("searching"), fixed("search")))
    parts: list[Part | Again] = [Part(start, once), *map(probing, kinds), Part(end, once)]
    return Again(parts, fixed("searching").offset, SEARCH_STEPS)


def moved(finishes: bool) -> Part:
    """x at the end of the step; in the last round it stays, and only the acceleration of the integrator is new."""

    def step(_: tuple, __: tuple, reads: tuple) -> tuple:
        x, x_new, search, *last = reads
        reached = along_step(search, x, x_new)
        return (jnp.where(last[0] != 0, x, reached), reached) if finishes else (reached,), (), ()

    reads = (ROW.at(0, "x"), ROW.at(0, "x_new"), fixed("search"), *((fixed("finishing"),) if finishes else ()))
    loop = Loop(
        step, 1, NOTHING, reads=reads, writes=tuple(ROW.at(0, f) for f in (("x", "alpha") if finishes else ("x",)))
    )
    return Part(loop, lambda plan: table(plan.row(np.arange(plan.n))))


def counted(finishes: bool) -> Part:
    """One iteration more; whether there is another, or a last round."""

    def step(most: Any, _: tuple, reads: tuple) -> tuple:
        iterations, settled, converged, *last = reads
        more = iterations + 1
        zero = jnp.zeros_like(more)
        done = (settled != 0) | (more >= most)
        good = _flag((settled != 0) & (more < most), more)
        if not finishes:
            return (more, good, _flag(~done, more)), (), ()
        finishing = last[0] != 0
        return (
            (
                jnp.where(finishing, iterations, more),
                jnp.where(finishing, converged, good),
                jnp.where(finishing, zero, jnp.ones_like(more)),
                _flag(done & ~finishing, more),
            ),
            (),
            (),
        )

    names = ("iterations", "converged", "going", *(("finishing",) if finishes else ()))
    reads = tuple(map(fixed, ("iterations", "settled", "converged", *(("finishing",) if finishes else ()))))
    loop = Loop(step, 0, NUMBER, reads=reads, writes=tuple(map(fixed, names)))
    return Part(loop, once, lambda model, plan, known: np.array([float(plan.world.iterations)]))


class Linked(NamedTuple):
    """Parts of a round that links add (linked.py)."""

    before: list[Part]  # constraints are loaded
    after: list[Part]
    swept: list[Part]  # the tree was swept inward
    moved: list[Part]  # x_new is known
    ended: list[Part]  # the step was taken


NO_LINKS = Linked([], [], [], [], [])


def newton(
    kinds: list[Kind], between: list[tuple[Kind, int]], finishes: bool, stores: bool, linked: Linked = NO_LINKS
) -> list[Part | Again]:
    """All rounds, from the first guess in `x`, and in w of the constraints on bodies.

    Arguments:
        kinds: of constraints that the tree carries.
        between: kinds that couple two bodies, with their dimensions.
        finishes: a last round solves for the acceleration of the integrator.
        stores: rows are stored, and pressed: some constraints couple bodies.
        linked: what links add.
    """
    every, coupled = [*kinds, *(k for k, _ in between)], bool(between)
    on_bodies, others = [k for k in kinds if k.body is not None], [k for k in kinds if k.body is None]
    free = finishes and not every  # the last round is the only one

    def begin(_: tuple, __: tuple, ___: tuple) -> tuple:
        return (1.0, float(free), 0.0, float(free), Search(1.0, 0.0, 0.0, 0.0, 0.0)), (), ()

    names = ("going", "finishing", "iterations", "converged", "search")
    start = Loop(begin, 0, NOTHING, writes=tuple(map(fixed, names)))
    parts: list[Part | Again] = [
        unloaded(finishes, stores),
        *linked.before,
        *(loading(kind, finishes) for kind in others),
        *linked.after,
        *(beginning(kind, dim) for kind, dim in between),
        inward(on_bodies, finishes, stores),
        *linked.swept,
        outward([] if coupled else on_bodies, False, stores),
        *(conjugate_gradients(between, finishes, bool(linked.swept)) if coupled else []),
        *([outward(on_bodies, True, False)] if coupled else []),
        *linked.moved,
        *(comparing(kind) for kind in every if kind.body is None),
        judged(finishes, coupled),
        *([searching(every)] if every else []),
        moved(finishes),
        counted(finishes),
        *linked.ended,
    ]
    return [Part(start, once), Again(parts, fixed("going").offset, MOST)]

"""Newton's method in lanes: each step is one sweep inward and one outward over a tree with heavier bodies.

As constrain/newton.py, with all spatial quantities in world axes. Every lane goes on until it is done. The sweeps solve
for the new x, not for its change; when no constraint changes its state, x is exact. A last round, where there is one,
solves for the acceleration of the integrator: the forces of the constraints stay, and the load is added to the joints.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.lanes import Loop
from kinetree.lanes.program import Slots
from kinetree.model import Model
from kinetree.spatial import Force, Motion, Vec3

from ..cones import Response, dot, dry, ellipse, one_sided, pyramid, times
from ..groups import constant, six_by_six
from ..newton import CURVED_POWER, FULL_STEP_SLOPE, SEARCH_SLOPE, SEARCH_STEPS
from .contacts import along, frame, point_table
from .joints import limit_table, loss_table
from .memory import (
    BODY,
    GLOBAL,
    HELD_BLOCK,
    LIMIT,
    NOTHING,
    NUMBER,
    ROW,
    Held,
    Norms,
    Pivot,
    Search,
    Slope,
    Sums,
    fixed,
    point_memory,
)
from .parts import Again, Part, once, table
from .plan import Plan

UNBOUNDED = 1e30  # the upper end of a bracket that has none yet
MOST = 100_000  # rounds at the most; the model's own number of iterations ends them earlier


# -- one kind of constraint -------------------------------------------------------------------------------------------


class Kind(NamedTuple):
    """One kind of constraints: where they are, w = J x − a_ref, the response to w, and what they add to the tree."""

    constants: Any  # treedef
    numbers: Callable[[Model, Plan, Any], Any]
    table: Callable[[Plan], np.ndarray]  # columns: row, constraint, and for contacts the body's block
    columns: int
    own: tuple[Slots, ...]  # what the constraint keeps
    motion: tuple[str, str]  # the fields of the row that hold J x, before and after the step
    when: Slots
    residual: Callable[[Any, tuple, Any], tuple]  # (known, kept, motion) -> w
    response: Callable[[Any, tuple, tuple], Response]  # (known, kept, w)
    adds: tuple[Slots, ...]
    load: Callable[[Any, tuple, Any, Any], tuple]  # (known, kept, curvature, constant force) -> what is added
    pulls: tuple[Slots, ...]
    pull: Callable[[Any, tuple, tuple], tuple]  # (known, kept, force) -> what is added


class Friction(NamedTuple):
    """A contact's constants."""

    friction: tuple
    impratio: Any
    sign: Any


def contact(dim: int, elliptic: bool) -> Kind:
    """Contacts of a number of dimensions."""
    memory = point_memory(dim)

    def numbers(model: Model, plan: Plan, dtype: Any) -> Friction:
        from .contacts import surface_constants

        surface = surface_constants(dim, model, plan, dtype)
        return Friction(surface.pair.friction[: max(dim - 1, 0)], surface.impratio, surface.sign)

    def residual(known: Friction, kept: tuple, a: Motion) -> tuple:
        point, ref, _ = kept
        return tuple(y - r for y, r in zip(along(point, known.sign, a, dim), ref, strict=True))

    def response(known: Friction, kept: tuple, w: tuple) -> Response:
        D = kept[2]
        if dim == 1:
            return one_sided(w[0], D)
        return ellipse(w, D, known.friction, known.impratio) if elliptic else pyramid(w, D, known.friction)

    def pushed(known: Friction, kept: tuple, f: tuple) -> Force:
        zero = jnp.zeros_like(f[0])
        six = [*(x * known.sign for x in f), *(zero,) * (6 - len(f))]
        return frame(kept[0]).force_to_parent(Force(Vec3(*six[3:]), Vec3(*six[:3])))

    def load(known: Friction, kept: tuple, curvature: Any, g: tuple) -> tuple:
        inertia = frame(kept[0]).articulated_to_parent(six_by_six(curvature))
        return (Held(inertia, -pushed(known, kept, g)),)

    def turns(plan: Plan) -> np.ndarray:
        _, pairs = plan.points_of(dim)
        return np.concatenate([point_table(dim)(plan), table(plan.held[plan.row_of_pair(pairs)])], 1)

    return Kind(
        constants=jax.tree.structure(Friction((0.0,) * (dim - 1), 0.0, 0.0)),
        numbers=numbers,
        table=turns,
        columns=3,
        own=tuple(memory.at(1, f) for f in ("point", "ref", "D")),
        motion=("a", "a_new"),
        when=memory.at(1, "D"),
        residual=residual,
        response=response,
        adds=(HELD_BLOCK.at(2, "held"),),
        load=load,
        pulls=(ROW.at(0, "force"),),
        pull=lambda known, kept, f: (pushed(known, kept, f),),
    )


def on_joint(losses: bool) -> Kind:
    """Limits, whose constant is their sign; or friction losses, whose constant is the most that they hold."""

    def numbers(model: Model, plan: Plan, dtype: Any) -> Any:
        return model.friction[np.array(plan.has.loss, np.int64)] if losses else plan.limits[:, 1].astype(float)

    def residual(known: Any, kept: tuple, x: Any) -> tuple:
        return ((x if losses else known * x) - kept[1],)

    def response(known: Any, kept: tuple, w: tuple) -> Response:
        return dry(w[0], kept[0], known) if losses else one_sided(w[0], kept[0])

    def pull(known: Any, kept: tuple, f: tuple) -> tuple:
        return (f[0] if losses else known * f[0],)

    return Kind(
        constants=NUMBER,
        numbers=numbers,
        table=loss_table if losses else limit_table,
        columns=2,
        own=(LIMIT.at(1, "D"), LIMIT.at(1, "ref")),
        motion=("x", "x_new"),
        when=LIMIT.at(1, "D"),
        residual=residual,
        response=response,
        adds=(ROW.at(0, "resistance"), ROW.at(0, "push")),
        load=lambda known, kept, curvature, g: (curvature[0][0], *pull(known, kept, g)),
        pulls=(ROW.at(0, "push"),),
        pull=pull,
    )


def _ref(kind: Kind, kept: tuple) -> tuple:
    return kept[1] if isinstance(kept[1], tuple) else (kept[1],)


def loading(kind: Kind, finishes: bool) -> Part:
    """Curvature and force of the constraints, put on the tree; in the last round the force alone."""
    n = len(kind.own)

    def step(known: Any, _: tuple, reads: tuple) -> tuple:
        kept, m = reads[:n], reads[n]
        r = kind.response(known, kept, kind.residual(known, kept, m))
        g, H = constant(r, _ref(kind, kept)), r.curvature
        if finishes:
            last = reads[n + 1] != 0
            g = tuple(jnp.where(last, f, x) for f, x in zip(r.force, g, strict=True))
            H = jax.tree.map(lambda x: jnp.where(last, jnp.zeros_like(x), x), H)
        return (), kind.load(known, kept, H, g), ()

    reads = (*kind.own, ROW.at(0, kind.motion[0]), *((fixed("finishing"),) if finishes else ()))
    loop = Loop(step, kind.columns, kind.constants, reads=reads, adds=kind.adds, when=kind.when)
    return Part(loop, kind.table, kind.numbers)


def comparing(kind: Kind) -> Part:
    """What the full step does to the constraints."""
    n = len(kind.own)

    def step(known: Any, _: tuple, reads: tuple) -> tuple:
        kept = reads[:n]
        w, full = (kind.residual(known, kept, m) for m in reads[n:])
        r, end = kind.response(known, kept, w), kind.response(known, kept, full)
        dw = tuple(b - a for a, b in zip(w, full, strict=True))
        one, zero = jnp.ones_like(w[0]), jnp.zeros_like(w[0])
        return (
            (),
            (
                Sums(
                    jnp.where(r.state != end.state, one, zero),
                    jnp.where(end.curved, one, zero),
                    dot(r.force, dw),
                    dot(end.force, dw),
                    dot(times(r.curvature, dw), dw),
                ),
            ),
            (),
        )

    reads = (*kind.own, *(ROW.at(0, f) for f in kind.motion))
    loop = Loop(step, kind.columns, kind.constants, reads=reads, adds=(fixed("sums"),), when=kind.when)
    return Part(loop, kind.table, kind.numbers)


def probing(kind: Kind) -> Part:
    """Slope and bending of the cost at a place along the step."""
    n = len(kind.own)

    def step(known: Any, _: tuple, reads: tuple) -> tuple:
        kept, search = reads[:n], reads[-1]
        w, full = (kind.residual(known, kept, m) for m in reads[n : n + 2])
        dw = tuple(b - a for a, b in zip(w, full, strict=True))
        r = kind.response(known, kept, tuple(a + search.alpha * b for a, b in zip(w, dw, strict=True)))
        return (), (Slope(dot(r.force, dw), dot(times(r.curvature, dw), dw)),), ()

    reads = (*kind.own, *(ROW.at(0, f) for f in kind.motion), fixed("search"))
    loop = Loop(step, kind.columns, kind.constants, reads=reads, adds=(fixed("slope"),), when=kind.when)
    return Part(loop, kind.table, kind.numbers)


def pulling(kind: Kind) -> Part:
    """The forces of the constraints, on rows and joints."""
    n = len(kind.own)

    def step(known: Any, _: tuple, reads: tuple) -> tuple:
        kept, m = reads[:n], reads[n]
        r = kind.response(known, kept, kind.residual(known, kept, m))
        return (), kind.pull(known, kept, r.force), ()

    reads = (*kind.own, ROW.at(0, kind.motion[0]))
    loop = Loop(step, kind.columns, kind.constants, reads=reads, adds=kind.pulls, when=kind.when)
    return Part(loop, kind.table, kind.numbers)


# -- the tree ---------------------------------------------------------------------------------------------------------


def unloaded(finishes: bool) -> list[Part]:
    """The tree without constraints."""

    def rows(armature: Any, _: tuple, reads: tuple) -> tuple:
        b = reads[0]
        if finishes:
            armature = armature + reads[1] * reads[2]
        return (armature, b), (), ()

    reads = (ROW.at(0, "b"), *((ROW.at(0, "load"), fixed("finishing")) if finishes else ()))
    joints = Loop(rows, 1, NUMBER, reads=reads, writes=(ROW.at(0, "resistance"), ROW.at(0, "push")))

    def bodies(_: tuple, __: tuple, reads: tuple) -> tuple:
        I = reads[0]
        return (Held(I.articulated(), Force.zero_like(I.mass)),), (), ()

    own = Loop(bodies, 2, NOTHING, reads=(BODY.at(0, "inertia"),), writes=(HELD_BLOCK.at(1, "held"),))

    def nothing(_: tuple, __: tuple, ___: tuple) -> tuple:
        return (jax.tree.map(lambda x: 0.0, _empty()),), (), ()

    empty = Loop(nothing, 1, NOTHING, writes=(HELD_BLOCK.at(0, "held"),))
    return [
        Part(joints, lambda plan: table(plan.row(np.arange(plan.n))), lambda model, *_: model.rows.armature),
        Part(own, lambda plan: table(plan.body(plan.massive), plan.held[plan.massive])),
        Part(empty, lambda plan: table(plan.held[plan.empty_held])),
    ]


def _empty() -> Held:
    return jax.tree.unflatten(HELD_BLOCK.at(0, "held").tree, [0.0] * HELD_BLOCK.size)


def inward() -> Part:
    """Articulated bodies (RBDA chapter 7): each row's joint is released, and what is left goes to the parent."""

    def step(merges: Any, _: tuple, reads: tuple) -> tuple:
        whole, onto, S, resistance, push = reads
        U = whole.inertia @ S
        d = S.dot(U) + resistance
        d_inverse = 1 / d
        u = push - S.dot(whole.bias)
        left = Held(whole.inertia.without(U, d_inverse), whole.bias + U * (u * d_inverse))
        passed = jax.tree.map(lambda a, b: b + merges * a, onto, left)
        return (Pivot(U, d, d_inverse, u), passed), (), ()

    reads = (
        HELD_BLOCK.at(1, "held"),
        HELD_BLOCK.at(2, "held"),
        *(ROW.at(0, f) for f in ("S", "resistance", "push")),
    )
    loop = Loop(step, 3, NUMBER, reads=reads, writes=(ROW.at(0, "pivot"), HELD_BLOCK.at(2, "held")))

    def turns(plan: Plan) -> np.ndarray:
        rows = np.arange(plan.n)[::-1]
        return table(plan.row(rows), plan.held[rows], plan.passes_to[rows])

    return Part(loop, turns, lambda model, plan, dtype: plan.merges[::-1])


def outward() -> Part:
    """The new x, and what it changes."""

    def step(_: tuple, __: tuple, reads: tuple) -> tuple:
        above, above_new, S, pivot, x = reads
        new = (pivot.u - above_new.dot(pivot.U)) * pivot.d_inverse
        e = (new - x) + (above_new - above).dot(pivot.U) * pivot.d_inverse
        norms = Norms(e * e * pivot.d, pivot.u * pivot.u * pivot.d_inverse)
        return (new, above_new + S * new), (norms,), ()

    reads = (ROW.at(0, "a"), ROW.at(0, "a_new"), *(ROW.at(1, f) for f in ("S", "pivot", "x")))
    writes = (ROW.at(1, "x_new"), ROW.at(1, "a_new"))
    loop = Loop(step, 2, NOTHING, reads=reads, writes=writes, adds=(fixed("norms"),))

    def turns(plan: Plan) -> np.ndarray:
        return table(plan.up(np.arange(plan.n)), plan.row(np.arange(plan.n)))

    return Part(loop, turns)


# -- what to do next --------------------------------------------------------------------------------------------------


def _flag(condition: Any, like: Any) -> Any:
    return jnp.where(condition, jnp.ones_like(like), jnp.zeros_like(like))


def cleared() -> Part:
    """Sums at zero."""

    def step(_: tuple, __: tuple, ___: tuple) -> tuple:
        return (Sums(*5 * (0.0,)), Norms(0.0, 0.0)), (), ()

    return Part(Loop(step, 0, NOTHING, writes=(fixed("sums"), fixed("norms"))), once)


def judged(finishes: bool) -> Part:
    """Whether the step is the last one, and whether it is taken as it is."""

    def step(_: tuple, __: tuple, reads: tuple) -> tuple:
        sums, norms, *last = reads
        h, size = norms
        tiny = float(jnp.finfo(h.dtype).eps) ** CURVED_POWER
        settled = ((sums.changed == 0) & (sums.curved == 0)) | (h <= tiny * size)
        slope = sums.begin - sums.end - sums.bent
        take = settled | (jnp.abs(slope) <= FULL_STEP_SLOPE * h)
        if finishes:
            take = take | (last[0] != 0)
        one = jnp.ones_like(h)
        search = Search(one, 0 * one, UNBOUNDED * one, sums.begin - h, h - sums.bent)
        return (_flag(settled, h), _flag(~take, h), search), (), ()

    reads = (fixed("sums"), fixed("norms"), *((fixed("finishing"),) if finishes else ()))
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
    """The rows, as far along the step as was found; in the last round they stay."""

    def step(_: tuple, __: tuple, reads: tuple) -> tuple:
        x, a, x_new, a_new, search, *last = reads
        whole = search.alpha == 1

        def along_step(old: Any, new: Any) -> Any:
            return jnp.where(whole, new, old + search.alpha * (new - old))

        reached, acceleration = along_step(x, x_new), jax.tree.map(along_step, a, a_new)
        kept, still = reached, acceleration
        if finishes:
            kept, still = jax.tree.map(lambda o, n: jnp.where(last[0] != 0, o, n), (x, a), (kept, still))
        return (kept, still, reached), (), ()

    fields = tuple(ROW.at(0, f) for f in ("x", "a", "x_new", "a_new"))
    reads = (*fields, fixed("search"), *((fixed("finishing"),) if finishes else ()))
    loop = Loop(step, 1, NOTHING, reads=reads, writes=fields[:3])
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
            jnp.where(finishing, iterations, more),
            jnp.where(finishing, converged, good),
            jnp.where(finishing, zero, jnp.ones_like(more)),
            _flag(done & ~finishing, more),
        ), (), ()

    names = ("iterations", "converged", "going", *(("finishing",) if finishes else ()))
    reads = tuple(map(fixed, ("iterations", "settled", "converged", *(("finishing",) if finishes else ()))))
    loop = Loop(step, 0, NUMBER, reads=reads, writes=tuple(map(fixed, names)))
    return Part(loop, once, lambda model, plan, dtype: np.array([float(plan.world.iterations)]))


def newton(kinds: list[Kind], finishes: bool) -> list[Part | Again]:
    """All rounds, from the first guess in `x` and `a`."""

    def begin(_: tuple, __: tuple, ___: tuple) -> tuple:
        return (1.0, 0.0, 0.0, 0.0), (), ()

    names = ("going", "finishing", "iterations", "converged")
    start = Loop(begin, 0, NOTHING, writes=tuple(map(fixed, names)))
    parts: list[Part | Again] = [
        *unloaded(finishes),
        *(loading(kind, finishes) for kind in kinds),
        cleared(),
        inward(),
        outward(),
        *map(comparing, kinds),
        judged(finishes),
        *([searching(kinds)] if kinds else []),
        moved(finishes),
        counted(finishes),
    ]
    return [Part(start, once), Again(parts, fixed("going").offset, MOST)]


__all__ = ["GLOBAL", "Kind", "contact", "newton", "on_joint", "pulling"]

"""Kinds of constraints in lanes: contacts of each number of dimensions, limits, and friction losses.

All kinds go through the same four loops, over all constraints of a kind: load them on the tree, compare the two ends of
a step, probe a place along it, and pull with their forces. Constraints that do not act take no turns. Kinds on a body
keep w at both ends of a step (`seen`), and are loaded and compared when the sweeps along the tree visit their rows.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.lanes import Lane, Loop, Memory, Slots
from kinetree.model import Model
from kinetree.spatial import Force, Motion, Vec3

from ..cones import Response, dot, dry, ellipse, one_sided, pyramid, times
from ..groups import constant, six_by_six
from .contacts import along, frame, point_table, rows_of_points, surface_constants
from .joints import limit_table, loss_table
from .memory import ACTS, LIMIT, NUMBER, ROW, Held, Norms, Point, Search, Slope, Sums, fixed, point_memory
from .parts import Known, Part, Strand, listed, no_constants, table
from .plan import Plan


class Kind(NamedTuple):
    """One kind of constraints: where they are, w = J x − a_ref, the response to w, and what they add to the tree."""

    constants: Any  # treedef
    numbers: Callable[[Model, Plan, Known], Any]
    table: Callable[[Plan], np.ndarray]  # columns: row, constraint, and more of contacts
    columns: int
    own: tuple[Slots, ...]  # what the constraint keeps
    motion: tuple[str, str]  # the fields of the rows that hold J x, before and after the step
    when: Slots
    residual: Callable[[Any, tuple, Any], tuple]  # (known, kept, motion) -> w
    response: Callable[[Any, tuple, tuple], Response]  # (known, kept, w)
    adds: tuple[Slots, ...]
    load: Callable[[Any, tuple, Any, Any], tuple]  # (known, kept, curvature, constant force) -> what is added
    pulls: tuple[Slots, ...]
    pull: Callable[[Any, tuple, tuple], tuple]  # (known, kept, force) -> what is added
    rows: tuple[int, ...] = (0,)  # columns of the rows whose motion counts
    couples: bool = False  # whether it touches two rows: then the tree does not carry it
    links: bool = False  # whether links carry it (links.py)
    moves: Memory = ROW  # the blocks of what it moves
    seen: tuple[Slots, Slots] | None = None  # where w is kept, before the last step and after it
    list_name: Any = None  # the plan's name for the list of those that act, where there is one
    body: Callable[[Plan], np.ndarray] | None = None  # rows of the bodies that the tree's sweeps load and compare it on

    def at(self, when: int) -> tuple[Slots, ...]:
        """The motion of the rows before the step (0), or after it (1)."""
        return tuple(self.moves.at(column, self.motion[when]) for column in self.rows)

    def motions(self, reads: tuple) -> list[Any]:
        """Motions from the values of their slots: of a row, or a tuple of those of several."""
        n = len(self.rows)
        return [reads[k] if n == 1 else tuple(reads[k : k + n]) for k in range(0, len(reads), n)]

    def over(self, loop: Loop, numbers: Callable[[Model, Plan, Known], Any] = no_constants) -> Part:
        """A loop over all constraints of the kind that act."""
        part = Part(loop, self.table, numbers)
        return part if self.list_name is None else listed(part, self.list_name)

    @property
    def present(self) -> tuple[Slots, ...]:
        """What says where the constraint stands: w and the last step, or the motion of the rows."""
        return self.at(0) if self.seen is None else (*self.seen, fixed("search"))

    def stands(self, known: Any, kept: tuple, reads: tuple) -> tuple:
        """w, from the values of `present`."""
        if self.seen is None:
            return self.residual(known, kept, self.motions(reads)[0])
        return along_step(reads[2], reads[0], reads[1])


def along_step(search: Search, old: Any, new: Any) -> Any:
    """As far along the last step as was found."""
    return jax.tree.map(lambda a, b: jnp.where(search.alpha == 1, b, a + search.alpha * (b - a)), old, new)


class Friction(NamedTuple):
    """A contact's constants."""

    friction: tuple
    impratio: Any
    sign: Any


def cone_response(known: Friction, D: Any, w: tuple, elliptic: bool) -> Response:
    """Of a contact with as many dimensions as w has."""
    if len(w) == 1:
        return one_sided(w[0], D)
    return ellipse(w, D, known.friction, known.impratio) if elliptic else pyramid(w, D, known.friction)


def force_on_body(point: Point, sign: Any, f: tuple) -> Force:
    """The force of a contact along its directions, about the point of the tree."""
    zero = jnp.zeros_like(f[0])
    six = [*(x * sign for x in f), *(zero,) * (6 - len(f))]
    return frame(point).force_to_parent(Force(Vec3(*six[3:]), Vec3(*six[:3])))


def friction_constants(dim: int, coupled: bool) -> Callable[[Model, Plan, Known], Friction]:
    """Of all contacts of a number of dimensions."""

    def numbers(model: Model, plan: Plan, known: Known) -> Friction:
        surface = surface_constants(dim, model, plan, known, coupled)
        return Friction(surface.pair.friction[: max(dim - 1, 0)], surface.impratio, surface.sign)

    return numbers


def contact(dim: int, elliptic: bool) -> Kind:
    """Contacts of a number of dimensions."""
    memory = point_memory(dim)

    def residual(known: Friction, kept: tuple, a: Motion) -> tuple:
        point, ref, _ = kept
        return tuple(y - r for y, r in zip(along(point, known.sign, a, dim), ref, strict=True))

    def response(known: Friction, kept: tuple, w: tuple) -> Response:
        return cone_response(known, kept[2], w, elliptic)

    def pushed(known: Friction, kept: tuple, f: tuple) -> Force:
        return force_on_body(kept[0], known.sign, f)

    def load(known: Friction, kept: tuple, curvature: Any, g: tuple) -> tuple:
        inertia = frame(kept[0]).articulated_to_parent(six_by_six(curvature))
        return (Held(inertia, -pushed(known, kept, g)),)

    return Kind(
        constants=jax.tree.structure(Friction((0.0,) * (dim - 1), 0.0, 0.0)),
        numbers=friction_constants(dim, False),
        table=point_table(dim),
        columns=3,
        own=(memory.at(0, "point"), memory.at(0, "ref"), ACTS.at(1, "D")),
        motion=("a", "a_new"),
        when=ACTS.at(1, "D"),
        residual=residual,
        response=response,
        adds=(),
        load=load,
        pulls=(ROW.at(2, "force"),),
        pull=lambda known, kept, f: (pushed(known, kept, f),),
        seen=(memory.at(0, "w"), memory.at(0, "w_new")),
        body=rows_of_points(dim),
    )


def on_joint(losses: bool) -> Kind:
    """Limits, whose constant is their sign; or friction losses, whose constant is the most that they hold."""

    def numbers(model: Model, plan: Plan, known: Known) -> Any:
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
        list_name="losses" if losses else "limits",
    )


def _ref(kind: Kind, kept: tuple) -> tuple:
    return kept[1] if isinstance(kept[1], tuple) else (kept[1],)


def _loaded(kind: Kind, known: Any, kept: tuple, w: tuple, last: list) -> tuple:
    """What a constraint adds to the tree: curvature and force; in the last round the force alone."""
    r = kind.response(known, kept, w)
    g, H = constant(r, _ref(kind, kept)), r.curvature
    if last:
        finishing = last[0] != 0
        g = tuple(jnp.where(finishing, f, x) for f, x in zip(r.force, g, strict=True))
        H = jax.tree.map(lambda x: jnp.where(finishing, jnp.zeros_like(x), x), H)
    return kind.load(known, kept, H, g)


def loading(kind: Kind, finishes: bool) -> Part:
    """Curvature and force of the constraints on joints and strings, and of those that links carry."""
    n, m = len(kind.own), len(kind.present)

    def step(known: Any, _: tuple, reads: tuple) -> tuple:
        kept = reads[:n]
        w = kind.stands(known, kept, reads[n : n + m])
        adds = _loaded(kind, known, kept, w, list(reads[n + m :]))
        return () if kind.seen is None else (w,), adds, ()

    reads = (*kind.own, *kind.present, *((fixed("finishing"),) if finishes else ()))
    writes = () if kind.seen is None else kind.seen[:1]
    loop = Loop(step, kind.columns, kind.constants, reads=reads, writes=writes, adds=kind.adds, when=kind.when)
    return kind.over(loop, kind.numbers)


def loading_bodies(kind: Kind, finishes: bool) -> Strand:
    """The same of constraints on bodies, in the sweep inward."""
    n = len(kind.own)
    assert kind.seen is not None
    assert kind.body is not None

    def step(known: Any, _: tuple, reads: tuple, held: Held) -> tuple:
        kept = reads[:n]
        w = kind.stands(known, kept, reads[n : n + 3])
        (more,) = _loaded(kind, known, kept, w, list(reads[n + 3 :]))
        return (w,), (), (), Held(held.inertia + more.inertia, held.bias + more.bias)

    reads = (*kind.own, *kind.present, *((fixed("finishing"),) if finishes else ()))
    loop = Loop(step, kind.columns, kind.constants, reads=reads, writes=kind.seen[:1], when=kind.when)
    return Strand(Part(loop, kind.table, kind.numbers), kind.body)


def _compared(kind: Kind, known: Any, kept: tuple, w: tuple, full: tuple) -> Sums:
    """What the full step does to a constraint."""
    r, end = kind.response(known, kept, w), kind.response(known, kept, full)
    dw = tuple(b - a for a, b in zip(w, full, strict=True))
    one, zero = jnp.ones_like(w[0]), jnp.zeros_like(w[0])
    changed, curved = jnp.where(r.state != end.state, one, zero), jnp.where(end.curved, one, zero)
    return Sums(changed, curved, dot(r.force, dw), dot(end.force, dw), dot(times(r.curvature, dw), dw))


def comparing(kind: Kind) -> Part:
    """What the full step does to the constraints on joints, and to those that couple bodies."""
    n = len(kind.own)
    beside = kind.couples or kind.links  # not in the matrix of the tree

    def step(known: Any, _: tuple, reads: tuple) -> tuple:
        kept = reads[:n]
        if kind.seen is None:
            w, full = (kind.residual(known, kept, m) for m in kind.motions(reads[n:]))
        else:
            w, full = reads[n], kind.residual(known, kept, kind.motions(reads[n + 1 :])[0])
        sums = _compared(kind, known, kept, w, full)
        adds = (sums, Norms(sums.bent, jnp.zeros_like(sums.bent))) if beside else (sums,)
        return () if kind.seen is None else (full,), adds, ()

    reads = (*kind.own, *(kind.at(0) if kind.seen is None else kind.seen[:1]), *kind.at(1))
    adds = (fixed("sums"), fixed("norms")) if beside else (fixed("sums"),)
    writes = () if kind.seen is None else kind.seen[1:]
    loop = Loop(step, kind.columns, kind.constants, reads=reads, writes=writes, adds=adds, when=kind.when)
    return kind.over(loop, kind.numbers)


def comparing_bodies(kind: Kind) -> Strand:
    """The same of constraints on bodies, in a sweep outward."""
    n = len(kind.own)
    assert kind.seen is not None
    assert kind.body is not None

    def step(known: Any, _: tuple, reads: tuple, sweep: Any) -> tuple:
        kept, w = reads[:n], reads[n]
        full = kind.residual(known, kept, sweep.climb.new)
        sums = jax.tree.map(lambda a, b: a + b, sweep.sums, _compared(kind, known, kept, w, full))
        return (full,), (), (), sweep._replace(sums=sums)

    reads, writes = (*kind.own, kind.seen[0]), kind.seen[1:]
    loop = Loop(step, kind.columns, kind.constants, reads=reads, writes=writes, when=kind.when)
    return Strand(Part(loop, kind.table, kind.numbers), kind.body)


def probing(kind: Kind) -> Part:
    """Slope and bending of the cost at a place along the step."""
    n = len(kind.own)

    def step(known: Any, _: tuple, reads: tuple) -> tuple:
        kept, search = reads[:n], reads[-1]
        ends = reads[n:-1]
        if kind.seen is None:
            ends = tuple(kind.residual(known, kept, m) for m in kind.motions(ends))
        dw = tuple(b - a for a, b in zip(*ends, strict=True))
        r = kind.response(known, kept, tuple(a + search.alpha * b for a, b in zip(ends[0], dw, strict=True)))
        return (), (Slope(dot(r.force, dw), dot(times(r.curvature, dw), dw)),), ()

    ends = (*kind.at(0), *kind.at(1)) if kind.seen is None else kind.seen
    reads = (*kind.own, *ends, fixed("search"))
    loop = Loop(step, kind.columns, kind.constants, reads=reads, adds=(fixed("slope"),), when=kind.when)
    return kind.over(loop, kind.numbers)


def pulling(kind: Kind) -> Part:
    """The forces of the constraints, on rows and joints."""
    n = len(kind.own)

    def step(known: Any, _: tuple, reads: tuple) -> tuple:
        kept = reads[:n]
        r = kind.response(known, kept, kind.stands(known, kept, reads[n:]))
        return (), kind.pull(known, kept, r.force), ()

    reads = (*kind.own, *kind.present)
    loop = Loop(step, kind.columns, kind.constants, reads=reads, adds=kind.pulls, when=kind.when)
    return kind.over(loop, kind.numbers)


FORCE_REPORT = 6  # numbers a point: its force along normal and tangents, its moment about them


def telling(kind: Kind, dim: int, array: int) -> Part:
    """The forces of contacts on their second bodies, put out; zero where they do not act."""
    n = len(kind.own)

    def step(known: Any, _: tuple, reads: tuple) -> tuple:
        kept = reads[:n]
        r = kind.response(known, kept, kind.stands(known, kept, reads[n:]))
        zero = jnp.zeros_like(kept[2])
        acts = kept[2] != 0
        return (), (), (*(jnp.where(acts, f, zero) for f in r.force), *(zero,) * (FORCE_REPORT - dim))

    outputs = tuple(Lane(array, kind.columns, k) for k in range(FORCE_REPORT))
    loop = Loop(step, kind.columns + 1, kind.constants, reads=(*kind.own, *kind.present), outputs=outputs)

    def turns(plan: Plan) -> np.ndarray:
        numbers, _ = plan.points_of(dim, kind.couples)
        return np.concatenate([kind.table(plan), table(FORCE_REPORT * numbers)], 1)

    return Part(loop, turns, kind.numbers)

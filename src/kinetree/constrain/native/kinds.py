"""Kinds of constraints in lanes: contacts of each number of dimensions, limits, and friction losses.

All kinds use the same four loops over their constraints: load them on the tree, compare the two ends of a step, probe a
place along it, and pull with their forces. Inactive constraints take no turns.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.lanes import Lane, Memory, Slots
from kinetree.model import Model
from kinetree.spatial import Force, Motion, Vec3

from ..cones import Cone, Response, dot, dry, one_sided, times
from ..groups import constant
from ..jacobians import six_by_six
from .contacts import along, contact_list, frame, point_table, surface_constants
from .joints import LIMIT_LIST, limit_table, loss_table
from .memory import (
    ACTS,
    ARTICULATED_BLOCK,
    LIMIT,
    NUMBER,
    ROW,
    ArticulatedBody,
    Norms,
    Point,
    Slope,
    Sums,
    fixed,
    point_memory,
    total,
)
from .parts import Known, Part, added, part, table
from .plan import Plan


class Kind(NamedTuple):
    """One kind of constraints: their places, w = J x − a_ref, the response to w, and their load on the tree."""

    constants: Any  # treedef
    numbers: Callable[[Model, Plan, Known], Any]
    table: Callable[[Plan], np.ndarray]  # columns: row, constraint, and more of contacts
    columns: int
    own: tuple[Slots, ...]  # the values that the constraint keeps
    motion: tuple[str, str]  # the fields of the rows that hold J x, before and after the step
    when: Slots
    residual: Callable[[Any, tuple, Any], tuple]  # (known, kept, motion) -> w
    response: Callable[[Any, tuple, tuple], Response]  # (known, kept, w)
    adds: tuple[Slots, ...]
    load: Callable[[Any, tuple, Any, Any], tuple]  # (known, kept, curvature, constant force) -> the added load
    pulls: tuple[Slots, ...]
    pull: Callable[[Any, tuple, tuple], tuple]  # (known, kept, force) -> the added forces
    rows: tuple[int, ...] = (0,)  # columns of the rows whose motion counts
    couples: bool = False  # True if it touches two rows: then the tree does not carry it
    links: bool = False  # True if links carry it (links.py)
    moves: Memory = ROW  # the layout of the blocks that it moves
    listed: str = ""  # the name of the list of those that act
    keeps: tuple[Slots, ...] = ()  # w at x, and at the end of the full step; if not kept, w is found from the motion
    end: Slots | None = None  # where forces are kept if friction does not slip: after the constraint's own slots
    friction: str = ""  # its friction: "cone" or "dry"; empty without friction
    linear: bool = False  # True if forces are −C J x alone: those of a small change of a solution

    @property
    def linearised(self) -> "Kind":
        """The kind for small changes of a solution: with the curvature of the constraints, and no other force."""

        def response(known: Any, kept: tuple, w: tuple) -> Response:
            r = self.response(known, kept, w)
            none = tuple(jnp.zeros_like(x) for x in r.force)
            return r._replace(force=none, pull=none)

        return self._replace(response=response, linear=True)

    def bare(self, kept: tuple) -> tuple:
        """The values that a constraint keeps; for a small change its reference acceleration is zero."""
        return (kept[0], jax.tree.map(jnp.zeros_like, kept[1]), *kept[2:]) if self.linear else kept

    def constant(self, r: Response, kept: tuple) -> tuple:
        """g of force = g − C J x."""
        ref = self.bare(kept)[1]
        return constant(r, ref if isinstance(ref, tuple) else (ref,))

    def part(
        self,
        compute: Callable[..., tuple],
        seen: Any,
        made: Any,
        summed: bool = False,
        plain: bool = False,
        **more: Any,
    ) -> Part:
        """A loop over active constraints; `summed`: it adds to sums. If `plain`, turns need no constants."""
        turns = self.with_total if summed else self.table
        known = None if plain else (self.constants, self.numbers)
        return part(turns, compute, seen, made, known, columns=self.columns + summed, **self.acting, **more)

    @property
    def acting(self) -> dict[str, Any]:
        """The condition of a loop over active constraints."""
        return {"when": self.when, "follows": self.listed}

    def with_total(self, plan: Plan) -> np.ndarray:
        """The table, and the part of sums that each constraint adds to."""
        own = self.table(plan)
        rows = plan.number_of_row(own[:, self.rows]) if self.moves is ROW else np.zeros((len(own), 0), np.int64)
        return np.concatenate([own, table(plan.total(rows))], 1)

    def at(self, when: int) -> tuple[Slots, ...]:
        """The motion of the rows before the step (0), or after it (1)."""
        return tuple(self.moves.at(column, self.motion[when]) for column in self.rows)

    @property
    def now(self) -> tuple[Slots, ...]:
        """The slots from which w at x is computed."""
        return self.keeps[:1] or self.at(0)

    @property
    def ahead(self) -> tuple[Slots, ...]:
        """The slots from which w at the end of the full step is computed, after constraints were compared."""
        return self.keeps[1:] or self.at(1)

    def w(self, known: Any, kept: tuple, reads: tuple) -> tuple:
        """w from the values of `now` or `ahead`."""
        return reads[0] if self.keeps else self.residual(known, kept, *self.motions(reads))

    def state(self, known: Any, reads: tuple) -> tuple[tuple, Response]:
        """The values that a constraint keeps, and its response before the step, from the values of `own` and `now`."""
        n = len(self.own)
        kept = reads[:n]
        return kept, self.response(known, kept, self.w(known, kept, reads[n : n + len(self.now)]))

    def pressing(self, r: Response, kept: tuple, last: Any) -> tuple[tuple, Any]:
        """Constant force and curvature for a round; in the `last` one the force alone, None where there is none."""
        g, H = self.constant(r, kept), r.curvature
        if last is None:
            return g, H
        g = tuple(jnp.where(last, f, x) for f, x in zip(r.force, g, strict=True))
        return g, jax.tree.map(lambda x: jnp.where(last, jnp.zeros_like(x), x), H)

    def motions(self, reads: tuple) -> list[Any]:
        """Motions from the values of their slots: of a row, or a tuple of those of several."""
        n = len(self.rows)
        return [reads[k] if n == 1 else tuple(reads[k : k + n]) for k in range(0, len(reads), n)]


class Friction(NamedTuple):
    """A contact's constants."""

    friction: tuple
    impratio: Any
    sign: Any


def cone_of(known: Friction, D: Any, elliptic: bool) -> Cone:
    """The cone of a contact."""
    return Cone(D, known.friction, known.impratio, elliptic)


def force_on_body(point: Point, sign: Any, f: tuple) -> Force:
    """The force of a contact along its directions, about the point of the tree."""
    zero = jnp.zeros_like(f[0])
    six = [*(x * sign for x in f), *(zero,) * (6 - len(f))]
    return frame(point).force_to_parent(Force(Vec3(*six[3:]), Vec3(*six[:3])))


def friction_constants(dim: int, coupled: bool) -> Callable[[Model, Plan, Known], Friction]:
    """Friction of all contacts of a number of dimensions."""

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
        return cone_of(known, kept[2], elliptic).response(w)

    def pushed(known: Friction, kept: tuple, f: tuple) -> Force:
        return force_on_body(kept[0], known.sign, f)

    def load(known: Friction, kept: tuple, curvature: Any, g: tuple) -> tuple:
        inertia = frame(kept[0]).articulated_to_parent(six_by_six(curvature))
        return (ArticulatedBody(inertia, -pushed(known, kept, g)),)

    def turns(plan: Plan) -> np.ndarray:
        _, pairs = plan.points_of(dim)
        return np.concatenate([point_table(dim)(plan), table(plan.articulated[plan.rows_of_pair(pairs)])], 1)

    return Kind(
        constants=jax.tree.structure(Friction((0.0,) * (dim - 1), 0.0, 0.0)),
        numbers=friction_constants(dim, False),
        table=turns,
        columns=4,
        own=(memory.at(1, "point"), memory.at(1, "ref"), ACTS.at(2, "D")),
        motion=("a", "a_new"),
        when=ACTS.at(2, "D"),
        residual=residual,
        response=response,
        adds=(ARTICULATED_BLOCK.at(3, "body"),),
        load=load,
        pulls=(ROW.at(0, "force"),),
        pull=lambda known, kept, f: (pushed(known, kept, f),),
        listed=contact_list(dim, False),
        keeps=(memory.at(1, "w"), memory.at(1, "w_new")),
        end=memory.at(1, "w")._replace(offset=memory.size),
        friction="cone",
    )


def of_one_number(adds: tuple[Slots, Slots], pull: Callable[[Any, tuple, tuple], tuple], **rest: Any) -> Kind:
    """A kind whose constraints act along one number, and keep their stiffness and reference.

    `adds` are the places of curvature and force; `pull` turns a force into the value that is added there.
    """
    return Kind(
        constants=NUMBER,
        columns=2,
        own=(LIMIT.at(1, "D"), LIMIT.at(1, "ref")),
        when=LIMIT.at(1, "D"),
        adds=adds,
        load=lambda known, kept, curvature, g: (curvature[0][0], *pull(known, kept, g)),
        pulls=adds[1:],
        pull=pull,
        end=LIMIT.at(1, "D")._replace(offset=LIMIT.size),
        **rest,
    )


def on_joint(losses: bool) -> Kind:
    """Limits, whose constant is their sign; or friction losses, whose constant is the most that they hold."""

    def numbers(model: Model, plan: Plan, known: Known) -> Any:
        if not losses or model.friction is None:
            return plan.limits[:, 1].astype(float)
        return model.friction[np.array(plan.has.loss, np.int64)]

    def residual(known: Any, kept: tuple, x: Any) -> tuple:
        return ((x if losses else known * x) - kept[1],)

    def response(known: Any, kept: tuple, w: tuple) -> Response:
        return dry(w[0], kept[0], known) if losses else one_sided(w[0], kept[0])

    def pull(known: Any, kept: tuple, f: tuple) -> tuple:
        return (f[0] if losses else known * f[0],)

    return of_one_number(
        (ROW.at(0, "resistance"), ROW.at(0, "push")),
        pull,
        numbers=numbers,
        table=loss_table if losses else limit_table,
        listed="" if losses else LIMIT_LIST,
        motion=("x", "x_new"),
        residual=residual,
        response=response,
        friction="dry" if losses else "",
    )


def load_constraints(kind: Kind, finishes: bool) -> Part:
    """Put curvature and force of the constraints on the tree; in the last round only the force."""

    def step(known, *reads):
        kept, r = kind.state(known, reads)
        g, H = kind.pressing(r, kept, reads[-1] != 0 if finishes else None)
        return kind.load(known, kept, H, g)

    reads = (*kind.own, *kind.now, *((fixed("finishing"),) if finishes else ()))
    return kind.part(step, reads, added(*kind.adds))


def compare_constraints(kind: Kind) -> Part:
    """Compare the constraints at the two ends of the full step."""
    n = len(kind.own)
    beside = kind.couples or kind.links  # not in the matrix of the tree

    def step(known, *reads):
        kept, moved = reads[:n], reads[n + len(kind.now) :]
        w = kind.w(known, kept, reads[n : n + len(kind.now)])
        full = kind.residual(known, kept, *kind.motions(moved))
        r, end = kind.response(known, kept, w), kind.response(known, kept, full)
        dw = tuple(b - a for a, b in zip(w, full, strict=True))
        one, zero = jnp.ones_like(w[0]), jnp.zeros_like(w[0])
        bent = dot(times(r.curvature, dw), dw)
        changed, curved = jnp.where(r.state != end.state, one, zero), jnp.where(end.curved, one, zero)
        sums = Sums(changed, curved, dot(r.force, dw), dot(end.force, dw), bent)
        return (*((full,) if kind.keeps else ()), *((sums, Norms(bent, zero)) if beside else (sums,)))

    reads = (*kind.own, *kind.now, *kind.at(1))
    adds = tuple(total(kind.columns, name) for name in (("sums", "norms") if beside else ("sums",)))
    return kind.part(step, reads, (*kind.keeps[1:], *added(*adds)), summed=True)


def move_constraints(kind: Kind, search: Slots, along: Callable[[Any, Any, Any], Any]) -> Part:
    """Move w to the end of a step whose length the search found."""

    def step(w, full, found):
        return (tuple(along(found, a, b) for a, b in zip(w, full, strict=True)),)

    return kind.part(step, (*kind.keeps, search), kind.keeps[:1], plain=True)


def probe_constraints(kind: Kind) -> Part:
    """Find slope and curvature of the cost at a place along the step."""
    n = len(kind.own)

    def step(known, *reads):
        kept, search = reads[:n], reads[-1]
        half = n + len(kind.now)
        w, full = (kind.w(known, kept, x) for x in (reads[n:half], reads[half:-1]))
        dw = tuple(b - a for a, b in zip(w, full, strict=True))
        r = kind.response(known, kept, tuple(a + search.alpha * b for a, b in zip(w, dw, strict=True)))
        return (Slope(dot(r.force, dw), dot(times(r.curvature, dw), dw)),)

    reads = (*kind.own, *kind.now, *kind.ahead, fixed("search"))
    return kind.part(step, reads, added(total(kind.columns, "slope")), summed=True)


def pull_constraints(kind: Kind) -> Part:
    """Put the forces of the constraints on rows and joints."""

    def step(known, *reads):
        kept, r = kind.state(known, reads)
        return kind.pull(known, kept, r.force)

    return kind.part(step, (*kind.own, *kind.now), added(*kind.pulls), rare=kind.couples)


FORCE_REPORT = 6  # numbers a point: its force along normal and tangents, its moment about them


def report_contact_forces(kind: Kind, dim: int, array: int) -> Part:
    """Output the forces of contacts on their second bodies; zero for inactive ones."""

    def step(known, *reads):
        kept, r = kind.state(known, reads)
        zero = jnp.zeros_like(kept[2])
        acts = kept[2] != 0
        return (*(jnp.where(acts, f, zero) for f in r.force), *(zero,) * (FORCE_REPORT - dim))

    def turns(plan: Plan) -> np.ndarray:
        numbers, _ = plan.points_of(dim, kind.couples)
        return np.concatenate([kind.table(plan), table(FORCE_REPORT * numbers)], 1)

    outputs = [Lane(array, kind.columns, k) for k in range(FORCE_REPORT)]
    return part(turns, step, (*kind.own, *kind.now), outputs, (kind.constants, kind.numbers))

"""Contacts that a search found, as functions of poses and sizes that can be run backwards.

A program finds the points, and how each moves with its shapes (collide/motion.py): the motions. Programs for
derivatives take these as known numbers, and have no search of their own.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import library
from kinetree.collide import Contact, Geom, collider
from kinetree.collide.field import prism_of
from kinetree.collide.motion import COLUMNS, motions
from kinetree.collide.shapes import frame_of
from kinetree.lanes import Lane, Slots
from kinetree.model import Model
from kinetree.model.world import BOTH
from kinetree.spatial import Mat3, Vec3

from .contacts import BY_FORMULA, FAR, MEETING, WITH_HULLS, Between, pair_constants, pair_table, place_slots
from .features import Features
from .memory import ACTS, ZERO3, Point, coupled_memory, point_memory
from .parts import Known, Part, WithPool, part
from .plan import Plan

Kinds = tuple[str, str]
FOUND = 8  # numbers of a point: 1 if it is near, its position, normal and distance
REPORT = FOUND + 7 * COLUMNS  # numbers of a point: what was found, then motions of position, normal and distance
CLOSED_FORMS = BY_FORMULA - {("box", "box")}  # kinds of pairs whose formulas can be run backwards


def searched(features: Features) -> bool:
    """True if some contacts need a search."""
    return any(kinds not in CLOSED_FORMS for kinds, _ in features.touches)


def width(plan: Plan) -> int:
    """The count of numbers of all points that need a search."""
    return REPORT * sum(plan.n_points(p) for p in plan.pairs if plan.kinds(p) not in CLOSED_FORMS)


def _columns(plan: Plan) -> dict[int, int]:
    """Where the numbers of the points of each pair begin."""
    at, found = 0, {}
    for k, pair in enumerate(plan.pairs):
        if plan.kinds(pair) not in CLOSED_FORMS:
            found[k], at = at, at + REPORT * plan.n_points(pair)
    return found


class _Turns:
    """One turn for each point of the pairs of some kinds. Columns: those of rows, the point, whether it acts, ..."""

    def __init__(self, kinds: Kinds, moving: int, single: bool):
        self.kinds, self.moving, self.points = kinds, moving, collider(kinds, single).points
        self.rows = 4 if moving == BOTH else 2
        self.memory = (coupled_memory if moving == BOTH else point_memory)(1)

    @property
    def report(self) -> int:
        """The column that says where the numbers of a point begin."""
        return self.rows + 2 + (self.moving == BOTH)

    @property
    def slots(self) -> tuple[Slots, ...]:
        """The slots of a point: a flag that it is near, its position, its distance, its place in the other tree."""
        distance = self.memory.at(self.rows, "ref")._replace(tree=jax.tree.structure(0.0))
        own = ACTS.at(self.rows + 1, "D"), self.memory.at(self.rows, "point"), distance
        other = Slots(self.rows + 2, 0, jax.tree.structure(ZERO3), cold=True)
        return (*own, other) if self.moving == BOTH else own

    def table(self, plan: Plan) -> np.ndarray:
        """All first points, then all second ones, and so on."""
        pairs, numbers = pair_table(self.kinds, self.moving)(plan), _columns(plan)
        begins = np.array([numbers[k] for k in plan.members(self.kinds, self.moving)], np.int64)
        parts = []
        for k in range(self.points):
            own = [self.rows + k + self.points * j for j in range(self.report - self.rows)]
            columns = pairs[:, [*range(self.rows), *own]]
            parts.append(np.concatenate([columns, (begins + k * REPORT)[:, None]], 1))
        return np.ascontiguousarray(np.concatenate(parts).astype(np.int32))

    def constants(self, by_pool: bool) -> Any:
        """Of the two shapes of each point."""
        make = pair_constants(self.kinds, self.moving, by_pool, self.points)

        def repeated(model: Model, plan: Plan, known: Known) -> Any:
            made = make(model, plan, known)
            values = made.values if isinstance(made, WithPool) else made
            values = jax.tree.map(lambda x: library(x).concatenate([x] * self.points), values)
            return WithPool(values, made.pool) if isinstance(made, WithPool) else values

        return repeated


def output_motions(kinds: Kinds, moving: int, single: bool, array: int) -> list[Part]:
    """Output each found point and its motion, after shapes were collided."""
    turns, by_pool = _Turns(kinds, moving, single), kinds not in BY_FORMULA
    between = Between(moving)

    def step(known, *reads):
        known, pool = known if by_pool else (known, None)
        near, point, distance = reads[turns.rows :]
        a, b = between.shapes(known, reads[: turns.rows], pool)
        names = kinds
        if kinds[0] == "hfield":
            (a, _), names = prism_of(kinds[1], a, b, known.reach), ("prism", kinds[1])
        frame = Mat3(*point.normal, *point.tangent, *point.normal.cross(point.tangent))
        found = [near, *point.position, *point.normal, distance]
        for position, normal, away in motions(names, a, b, Contact(point.position, frame, distance)):
            found += [*position, *normal, away]
        return tuple(found)

    outputs = tuple(Lane(array, turns.report, k) for k in range(REPORT))
    known = WITH_HULLS if by_pool else MEETING, turns.constants(by_pool)
    reads = (*place_slots(turns.rows), *turns.slots[:3])
    return [
        part(turns.table, lambda: (0.0,) * REPORT, (), outputs),
        part(turns.table, step, reads, outputs, known, when=turns.slots[0], pool=by_pool),
    ]


def _velocity(geom: Geom, point: Vec3) -> tuple[Vec3, Vec3]:
    """How a shape turns, and where it carries a point: with values of zero and the point, for derivatives."""
    still = jax.lax.stop_gradient(geom)
    carried = geom.rotation @ still.rotation.t_mul(point - still.position) + geom.position
    turn = Mat3(*(geom.rotation @ still.rotation.T)).rows
    return Vec3(turn[2].y - turn[1].z, turn[0].z - turn[2].x, turn[1].x - turn[0].y) * 0.5, carried


def read_points(kinds: Kinds, moving: int, single: bool, array: int) -> Part:
    """Points of contact from inputs."""
    turns, between = _Turns(kinds, moving, single), Between(moving)

    def step(known, *seen):
        given, reads = seen[:REPORT], seen[REPORT:]
        near, position, normal, distance = given[0], Vec3(*given[1:4]), Vec3(*given[4:7]), given[7]
        a, b = between.shapes(known, reads)
        (turn_a, at_a), (turn_b, at_b) = (_velocity(g, position) for g in (a, b))
        sizes = [s - jax.lax.stop_gradient(s) for g in (a, b) for s in g.size]
        normal, found = normal + turn_a.cross(normal), at_a
        for k, change in enumerate((*(turn_b - turn_a), *(at_b - at_a), *sizes)):
            own = given[FOUND + 7 * k : FOUND + 7 * k + 7]
            found, normal = found + Vec3(*own[:3]) * change, normal + Vec3(*own[3:6]) * change
            distance = distance + own[6] * change
        point = Point(found, normal, frame_of(normal).rows[1])
        made = near, point, jnp.where(near != 0, distance, FAR)
        return (*made, found - between.places(reads)[2]) if moving == BOTH else made

    given = tuple(Lane(array, turns.report, k) for k in range(REPORT))
    seen = (*given, *place_slots(turns.rows))
    return part(turns.table, step, seen, turns.slots, (MEETING, turns.constants(False)))

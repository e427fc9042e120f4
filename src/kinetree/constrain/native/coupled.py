"""Contacts between two moving bodies in lanes: their kind of constraints, and how soft they are."""

from typing import Any

import jax
import numpy as np

from kinetree.spatial import Force, Motion, Vec3

from ..contact_softness import soft_contact
from .contacts import SURFACE, along, contact_list, surface_constants
from .features import with_power
from .kinds import Friction, Kind, cone_of, force_on_body, friction_constants
from .memory import ACTS, ROW, Point, coupled_memory, fixed
from .parts import Part, part, table
from .plan import Plan

ROW1, POINT, ROW2, BODY1, BODY2, REPLY1, REPLY2, ACT, COLUMNS = range(9)  # columns, and their number


def _turns(dim: int) -> Any:
    def turns(plan: Plan) -> np.ndarray:
        numbers, pairs = plan.points_of(dim, True)
        first, second = (plan.rows_of_pair(pairs, k) for k in (0, 1))
        rows, bodies, replies = (
            [f(r) for r in (first, second)] for f in (plan.row, lambda r: plan.articulated[r], plan.reply)
        )
        return table(rows[0], plan.point(numbers), rows[1], *bodies, *replies, plan.acts(numbers))

    return turns


def seen_from(point: Point, other: Vec3) -> Point:
    """The point, about the point of the second body's tree."""
    return point._replace(position=other)


def apart(point: Point, other: Vec3, first: Motion, second: Motion, dim: int) -> tuple:
    """The motion of the second body relative to the first, along the directions of a contact."""
    one, two = along(point, 1.0, first, dim), along(seen_from(point, other), 1.0, second, dim)
    return tuple(b - a for a, b in zip(one, two, strict=True))


def both_forces(point: Point, other: Vec3, f: tuple) -> tuple[Force, Force]:
    """On the first body, and on the second."""
    return force_on_body(point, -1.0, f), force_on_body(seen_from(point, other), 1.0, f)


def soften_coupled_contacts(dim: int, elliptic: bool, power: int | None) -> Part:
    """Reference accelerations and stiffness of contacts between moving bodies."""
    memory = coupled_memory(dim)

    def step(known, point, other, ref, v1, v2, a1, a2, least_time):
        speed = apart(point, other, v1, v2, dim)
        surface = known.pair._replace(solimp=with_power(known.pair.solimp, power))
        made, D = soft_contact(surface, ref[0], speed, known.weight, known.impratio, least_time, elliptic)
        w = tuple(y - r for y, r in zip(apart(point, other, a1, a2, dim), made, strict=True))
        return (D, made, w)

    own = tuple(memory.at(POINT, f) for f in ("point", "other", "ref"))
    reads = (*own, *(ROW.at(row, f) for f in ("v", "a") for row in (ROW1, ROW2)), fixed("least_time"))
    D = ACTS.at(ACT, "D")
    writes, lists = (D, own[2], memory.at(POINT, "w")), (contact_list(dim, True), D)
    known = SURFACE, lambda *given: surface_constants(dim, *given, coupled=True)
    return part(_turns(dim), step, reads, writes, known, columns=COLUMNS, when=D, lists=lists)


def coupled(dim: int, elliptic: bool) -> Kind:
    """Contacts between moving bodies of a number of dimensions."""
    memory = coupled_memory(dim)

    def residual(known: Friction, kept: tuple, m: tuple) -> tuple:
        point, ref, _, other = kept
        first, second = m
        return tuple(y - r for y, r in zip(apart(point, other, first, second, dim), ref, strict=True))

    return Kind(
        constants=jax.tree.structure(Friction((0.0,) * (dim - 1), 0.0, 0.0)),
        numbers=friction_constants(dim, True),
        table=_turns(dim),
        columns=COLUMNS,
        own=(memory.at(POINT, "point"), memory.at(POINT, "ref"), ACTS.at(ACT, "D"), memory.at(POINT, "other")),
        motion=("a", "a_new"),
        when=ACTS.at(ACT, "D"),
        residual=residual,
        response=lambda known, kept, w: cone_of(known, kept[2], elliptic).response(w),
        adds=(),
        load=lambda *_: (),
        pulls=(ROW.at(ROW1, "force"), ROW.at(ROW2, "force")),
        pull=lambda known, kept, f: both_forces(kept[0], kept[3], f),
        rows=(ROW1, ROW2),
        couples=True,
        listed=contact_list(dim, True),
        keeps=(memory.at(POINT, "w"), memory.at(POINT, "w_new")),
        end=memory.at(POINT, "w")._replace(offset=memory.size),
        friction="cone",
    )

"""Which pairs of shapes may touch, in lanes: quick tests before the contact points are computed (near.py).

Shapes of pairs that both move, or of a crowd, are placed once for all their pairs.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import there
from kinetree.collide import Geom, collider
from kinetree.model import Model
from kinetree.model.world import BOTH

from .contacts import (
    MEETING,
    PLACED,
    Between,
    geom,
    pair_constants,
    pair_table,
    place_slots,
    shape_places,
)
from .memory import ACTS, SHAPE, ZERO3
from .near import Test, bounds_like, bounds_of, is_asked, tests_of
from .parts import Known, Part, part, table
from .plan import Plan


def placed_shapes(crowded: bool) -> list[Part]:
    """Shapes in the world: those that move, and of a crowd those that do not."""

    def shapes(plan: Plan, move: bool) -> tuple[np.ndarray, np.ndarray, list[int]]:
        """Numbers of shapes, rows that carry them, and first slots."""
        rows = plan.structure.rows_of(there(plan.world.scene).layout.bodies)
        numbers = np.array([i for i in plan.shape_slots if (rows[i] >= 0) == move], np.int64)
        return numbers, rows[numbers], [plan.shape_slots[int(i)] for i in numbers]

    def placed(move: bool) -> Part:
        def step(known, *reads):
            if not move:
                return geom(known)[:2]
            found = geom(known, reads[0])
            return (found.position - reads[1].position, found.rotation)

        def turns(plan: Plan) -> np.ndarray:
            _, rows, slots = shapes(plan, move)
            return table(plan.row(rows), plan.base(plan.tree_of_row[rows]), slots) if move else table(slots)

        def constants(model: Model, plan: Plan, known: Known) -> Any:
            return jax.tree.map(lambda x: x[shapes(plan, move)[0]], shape_places(model))

        at = 2 if move else 0
        writes, reads = (SHAPE.at(at, "position"), SHAPE.at(at, "rotation")), place_slots(at)
        return part(turns, step, reads, writes, (PLACED, constants), columns=at + 1)

    return [placed(move) for move in ((True, False) if crowded else (True,))]


def near_tests(kinds: tuple[str, str], moving: int, single: bool, crowded: bool) -> list[Part]:
    """Tests of the pairs of some kinds: they set flags of points that may be near."""
    count, many = collider(kinds, single).points, moving == BOTH or crowded
    between = Between(moving)

    def placed(sizes: tuple, reads: tuple) -> tuple[Geom, Geom]:
        return Geom(reads[0], reads[1], sizes[0]), Geom(reads[2], reads[3], sizes[1])

    def look(test: Test) -> Any:
        def asked(known, *reads):
            meeting, bounds = known
            first, second = placed(meeting, reads) if many else between.shapes(meeting, reads)
            near = test(first, second, bounds)
            flag = jnp.where(near, jnp.ones_like(bounds.radius), jnp.zeros_like(bounds.radius))
            return (flag,) * count

        return asked

    places = tuple(SHAPE.at(k, f) for k in (0, 1) for f in ("position", "rotation")) if many else place_slots(2)
    flags = tuple(ACTS.at(2 + k, "D") for k in range(count))

    def turns(plan: Plan) -> np.ndarray:
        every, rows = pair_table(kinds, moving)(plan), 4 if moving == BOTH else 2
        flags = every[:, rows + count : rows + 2 * count]
        if not many:
            return np.concatenate([every[:, :rows], flags], 1)
        both = np.stack(plan.pair_facts[:2], 1)[np.array(plan.members(kinds, moving))]
        slots = np.zeros(both.max() + 1, np.int32)
        for shape in np.unique(both).tolist():
            slots[shape] = plan.shape_slots[shape]
        shapes = slots[both]
        return np.concatenate([shapes, flags], 1)

    def constants(test: Test, model: Model, plan: Plan, known: Known) -> tuple:
        meeting = pair_constants(kinds, moving, False)(model, plan, known)
        pairs = [plan.pairs[k] for k in plan.members(kinds, moving)]
        bounds = bounds_of(kinds, there(plan.world.scene).shapes, pairs, meeting.reach)
        sizes = meeting.static.size, meeting.moving.size
        needed, bounds = test.needs(sizes if moving else sizes[::-1], bounds)
        return needed if many else meeting, bounds

    parts = []
    for test in tests_of(kinds) if is_asked(kinds, many) else ():
        when = flags[0] if parts else None
        sizes, bounds = test.needs((ZERO3, ZERO3), bounds_like(kinds))
        known = (sizes if many else MEETING, bounds), partial(constants, test)
        parts.append(part(turns, look(test), places, flags, known, when=when))
    return parts

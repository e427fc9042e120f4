"""Which pairs of shapes may touch, in lanes: asked before it is computed where they do (near.py has the questions).

Shapes that both move are placed once for all pairs that they belong to.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.collide import Geom, collider
from kinetree.lanes import Loop
from kinetree.model import Model
from kinetree.model.world import BOTH

from .contacts import FAR, MEETING, Between, distance_slot, geom, pair_constants, pair_table, place_slots, shape_places
from .memory import ACTS, SHAPE, ZERO3, coupled_memory, point_memory
from .near import Test, bounds_like, bounds_of, is_asked, tests_of
from .parts import Known, Part, table
from .plan import Plan


def placed_shapes() -> Part:
    """Shapes in the world that may touch others that move."""

    def step(known: Any, _: tuple, reads: tuple) -> tuple:
        row, base = reads
        found = geom(known, row)
        return (found.position - base.position, found.rotation), (), ()

    def shapes(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
        assert plan.world.scene is not None
        numbers = np.array(list(plan.shape_slots), np.int64)
        bodies = np.array(plan.world.scene.layout.bodies, np.int64)[numbers]
        return numbers, plan.structure.row_of_body[bodies].astype(np.int64)

    def turns(plan: Plan) -> np.ndarray:
        rows = shapes(plan)[1]
        return table(plan.row(rows), plan.base(plan.tree_of_row[rows]), list(plan.shape_slots.values()))

    example = MEETING.static._replace(hull=())
    writes = (SHAPE.at(2, "position"), SHAPE.at(2, "rotation"))
    loop = Loop(step, 3, jax.tree.structure(example), reads=place_slots(2), writes=writes)

    def constants(model: Model, plan: Plan, known: Known) -> Any:
        return jax.tree.map(lambda x: x[shapes(plan)[0]], shape_places(model))

    return Part(loop, turns, constants)


def looks(kinds: tuple[str, str], moving: int, single: bool) -> list[Part]:
    """Questions about the pairs of some kinds: flags of points that may be near, all of which are far yet."""
    count, both = collider(kinds, single).points, moving == BOTH
    memory = (coupled_memory if both else point_memory)(1)
    like = (ZERO3, ZERO3) if both else MEETING
    between = Between(moving)

    def placed(sizes: tuple, reads: tuple) -> tuple[Geom, Geom]:
        return Geom(reads[0], reads[1], sizes[0]), Geom(reads[2], reads[3], sizes[1])

    def look(test: Test) -> Any:
        def asked(known: tuple, _: tuple, reads: tuple) -> tuple:
            meeting, bounds = known
            first, second = placed(meeting, reads) if both else between.shapes(meeting, reads)
            near = test(first, second, bounds)
            flag = jnp.where(near, jnp.ones_like(bounds.reach), jnp.zeros_like(bounds.reach))
            return (flag, jnp.full_like(flag, FAR)) * count, (), ()

        return asked

    places = tuple(SHAPE.at(k, f) for k in (0, 1) for f in ("position", "rotation")) if both else place_slots(2)
    flags = tuple(ACTS.at(2 + count + k, "D") for k in range(count))
    writes = tuple(x for k in range(count) for x in (flags[k], distance_slot(2 + k, memory)))

    def turns(plan: Plan) -> np.ndarray:
        every = pair_table(kinds, moving)(plan)
        if not both:
            return every
        pairs = [plan.pairs[k] for k in plan.members(kinds, moving)]
        shapes = table(
            *([plan.shape_slots[i] for i in numbers] for numbers in zip(*(p[:2] for p in pairs), strict=True))
        )
        return np.concatenate([shapes, every[:, 4 : 4 + 2 * count]], 1)

    def constants(model: Model, plan: Plan, known: Known) -> tuple:
        meeting = pair_constants(kinds, moving, False)(model, plan, known)
        assert plan.world.scene is not None
        pairs = [plan.pairs[k] for k in plan.members(kinds, moving)]
        bounds = bounds_of(kinds, plan.world.scene.shapes, pairs, meeting.reach)
        return (meeting.static.size, meeting.moving.size) if both else meeting, bounds

    structure, parts = jax.tree.structure((like, bounds_like(kinds))), []
    for test in tests_of(kinds) if is_asked(kinds, both) else ():
        when = flags[0] if parts else None
        loop = Loop(look(test), 2 + 2 * count, structure, reads=places, writes=writes, when=when)
        parts.append(Part(loop, turns, constants))
    return parts

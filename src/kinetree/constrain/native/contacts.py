"""Contacts: where shapes touch, and how soft each point is. One loop for each kind of pair."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.collide import Geom, collider
from kinetree.collide.pool import pooled
from kinetree.collide.solids import UNIT_BOX
from kinetree.lanes import Lane, Loop, Memory, Slots
from kinetree.model import Model, Placement
from kinetree.model.world import BOTH, PairSurfaces
from kinetree.spatial import Motion, Rotation, Transform, Vec3

from ..contact_softness import soft_contact
from ..touching import surfaces_of_pairs
from ..weights import inverse_weights
from .features import BY_FORMULA, with_power
from .memory import ACTS, NUMBER, ROW, ZERO3, Passing, Point, coupled_memory, fixed, point_memory
from .parts import Known, Part, Strand, WithPool, listed, listing, table
from .plan import Plan
from .shapes import HULLED, PLACED, Placed, geom, shape_places

FAR = 1e10  # m: stands for the distance of a point that is no contact, so that no infinite number is multiplied


POINT_REPORT = 14  # numbers that are reported of a point


class Meeting(NamedTuple):
    """Two shapes that may touch."""

    static: Placed
    moving: Placed
    reach: Any


MEETING = Meeting(PLACED, PLACED, 0.0)
WITH_HULLS = Meeting(HULLED, HULLED, 0.0)

CHEAP = BY_FORMULA - {("capsule", "box"), ("box", "box")}  # No dearer than to ask whether shapes are near.


def _found(collider: Any, first: Geom, second: Geom, reach: Any) -> list[Any]:
    """Whether each point is near, the point, and its distance."""
    found: list[Any] = []
    for c in collider.function(first, second, reach):
        normal, tangent, _ = c.frame.rows
        near = jnp.where(c.active, jnp.ones_like(c.distance), jnp.zeros_like(c.distance))
        found += [near, Point(c.position, normal, tangent), jnp.where(c.active, c.distance, FAR)]
    return found


def _point_slots(column: int, acts: int, memory: Memory) -> list[Slots]:
    """Of a point whose first slot, and whose stiffness, are in these columns."""
    return [ACTS.at(acts, "D"), memory.at(column, "point"), _distance(column, memory)]


def colliding(kinds: tuple[str, str], moving: int, single: bool = False) -> list[Strand]:
    """Pairs of some kinds, by formulas, of which one shape moves: in the sweep that visits its row."""
    function = collider(kinds, single)
    count = function.points

    def shapes(known: Meeting, base: Placement, row: Passing) -> tuple[Geom, Geom]:
        static = geom(known.static)
        static, own = static._replace(position=static.position + base.position), geom(known.moving, row.pose)
        return (static, own) if moving else (own, static)

    def look(known: tuple, _: tuple, reads: tuple, row: Passing) -> tuple:
        meeting, radius = known
        near = _near(kinds, *shapes(meeting, reads[0], row), radius)
        return (jnp.where(near, jnp.ones_like(radius), jnp.zeros_like(radius)),) * count, (), (), row

    def step(known: Meeting, _: tuple, reads: tuple, row: Passing) -> tuple:
        return tuple(_found(function, *shapes(known, reads[0], row), known.reach)), (), (), row

    flags = tuple(ACTS.at(1 + count + k, "D") for k in range(count))
    writes = tuple(x for k in range(count) for x in _point_slots(1 + k, 1 + count + k, point_memory(1)))
    base = (ROW.at(0, "pose"),)
    cull = Loop(look, 1 + 2 * count, jax.tree.structure((MEETING, 0.0)), reads=base, writes=flags)
    loop = Loop(step, 1 + 2 * count, jax.tree.structure(MEETING), reads=base, writes=writes, when=flags[0])

    def rows(plan: Plan) -> np.ndarray:
        return plan.row_of_pair(_members(plan, kinds, moving))

    def turns(plan: Plan) -> np.ndarray:
        return _pair_table(kinds, moving)(plan)[:, 1:]

    constants = _pair_constants(kinds, moving, False)
    return [Strand(Part(cull, turns, _bounds(kinds, moving)), rows), Strand(Part(loop, turns, constants), rows)]


def _near(kinds: tuple[str, str], first: Geom, second: Geom, radius: Any) -> Any:
    """Whether shapes may touch: by the distance of their centres, or above a plane."""
    between = second.position - first.position
    return between.dot(first.axis) <= radius if kinds[0] == "plane" else between.dot(between) <= radius * radius


def colliding_stored(kinds: tuple[str, str], moving: int, single: bool = False) -> list[Part]:
    """Loops over the pairs of some kinds, on stored rows. Where it pays, shapes are asked first whether they are near.

    For two shapes that move, and for colliders that look up hulls.
    """
    function = collider(kinds, single)
    count, both, by_pool = function.points, moving == BOTH, kinds not in BY_FORMULA
    example = WITH_HULLS if by_pool else MEETING

    def places(reads: tuple) -> tuple[Placement | None, Placement, Vec3]:
        """Rows of both shapes about the point of the first one's tree, and where that is from the other's."""
        if not both:
            row, base = reads
            return None, row, base.position
        first, second, base, other = reads
        away = base.position - other.position
        return first, second._replace(position=second.position + away), away

    def shapes(known: Any, reads: tuple, pool: Any = None) -> tuple[Geom, Geom]:
        """The first and the second one."""
        one, two, away = places(reads)
        static, own = geom(known.static, one, pool), geom(known.moving, two, pool)
        if both:
            return static, own
        static = static._replace(position=static.position + away)
        return (static, own) if moving else (own, static)

    def look(known: tuple, _: tuple, reads: tuple) -> tuple:
        meeting, radius = known
        near = _near(kinds, *shapes(meeting, reads), radius)
        return (jnp.where(near, jnp.ones_like(radius), jnp.zeros_like(radius)),) * count, (), ()

    def step(known: Any, _: tuple, reads: tuple) -> tuple:
        known, pool = known if by_pool else (known, None)
        found = _found(function, *shapes(known, reads, pool), known.reach)
        if not both:
            return tuple(found), (), ()
        away = places(reads)[2]
        made: list[Any] = []
        for k in range(count):
            near, point, distance = found[3 * k : 3 * k + 3]
            made += [near, point, distance, point.position - away]
        return tuple(made), (), ()

    rows = 4 if both else 2
    slots = tuple(ROW.at(k, "pose") for k in range(rows))
    memory = (coupled_memory if both else point_memory)(1)
    flags = tuple(ACTS.at(rows + count + k, "D") for k in range(count))
    columns = rows + (3 if both else 2) * count  # points, what says that they act, where they are about the other tree
    writes: list[Slots] = []
    for k in range(count):
        writes += _point_slots(rows + k, rows + count + k, memory)
        if both:
            writes.append(Slots(rows + 2 * count + k, 0, jax.tree.structure(ZERO3)))
    turns = _pair_table(kinds, moving)
    constants = _pair_constants(kinds, moving, by_pool)
    culled = both or kinds not in CHEAP
    structure = jax.tree.structure(example)
    when = flags[0] if culled else None
    loop = Loop(step, columns, structure, reads=slots, writes=tuple(writes), when=when, pool=by_pool)
    part = Part(loop, turns, constants)
    if not culled:
        return [part]
    cull = Loop(look, columns, jax.tree.structure((MEETING, 0.0)), reads=slots, writes=flags)
    parts = [Part(cull, turns, _bounds(kinds, moving))]
    name = ("pairs", kinds)
    return [*parts, listing(part, name), listed(part, name)] if both else [*parts, part]


def _bounds(kinds: tuple[str, str], moving: int) -> Callable[..., Any]:
    """Constants that tell whether shapes are near: the pairs, and how far apart their centres may be."""
    plain = _pair_constants(kinds, moving, False)

    def constants(model: Model, plan: Plan, known: Known) -> tuple:
        meeting = plain(model, plan, known)
        assert plan.world.scene is not None
        shapes = plan.world.scene.shapes
        reach = meeting.reach
        for which, kind in enumerate(kinds):
            numbers = [plan.pairs[k][which] for k in _members(plan, kinds, moving)]
            size = Vec3(*np.asarray(shapes.size)[numbers].T)
            if kind == "mesh":
                reach = reach + np.array([float(shapes.hulls[i].radius) for i in numbers])
            elif kind != "plane":
                reach = reach + _bounding_radius(kind, size)
        return meeting, reach

    return constants


def _bounding_radius(kind: str, size: Vec3) -> Any:
    """Of a ball about a shape's centre that holds it."""
    if kind == "sphere":
        return size.x
    if kind == "capsule":
        return size.x + size.y
    if kind == "cylinder":
        return np.sqrt(size.x * size.x + size.y * size.y)
    return np.maximum(np.maximum(size.x, size.y), size.z) if kind == "ellipsoid" else np.sqrt(size.dot(size))


def _distance(column: int, memory: Memory) -> Slots:
    return memory.at(column, "ref")._replace(tree=NUMBER)


def _members(plan: Plan, kinds: tuple[str, str], moving: int) -> tuple[int, ...]:
    return next((t.pairs for t in plan.touches if t.kinds == kinds and t.moving == moving), ())


def _pair_table(kinds: tuple[str, str], moving: int) -> Callable[[Plan], np.ndarray]:
    def turns(plan: Plan) -> np.ndarray:
        pairs = _members(plan, kinds, moving)
        numbers = np.array([plan.points_of_pair[k] for k in pairs], np.int64)
        points, acts = plan.point(numbers), plan.acts(numbers)
        if moving != BOTH:
            rows = plan.row_of_pair(pairs)
            return table(plan.row(rows), plan.base(plan.tree_of_row[rows]), *points.T, *acts.T)
        sides = [plan.rows_of_pair(pairs, k) for k in (0, 1)]
        offset = np.array([coupled_memory(plan.pairs[k].condim).at(0, "other").offset for k in pairs])[:, None]
        both = [f(x) for f in (plan.row, lambda r: plan.base(plan.tree_of_row[r])) for x in sides]
        return table(*both, *points.T, *acts.T, *(points + offset).T)

    return turns


def _pair_constants(kinds: tuple[str, str], moving: int, by_pool: bool) -> Callable[..., Any]:
    def constants(model: Model, plan: Plan, known: Known) -> Any:
        pairs = _members(plan, kinds, moving)
        shapes = shape_places(model)
        assert plan.world.scene is not None
        surfaces = surfaces_of_pairs(plan.world.scene, known.dtype)
        both = np.array([(plan.pairs[k].first, plan.pairs[k].second) for k in pairs], np.int64)
        order = (0, 1) if moving == BOTH else (1 - moving, moving)
        static, own = (jax.tree.map(lambda x, k=k: x[both[:, k]], shapes) for k in order)
        meeting = Meeting(static, own, (surfaces.margin + surfaces.gap)[np.array(pairs)])
        return _with_pool(meeting, plan, both[:, list(order)], known.dtype) if by_pool else meeting

    return constants


def _with_pool(meeting: Meeting, plan: Plan, numbers: np.ndarray, dtype: Any) -> WithPool:
    """The same with a pool of the hulls of these shapes; those that are no meshes have the one of a box."""
    assert plan.world.scene is not None
    hulls = plan.world.scene.shapes.hulls
    meshes = sorted({int(i) for i in numbers.ravel() if hulls[i] is not None})
    pool, starts = pooled([UNIT_BOX, *(hulls[i] for i in meshes)], dtype)
    first = len(numbers) * jax.tree.structure(WITH_HULLS).num_leaves  # after the constants of all turns
    begins = dict(zip(meshes, starts[1:], strict=True))
    static, own = (
        shape._replace(hull=first + np.array([begins.get(int(i), 0) for i in column], np.int64))
        for shape, column in zip(meeting[:2], numbers.T, strict=True)
    )
    return WithPool(meeting._replace(static=static, moving=own), pool)


# -- softness ---------------------------------------------------------------------------------------------------------


class Surface(NamedTuple):
    """What the rows of a contact depend on."""

    pair: PairSurfaces
    weight: Any
    impratio: Any
    sign: Any


SURFACE = Surface(PairSurfaces((0.0,) * 5, (0.0,) * 2, (0.0,) * 2, (0.0,) * 5, 0.0, 0.0), 0.0, 0.0, 0.0)


def frame(point: Point) -> Transform:
    """From the world's axes, about the point of the tree, to the contact's frame."""
    return Transform(Rotation(*point.normal, *point.tangent, *point.normal.cross(point.tangent)), point.position)


def along(point: Point, sign: Any, m: Motion, dim: int) -> tuple:
    """A motion along the normal, the tangents, and about them."""
    seen = frame(point) @ m
    return tuple(sign * y for y in (*seen.linear, *seen.angular)[:dim])


def softening(dim: int, elliptic: bool, power: int | None, stored: bool = False) -> Strand:
    """Reference accelerations, stiffness, and w at the first guess, of all points of a number of dimensions.

    In the sweep that visits their rows, or afterwards, where these are `stored`.
    """
    memory = point_memory(dim)

    def step(known: Surface, _: tuple, reads: tuple, *row: Passing) -> tuple:
        point, distance, least_time, *moves = reads
        moves = moves if stored else [row[0].v, row[0].a]
        speed, a = (along(point, known.sign, m, dim) for m in moves)
        surface = known.pair._replace(solimp=with_power(known.pair.solimp, power))
        ref, D = soft_contact(surface, distance, speed, known.weight, known.impratio, least_time, elliptic)
        return (D, ref, tuple(y - r for y, r in zip(a, ref, strict=True))), (), (), *row

    reads = (memory.at(0, "point"), _distance(0, memory), fixed("least_time"))
    reads += (ROW.at(2, "v"), ROW.at(2, "a")) if stored else ()
    near = ACTS.at(1, "D")
    writes = (near, memory.at(0, "ref"), memory.at(0, "w_new"))
    loop = Loop(step, 3, jax.tree.structure(SURFACE), reads=reads, writes=writes, when=near)
    part = Part(loop, point_table(dim), lambda *given: surface_constants(dim, *given))
    return Strand(part, rows_of_points(dim))


def point_table(dim: int) -> Callable[[Plan], np.ndarray]:
    """Points, what says that they act, and their rows, of a number of dimensions."""

    def turns(plan: Plan) -> np.ndarray:
        numbers, _ = plan.points_of(dim)
        return table(plan.point(numbers), plan.acts(numbers), plan.row(rows_of_points(dim)(plan)))

    return turns


def rows_of_points(dim: int) -> Callable[[Plan], np.ndarray]:
    """The rows on which they are."""
    return lambda plan: plan.row_of_pair(plan.points_of(dim)[1])


def surface_constants(dim: int, model: Model, plan: Plan, known: Known, coupled: bool = False) -> Surface:
    """Of all points of a number of dimensions."""
    assert plan.world.scene is not None
    _, numbers = plan.points_of(dim, coupled)
    whole = surfaces_of_pairs(plan.world.scene, known.dtype)
    own = jax.tree.map(lambda x: x[numbers], whole)
    split = PairSurfaces(*(x if x.ndim == 1 else tuple(x[:, k] for k in range(x.shape[1])) for x in own))
    pairs = [plan.pairs[k] for k in numbers]
    bodies = np.array(plan.world.scene.layout.bodies, np.int64)[[(p.first, p.second) for p in pairs]]
    moves = np.array([(p.moving != 1, p.moving != 0) for p in pairs])
    weight = np.where(moves, inverse_weights(model).body[:, 0][np.maximum(bodies, 0)], 0.0).sum(1)
    sign = np.array([-1.0 if p.moving == 0 else 1.0 for p in pairs])
    return Surface(split, weight, plan.world.impratio, sign)


def reporting(array: int, coupled: bool) -> Strand:
    """Positions in the world, frames, depths and distances of points, after they were found.

    Of those with the static world, or of those between two moving bodies.
    """
    memory = (coupled_memory if coupled else point_memory)(1)

    def step(margin: Any, _: tuple, reads: tuple, *carried: Any) -> tuple:
        point, distance, base, near = reads
        position = point.position - base.position
        third = point.normal.cross(point.tangent)
        none = near == 0
        active = jnp.where((distance < margin) & ~none, 1.0, 0.0)
        seen = (jnp.where(none, 0.0, x) for x in (*position, *point.normal, *point.tangent, *third))
        return (), (), (*seen, jnp.where(none, -jnp.inf, -distance), active), *carried

    reads = (memory.at(1, "point"), _distance(1, memory), ROW.at(0, "pose"), ACTS.at(3, "D"))
    outputs = tuple(Lane(array, 2, k) for k in range(POINT_REPORT))
    loop = Loop(step, 4, NUMBER, reads=reads, outputs=outputs)

    def turns(plan: Plan) -> np.ndarray:
        numbers, pairs = chosen(plan)
        rows = plan.row_of_pair(pairs)
        return table(plan.base(plan.tree_of_row[rows]), plan.point(numbers), POINT_REPORT * numbers, plan.acts(numbers))

    def chosen(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
        numbers, pairs = plan.all_points()
        own = np.array([(plan.pairs[k].moving == BOTH) == coupled for k in pairs], bool)
        return numbers[own], pairs[own]

    def constants(model: Model, plan: Plan, known: Known) -> Any:
        assert plan.world.scene is not None
        return surfaces_of_pairs(plan.world.scene, known.dtype).margin[chosen(plan)[1]]

    return Strand(Part(loop, turns, constants), lambda plan: plan.row_of_pair(chosen(plan)[1]))

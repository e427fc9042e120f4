"""Contacts: where shapes touch, and how soft each point is. One loop for each kind of pair."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.collide import COLLIDERS, Geom
from kinetree.lanes import Lane, Loop, Memory, Slots
from kinetree.model import Model, Placement
from kinetree.model.orientation import quaternion_from_rotation
from kinetree.model.world import BOTH, PairSurfaces
from kinetree.spatial import Mat3, Motion, Quaternion, Rotation, Transform, Vec3

from ..contact_softness import soft_contact
from ..touching import surfaces_of_pairs
from ..weights import inverse_weights
from .features import with_power
from .memory import ACTS, NUMBER, PLACEMENT, ROW, ZERO3, Point, coupled_memory, fixed, point_memory
from .parts import Known, Part, table
from .plan import Plan

FAR = 1e10  # m: stands for the distance of a point that is no contact, so that no infinite number is multiplied


POINT_REPORT = 14  # numbers that are reported of a point


class Placed(NamedTuple):
    """A shape: where it is in its row's frame, or in the world, and its size."""

    at: Placement
    size: Vec3


class Meeting(NamedTuple):
    """Two shapes that may touch."""

    static: Placed
    moving: Placed
    reach: Any


PLACED = Placed(PLACEMENT, ZERO3)
MEETING = Meeting(PLACED, PLACED, 0.0)


def geom(shape: Placed, row: Placement | None = None) -> Geom:
    """A shape in the world's axes; without a row, one that does not move."""
    at = shape.at if row is None else shape.at @ row
    return Geom(at.position, Mat3(*at.orientation.rotation()).T, shape.size)


def turned(frame: Any) -> Quaternion:
    """A quaternion from the rotations of frames (NumPy arrays): from parent to child coordinates."""
    E = np.stack([np.asarray(c) for c in frame], -1).reshape(-1, 3, 3)
    return Quaternion.from_array(quaternion_from_rotation(E))


def shape_places(model: Model) -> Placed:
    """All shapes in the frames of their rows, or in the world."""
    assert model.world is not None
    assert model.world.scene is not None
    scene = model.world.scene
    body = np.array(scene.layout.bodies, np.int64)
    on_body = body >= 0
    if model.n_bodies:
        frames = jax.tree.map(lambda x: x[np.maximum(body, 0)], model.frames)
        turn, origin = turned(frames.E), frames.r
    else:
        turn, origin = Quaternion(*np.zeros((4, len(body)))), Vec3(*np.zeros((3, len(body))))
    carrier = Placement(
        Quaternion(np.where(on_body, turn.w, 1.0), *(np.where(on_body, c, 0.0) for c in turn[1:])),
        Vec3(*(np.where(on_body, c, 0.0) for c in origin)),
    )
    shapes = scene.shapes
    columns = [tuple(x[:, k] for k in range(x.shape[1])) for x in (shapes.orientation, shapes.position, shapes.size)]
    own = Quaternion(*columns[0])
    at = Placement(carrier.orientation * own, carrier.position + carrier.orientation.turn(Vec3(*columns[1])))
    return Placed(at, Vec3(*columns[2]))


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


def colliding(kinds: tuple[str, str], moving: int) -> list[Part]:
    """The loops over the pairs of some kinds; a second shape that moves, too, is asked only where it is near."""
    if moving == BOTH:
        return _colliding_both(kinds)
    collider = COLLIDERS[kinds]

    def step(known: Meeting, _: tuple, reads: tuple) -> tuple:
        row, base = reads
        static = geom(known.static)
        shapes = static._replace(position=static.position + base.position), geom(known.moving, row)
        first, second = shapes if moving else shapes[::-1]
        return tuple(_found(collider, first, second, known.reach)), (), ()

    count = collider.points
    writes = tuple(x for k in range(count) for x in _point_slots(2 + k, 2 + count + k, point_memory(1)))
    reads = (ROW.at(0, "pose"), ROW.at(1, "pose"))
    loop = Loop(step, 2 + 2 * count, jax.tree.structure(MEETING), reads=reads, writes=writes)
    return [Part(loop, _pair_table(kinds, moving), _pair_constants(kinds, moving))]


def _colliding_both(kinds: tuple[str, str]) -> list[Part]:
    """Shapes that both move; all is about the point of the first body's tree."""
    collider = COLLIDERS[kinds]
    count = collider.points

    def places(reads: tuple) -> tuple[Placement, Placement, Vec3]:
        first, second, base, other = reads
        away = base.position - other.position
        return first, second._replace(position=second.position + away), away

    def look(known: tuple, _: tuple, reads: tuple) -> tuple:
        (one, two), radius = known
        first, second, _ = places(reads)
        between = (one.at @ first).position - (two.at @ second).position
        near = between.dot(between) <= radius * radius
        flag = jnp.where(near, jnp.ones_like(radius), jnp.zeros_like(radius))
        return (flag, jnp.full_like(flag, FAR)) * count, (), ()

    def step(known: Meeting, _: tuple, reads: tuple) -> tuple:
        first, second, away = places(reads)
        found = _found(collider, geom(known.static, first), geom(known.moving, second), known.reach)
        made: list[Any] = []
        for k in range(count):
            near, point, distance = found[3 * k : 3 * k + 3]
            made += [near, point, distance, point.position - away]
        return tuple(made), (), ()

    slots = (ROW.at(0, "pose"), ROW.at(1, "pose"), ROW.at(2, "pose"), ROW.at(3, "pose"))
    flags = tuple(ACTS.at(4 + count + k, "D") for k in range(count))
    columns = 4 + 3 * count  # points, what says that they act, and their position about the other tree's point
    memory, other = coupled_memory(1), jax.tree.structure(ZERO3)
    writes = tuple(
        x
        for k in range(count)
        for x in (*_point_slots(4 + k, 4 + count + k, memory), Slots(4 + 2 * count + k, 0, other, cold=True))
    )
    first = tuple(x for k in range(count) for x in (flags[k], _distance(4 + k, memory)))
    cull = Loop(look, columns, jax.tree.structure(((PLACED, PLACED), 0.0)), reads=slots, writes=first)
    loop = Loop(step, columns, jax.tree.structure(MEETING), reads=slots, writes=writes, when=flags[0])

    def turns(plan: Plan) -> np.ndarray:
        pairs = _members(plan, kinds, BOTH)
        rows = [plan.rows_of_pair(pairs, k) for k in (0, 1)]
        numbers = np.array([plan.points_of_pair[k] for k in pairs], np.int64)
        offset = np.array([coupled_memory(plan.pairs[k].condim).at(0, "other").offset for k in pairs])[:, None]
        both = [f(x) for f in (plan.row, lambda r: plan.base(plan.tree_of_row[r])) for x in rows]
        points = plan.point(numbers)
        return table(*both, *points.T, *plan.acts(numbers).T, *(points + offset).T)

    constants = _pair_constants(kinds, BOTH)

    def bounds(model: Model, plan: Plan, known: Known) -> tuple:
        meeting = constants(model, plan, known)
        radii = [_bounding_radius(kind, shape.size) for kind, shape in zip(kinds, meeting[:2], strict=True)]
        return (meeting.static, meeting.moving), radii[0] + radii[1] + meeting.reach

    return [Part(cull, turns, bounds), Part(loop, turns, constants)]


def _bounding_radius(kind: str, size: Vec3) -> Any:
    """Of a ball about a shape's centre that holds it."""
    if kind == "sphere":
        return size.x
    if kind == "capsule":
        return size.x + size.y
    if kind == "cylinder":
        return np.sqrt(size.x * size.x + size.y * size.y)
    if kind == "ellipsoid":
        return np.maximum(np.maximum(size.x, size.y), size.z)
    return np.sqrt(size.dot(size)) if kind == "box" else np.full_like(size.x, FAR)


def _distance(column: int, memory: Memory) -> Slots:
    return memory.at(column, "ref")._replace(tree=NUMBER)


def _members(plan: Plan, kinds: tuple[str, str], moving: int) -> tuple[int, ...]:
    return next((t.pairs for t in plan.touches if t.kinds == kinds and t.moving == moving), ())


def _pair_table(kinds: tuple[str, str], moving: int) -> Callable[[Plan], np.ndarray]:
    def turns(plan: Plan) -> np.ndarray:
        pairs = _members(plan, kinds, moving)
        rows = plan.row_of_pair(pairs)
        numbers = np.array([plan.points_of_pair[k] for k in pairs], np.int64)
        base = plan.base(plan.tree_of_row[rows])
        return table(plan.row(rows), base, *plan.point(numbers).T, *plan.acts(numbers).T)

    return turns


def _pair_constants(kinds: tuple[str, str], moving: int) -> Callable[..., Meeting]:
    def constants(model: Model, plan: Plan, known: Known) -> Meeting:
        pairs = _members(plan, kinds, moving)
        shapes = shape_places(model)
        assert plan.world.scene is not None
        surfaces = surfaces_of_pairs(plan.world.scene, known.dtype)
        both = np.array([(plan.pairs[k].first, plan.pairs[k].second) for k in pairs], np.int64)
        order = (0, 1) if moving == BOTH else (1 - moving, moving)
        static, own = (jax.tree.map(lambda x, k=k: x[both[:, k]], shapes) for k in order)
        return Meeting(static, own, (surfaces.margin + surfaces.gap)[np.array(pairs)])

    return constants


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


def softening(dim: int, elliptic: bool, power: int | None) -> Part:
    """Reference accelerations and stiffness of all points of a number of dimensions."""
    memory = point_memory(dim)

    def step(known: Surface, _: tuple, reads: tuple) -> tuple:
        point, distance, v, least_time = reads
        speed = along(point, known.sign, v, dim)
        surface = known.pair._replace(solimp=with_power(known.pair.solimp, power))
        ref, D = soft_contact(surface, distance, speed, known.weight, known.impratio, least_time, elliptic)
        return (D, ref), (), ()

    reads = (memory.at(1, "point"), _distance(1, memory), ROW.at(0, "v"), fixed("least_time"))
    near = ACTS.at(2, "D")
    loop = Loop(step, 3, jax.tree.structure(SURFACE), reads=reads, writes=(near, memory.at(1, "ref")), when=near)
    return Part(loop, point_table(dim), lambda *given: surface_constants(dim, *given))


def point_table(dim: int) -> Callable[[Plan], np.ndarray]:
    """Rows, points, and what says that they act, of a number of dimensions."""

    def turns(plan: Plan) -> np.ndarray:
        numbers, pairs = plan.points_of(dim)
        return table(plan.row(plan.row_of_pair(pairs)), plan.point(numbers), plan.acts(numbers))

    return turns


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


def reporting(array: int, coupled: bool) -> Part:
    """Positions in the world, frames, depths and distances of points, after they were found.

    Of those with the static world, or of those between two moving bodies.
    """
    memory = (coupled_memory if coupled else point_memory)(1)

    def step(margin: Any, _: tuple, reads: tuple) -> tuple:
        point, distance, base = reads
        position = point.position - base.position
        third = point.normal.cross(point.tangent)
        active = jnp.where(distance < margin, 1.0, 0.0)
        none = distance >= FAR
        seen = (jnp.where(none, 0.0, x) for x in (*position, *point.normal, *point.tangent, *third))
        return (), (), (*seen, jnp.where(none, -jnp.inf, -distance), active)

    reads = (memory.at(1, "point"), _distance(1, memory), ROW.at(0, "pose"))
    outputs = tuple(Lane(array, 2, k) for k in range(POINT_REPORT))
    loop = Loop(step, 3, NUMBER, reads=reads, outputs=outputs)

    def turns(plan: Plan) -> np.ndarray:
        numbers, pairs = chosen(plan)
        rows = plan.row_of_pair(pairs)
        return table(plan.base(plan.tree_of_row[rows]), plan.point(numbers), POINT_REPORT * numbers)

    def chosen(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
        numbers, pairs = plan.all_points()
        own = np.array([(plan.pairs[k].moving == BOTH) == coupled for k in pairs], bool)
        return numbers[own], pairs[own]

    def constants(model: Model, plan: Plan, known: Known) -> Any:
        assert plan.world.scene is not None
        return surfaces_of_pairs(plan.world.scene, known.dtype).margin[chosen(plan)[1]]

    return Part(loop, turns, constants)

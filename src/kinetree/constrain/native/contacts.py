"""Contacts: where shapes touch, and how soft each point is. One loop for each kind of pair."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import library, there
from kinetree.collide import Geom, collider
from kinetree.collide.pool import pooled
from kinetree.collide.solids import UNIT_BOX
from kinetree.lanes import Lane, Memory, Slots
from kinetree.model import Model, Placement
from kinetree.model.orientation import orientation_of
from kinetree.model.world import BOTH, PairSurfaces
from kinetree.spatial import Mat3, Motion, Quaternion, Rotation, Transform, Vec3
from kinetree.tree import pick

from ..contact_softness import soft_contact
from ..touching import surfaces_of_pairs
from ..weights import inverse_weights
from .features import with_power
from .memory import ACTS, NUMBER, PLACEMENT, ROW, ZERO3, Point, coupled_memory, fixed, point_memory
from .near import is_asked
from .parts import Known, Part, WithPool, part, table
from .plan import Plan
from .tables import split

FAR = 1e10  # m; the distance of points without contact that were searched, so that no infinite number is multiplied


POINT_REPORT = 14  # numbers of a point in a report


class PlacedShape(NamedTuple):
    """A shape: where it is in its row's frame, or in the world, its size, and where its hull begins in a pool."""

    at: Placement
    size: Vec3
    hull: Any = ()


class Meeting(NamedTuple):
    """Two shapes that may touch."""

    static: PlacedShape
    moving: PlacedShape
    reach: Any


PLACED = PlacedShape(PLACEMENT, ZERO3)
MEETING = Meeting(PLACED, PLACED, 0.0)
HULLED = PlacedShape(PLACEMENT, ZERO3, 0.0)
WITH_HULLS = Meeting(HULLED, HULLED, 0.0)

# Pairs whose colliders are formulas on numbers. All others read hulls, or have loops of their own, so they need a pool.
BY_FORMULA = {
    *(("plane", kind) for kind in ("sphere", "capsule", "ellipsoid", "cylinder", "box")),
    *(("sphere", kind) for kind in ("sphere", "capsule", "cylinder", "box")),
    ("capsule", "capsule"),
    ("capsule", "box"),
    ("box", "box"),
}


def geom(shape: PlacedShape, row: Placement | None = None, pool: Any = None) -> Geom:
    """A shape in the world's axes; without a row, one that does not move."""
    at = shape.at if row is None else shape.at @ row
    which = None if pool is None else shape.hull.astype(jnp.int32)
    return Geom(at.position, Mat3(*at.orientation.rotation()).T, shape.size, pool, which)


def turned(frame: Any) -> Quaternion:
    """A quaternion from the rotations of frames: from parent to child coordinates."""
    return orientation_of(tuple(frame))


def shape_places(model: Model) -> PlacedShape:
    """All shapes in the frames of their rows, or in the world."""
    assert model.world is not None
    scene = there(model.world.scene)
    body = np.array(scene.layout.bodies, np.int64)
    on_body = body >= 0
    if model.n_bodies:
        frames = pick(model.frames, np.maximum(body, 0))
        turn, origin = turned(frames.E), frames.r
    else:
        turn, origin = Quaternion(*np.zeros((4, len(body)))), Vec3(*np.zeros((3, len(body))))
    xp = library(turn, origin)
    carrier = Placement(
        Quaternion(xp.where(on_body, turn.w, 1.0), *(xp.where(on_body, c, 0.0) for c in turn[1:])),
        Vec3(*(xp.where(on_body, c, 0.0) for c in origin)),
    )
    shapes = scene.shapes
    columns = [split(x) for x in (shapes.orientation, shapes.position, shapes.size)]
    own = Quaternion(*columns[0])
    at = Placement(carrier.orientation * own, carrier.position + carrier.orientation.turn(Vec3(*columns[1])))
    return PlacedShape(at, Vec3(*columns[2]))


def _found(collider: Any, first: Geom, second: Geom, reach: Any) -> list[Any]:
    """For each point: True if it is near, its position, and its distance."""
    found: list[Any] = []
    for c in collider.function(first, second, reach):
        normal, tangent, _ = c.frame.rows
        near = jnp.where(c.active, jnp.ones_like(c.distance), jnp.zeros_like(c.distance))
        found += [near, Point(c.position, normal, tangent), jnp.where(c.active, c.distance, FAR)]
    return found


def _point_slots(column: int, acts: int, memory: Memory) -> list[Slots]:
    """Slots of a point; the columns name its first slot and its stiffness."""
    return [ACTS.at(acts, "D"), memory.at(column, "point"), distance_slot(column, memory)]


class Between(NamedTuple):
    """How a turn finds the two shapes of a pair: the first moves, the second moves, or both."""

    moving: int

    @property
    def both(self) -> bool:
        """True if both shapes move."""
        return self.moving == BOTH

    def places(self, reads: tuple) -> tuple[Placement | None, Placement, Vec3]:
        """Rows of both shapes about the point of the first one's tree, and where that is from the other's."""
        if not self.both:
            row, base = reads
            return None, row, base.position
        first, second, base, other = reads
        away = base.position - other.position
        return first, second._replace(position=second.position + away), away

    def shapes(self, known: Any, reads: tuple, pool: Any = None) -> tuple[Geom, Geom]:
        """The first and the second one."""
        one, two, away = self.places(reads)
        static, own = geom(known.static, one, pool), geom(known.moving, two, pool)
        if self.both:
            return static, own
        static = static._replace(position=static.position + away)
        return (static, own) if self.moving else (own, static)


def place_slots(rows: int) -> tuple[Slots, ...]:
    """The slots of shapes that turns read."""
    return tuple(ROW.at(k, "pose") for k in range(rows))


def collide_pairs(kinds: tuple[str, str], moving: int, single: bool = False, crowded: bool = False) -> Part:
    """The loop over the pairs of some kinds; of those that were asked whether they are near, where it pays."""
    function = collider(kinds, single)
    count, both, by_pool = function.points, moving == BOTH, kinds not in BY_FORMULA
    example, between = WITH_HULLS if by_pool else MEETING, Between(moving)

    def step(known, *reads):
        known, pool = known if by_pool else (known, None)
        found = _found(function, *between.shapes(known, reads, pool), known.reach)
        if not both:
            return tuple(found)
        away = between.places(reads)[2]
        made: list[Any] = []
        for k in range(count):
            near, point, distance = found[3 * k : 3 * k + 3]
            made += [near, point, distance, point.position - away]
        return tuple(made)

    rows = 4 if both else 2
    memory = (coupled_memory if both else point_memory)(1)
    writes: list[Slots] = []
    for k in range(count):  # columns after those of rows: points, their stiffness, their places in the other tree
        writes += _point_slots(rows + k, rows + count + k, memory)
        if both:
            writes.append(Slots(rows + 2 * count + k, 0, jax.tree.structure(ZERO3), cold=True))
    when = ACTS.at(rows + count, "D") if is_asked(kinds, both or crowded) else None
    known = example, pair_constants(kinds, moving, by_pool)
    return part(pair_table(kinds, moving), step, place_slots(rows), writes, known, when=when, pool=by_pool)


def distance_slot(column: int, memory: Memory) -> Slots:
    """The slot of a point's distance, before its softness is known."""
    return memory.at(column, "ref")._replace(tree=NUMBER)


def pair_table(kinds: tuple[str, str], moving: int) -> Callable[[Plan], np.ndarray]:
    """Rows, points, their stiffness, and their places in the other tree, for the pairs of some kinds."""

    def turns(plan: Plan) -> np.ndarray:
        pairs = plan.members(kinds, moving)
        numbers = np.array([plan.points_of_pair[k] for k in pairs], np.int64)
        points, acts = plan.point(numbers), plan.acts(numbers)
        if moving != BOTH:
            rows = plan.rows_of_pair(pairs)
            return table(plan.row(rows), plan.base(plan.tree_of_row[rows]), *points.T, *acts.T)
        sides = [plan.rows_of_pair(pairs, k) for k in (0, 1)]
        dims = plan.pair_facts.condim[np.array(pairs)]
        offset = np.zeros_like(dims)
        for dim in np.unique(dims):
            offset[dims == dim] = coupled_memory(int(dim)).at(0, "other").offset
        both = [f(x) for f in (plan.row, lambda r: plan.base(plan.tree_of_row[r])) for x in sides]
        return table(*both, *points.T, *acts.T, *(points + offset[:, None]).T)

    return turns


def pair_constants(kinds: tuple[str, str], moving: int, by_pool: bool, turns: int = 1) -> Callable[..., Any]:
    """The two shapes of each pair of some kinds; `turns`: how many turns a pair takes, each with its constants."""

    def constants(model: Model, plan: Plan, known: Known) -> Any:
        pairs = plan.members(kinds, moving)
        shapes = shape_places(model)
        surfaces = surfaces_of_pairs(there(plan.world.scene), known.dtype)
        both = np.stack(plan.pair_facts[:2], 1)[np.array(pairs)]
        order = (0, 1) if moving == BOTH else (1 - moving, moving)
        sides = [jax.tree.map(lambda x, k=k: x[both[:, k]], shapes) for k in (0, 1)]
        if kinds[0] == "hfield":
            sides[0] = sides[0]._replace(size=Vec3(*np.array([plan.pairs[k].cell for k in pairs], float).T))
        static, own = (sides[k] for k in order)
        meeting = Meeting(static, own, (surfaces.margin + surfaces.gap)[np.array(pairs)])
        return _with_pool(meeting, plan, both[:, list(order)], known.dtype, turns) if by_pool else meeting

    return constants


def _with_pool(meeting: Meeting, plan: Plan, numbers: np.ndarray, dtype: Any, turns: int) -> WithPool:
    """The same with a pool of the hulls of these shapes; those that are no meshes have the one of a box."""
    hulls = there(plan.world.scene).shapes.hulls
    meshes = sorted({int(i) for i in numbers.ravel() if int(i) in hulls})
    pool, starts = pooled([UNIT_BOX, *(hulls[i] for i in meshes)], dtype)
    first = turns * len(numbers) * jax.tree.structure(WITH_HULLS).num_leaves  # after the constants of all turns
    begins = dict(zip(meshes, starts[1:], strict=True))
    static, own = (
        shape._replace(hull=first + np.array([begins.get(int(i), 0) for i in column], np.int64))
        for shape, column in zip(meeting[:2], numbers.T, strict=True)
    )
    return WithPool(meeting._replace(static=static, moving=own), pool)


# -- softness ---------------------------------------------------------------------------------------------------------


class Surface(NamedTuple):
    """The numbers that the rows of a contact depend on."""

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


def contact_list(dim: int, coupled: bool) -> str:
    """The name of the list of active points with this number of dimensions."""
    return f"{'coupled' if coupled else 'contact'} {dim}"


def soften_contacts(dim: int, elliptic: bool, power: int | None) -> Part:
    """Reference accelerations and stiffness of all points of a number of dimensions."""
    memory = point_memory(dim)

    def step(known, point, distance, v, a, least_time):
        speed = along(point, known.sign, v, dim)
        surface = known.pair._replace(solimp=with_power(known.pair.solimp, power))
        ref, D = soft_contact(surface, distance, speed, known.weight, known.impratio, least_time, elliptic)
        w = tuple(y - r for y, r in zip(along(point, known.sign, a, dim), ref, strict=True))
        return (D, ref, w)

    reads = (memory.at(1, "point"), distance_slot(1, memory), ROW.at(0, "v"), ROW.at(0, "a"), fixed("least_time"))
    near = ACTS.at(2, "D")
    writes, lists = (near, memory.at(1, "ref"), memory.at(1, "w")), (contact_list(dim, False), near)
    known = SURFACE, lambda *given: surface_constants(dim, *given)
    return part(point_table(dim), step, reads, writes, known, when=near, lists=lists)


def point_table(dim: int) -> Callable[[Plan], np.ndarray]:
    """Rows, points, and their stiffness, for a number of dimensions."""

    def turns(plan: Plan) -> np.ndarray:
        numbers, pairs = plan.points_of(dim)
        return table(plan.row(plan.rows_of_pair(pairs)), plan.point(numbers), plan.acts(numbers))

    return turns


def surface_constants(dim: int, model: Model, plan: Plan, known: Known, coupled: bool = False) -> Surface:
    """Surfaces of all points of a number of dimensions."""
    assert plan.world.scene is not None
    _, numbers = plan.points_of(dim, coupled)
    whole = surfaces_of_pairs(plan.world.scene, known.dtype)
    own = pick(whole, numbers)
    parts = PairSurfaces(*(x if x.ndim == 1 else split(x) for x in own))
    first, second, moving, _ = (x[numbers] for x in plan.pair_facts)
    bodies = np.array(plan.world.scene.layout.bodies, np.int64)[np.stack((first, second), 1)]
    moves = np.stack((moving != 1, moving != 0), 1)
    of_body = inverse_weights(model).body[:, 0]
    weight = library(of_body).where(moves, of_body[np.maximum(bodies, 0)], 0.0).sum(1)
    sign = np.where(moving == 0, -1.0, 1.0)
    return Surface(parts, weight, plan.world.impratio, sign)


def report_points(array: int, coupled: bool) -> Part:
    """Positions in the world, frames, depths and distances of points, after they were found.

    Of those with the static world, or of those between two moving bodies.
    """
    memory = (coupled_memory if coupled else point_memory)(1)

    def step(margin, near, point, distance, base):
        position = point.position - base.position
        third = point.normal.cross(point.tangent)
        none = near == 0
        active = jnp.where(~none & (distance < margin), 1.0, 0.0)
        seen = (jnp.where(none, 0.0, x) for x in (*position, *point.normal, *point.tangent, *third))
        return (*seen, jnp.where(none, -jnp.inf, -distance), active)

    reads = (ACTS.at(3, "D"), memory.at(1, "point"), distance_slot(1, memory), ROW.at(0, "pose"))
    outputs = tuple(Lane(array, 2, k) for k in range(POINT_REPORT))

    def turns(plan: Plan) -> np.ndarray:
        numbers, pairs = chosen(plan)
        rows = plan.rows_of_pair(pairs)
        return table(plan.base(plan.tree_of_row[rows]), plan.point(numbers), POINT_REPORT * numbers, plan.acts(numbers))

    def chosen(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
        numbers, pairs = plan.all_points()
        own = (plan.pair_facts.moving[pairs] == BOTH) == coupled
        return numbers[own], pairs[own]

    def constants(model: Model, plan: Plan, known: Known) -> Any:
        return surfaces_of_pairs(there(plan.world.scene), known.dtype).margin[chosen(plan)[1]]

    return part(turns, step, reads, outputs, (0.0, constants))

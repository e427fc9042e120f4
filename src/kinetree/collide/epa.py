"""How deep two convex shapes overlap: the expanding polytope algorithm, one lane at a time.

The differences of the points of both shapes form a convex body that holds the origin. A polytope inside that body is
grown where its surface is nearest to the origin, until it can not grow there: this is the direction in which the shapes
are separated by the shortest way. Offsets of faces have signs, so the first polytope need not hold the origin.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from kinetree.lanes.program.alone import counted, get, once, put, room, while_loop
from kinetree.spatial import Scalar, Vec3

from .descent import Lowest, descended
from .shapes import unit, where

MAX_GROWTH = 60  # corners added; MuJoCo's default is 35 iterations
VERTICES = 4 + MAX_GROWTH
FACES = 2 * VERTICES - 4  # faces of a polytope of triangles with VERTICES corners
RIM = 2 * VERTICES  # edges between the faces that a new corner sees and the others; some are listed and removed again
TOLERANCE = 1e-10  # metres; the depth is exact to this if growth ends by itself
CYLINDER_TOLERANCE = 1e-13  # the same for cylinders, whose normals are known to the root of it
ROUGH = 1e-5  # metres; from here on descent finds the depth of smooth shapes
BULGE = 1e-7  # metres between a face and the body beyond it; above this the body counts as round
SEEN = 1e-14  # metres; a corner sees a face if it is higher above it
# Metres. A box is equally wide along a direction and against it. XLA may compute a comparison twice, with different
# rounding, so ties need a tolerance.
TIE = 1e-12
FLAT = 1e-36  # squared area of a face that has none


class Support(NamedTuple):
    """For a direction, the farthest point of the first shape along it, of the second against it, and their corners."""

    any_of: Callable[[Vec3], tuple[Vec3, Vec3, Any]]  # any of the farthest points, and what `chosen` needs
    chosen: Callable[[Vec3, Any], tuple[Vec3, Vec3, tuple[Any, Any]]]  # those that MuJoCo takes

    def __call__(self, direction: Vec3) -> tuple[Vec3, Vec3, tuple[Any, Any]]:
        """Those that MuJoCo takes."""
        return self.chosen(direction, self.any_of(direction)[2])


class Penetration(NamedTuple):
    """The shortest way out: its direction (from the first shape to the second), and the deepest points."""

    normal: Vec3
    depth: Scalar
    first: Vec3
    second: Vec3
    corners: tuple[tuple[Any, Any], ...]  # 3: of the face of the difference there, numbers of corners of both shapes


class _Corner(NamedTuple):
    point: Vec3  # a difference
    first: Vec3  # the point of the first shape
    numbers: tuple[Any, Any]  # of the corners of both shapes


class _Face(NamedTuple):
    corners: tuple[Any, ...]  # 3, in order around the outward normal
    normal: Vec3
    offset: Scalar  # of its plane from the origin; infinite for faces without area


def _at(rows: Any, k: Any) -> Any:
    """Row k of a tree of arrays."""
    return jax.tree.map(lambda x: get(x, k), rows)


def _put(rows: Any, k: Any, row: Any) -> Any:
    return jax.tree.map(lambda x, y: put(x, k, y), rows, row)


class _Polytope(NamedTuple):
    corners: _Corner  # of arrays
    faces: _Face  # of arrays
    n_corners: Any
    n_faces: Any


def _face(corners: tuple[Any, ...], a: Vec3, b: Vec3, c: Vec3) -> _Face:
    n = (b - a).cross(c - a)
    nn = n.dot(n)
    flat = nn <= FLAT
    normal = n * (1 / jnp.sqrt(jnp.where(flat, 1.0, nn)))
    return _Face(corners, normal, jnp.where(flat, jnp.inf, normal.dot(a)))


def _first_polytope(support: Support, along: Vec3) -> _Polytope:
    """A tetrahedron of points that are far apart.

    Corners 0 and 1 are the farthest points along a direction and against it. Corner 2 is the farthest from their line,
    along or against a direction across it. Corner 3 is the farthest from the plane of these three. Each turn of the
    loop looks along one direction, so the program has the code of the shapes once.
    """
    zero, none = jnp.zeros_like(along.x), along.x.astype(jnp.int32) * 0
    empty = _Corner(Vec3(zero, zero, zero), Vec3(zero, zero, zero), (none, none))

    def turn(k: Any, state: tuple) -> tuple:
        (p0, p1, p2, p3), direction, above = state
        back = (k == 1) | (k == 3) | (k == 5)
        line = p0.point - p1.point
        x, y, z = (jnp.abs(c) for c in line)
        least_x, least_y = (x <= y) & (x <= z), y <= z
        one = jnp.ones_like(x)
        axis = Vec3(
            jnp.where(least_x, one, zero),
            jnp.where(~least_x & least_y, one, zero),
            jnp.where(least_x | least_y, zero, one),
        )
        across = where(k == 2, axis, p2.point - p1.point)
        direction = where(k == 0, along, where(back, -direction, unit(line.cross(across))[0]))
        a, b, numbers = support(direction)
        found = _Corner(a - b, a, numbers)
        height = (found.point - p1.point).dot(direction)
        farther2 = height > (p1.point - p2.point).dot(direction) + TIE  # against the other way, in the third turn
        farther3 = height > (p1.point - p3.point).dot(direction) + TIE
        p0 = where(k == 0, found, p0)
        p1 = where(k == 1, found, p1)
        p2 = where((k == 2) | ((k == 3) & farther2), found, p2)
        p3 = where((k == 4) | ((k == 5) & farther3), found, p3)
        above = where(k == 4, k == 4, above & ~((k == 5) & farther3))
        return (p0, p1, p2, p3), direction, above

    start = ((empty,) * 4, along, none == none)
    (p0, p1, p2, p3), _, above = counted(none + 6, turn, start)
    corners = jax.tree.map(lambda x: room(VERTICES, x), p0)
    for k, p in enumerate((p0, p1, p2, p3)):
        corners = _put(corners, jnp.int32(k), p)
    # Corner 3 is on the side of n = (0 - 1) x (2 - 1) or on the other: the order around the faces follows.
    points = [p.point for p in (p0, p1, p2, p3)]
    faces = None
    for k, (i, j, m) in enumerate(((0, 1, 2), (0, 3, 1), (1, 3, 2), (2, 3, 0))):
        first, last = (
            where(above, (none + i, points[i]), (none + m, points[m])),
            where(above, (none + m, points[m]), (none + i, points[i])),
        )
        face = _face((first[0], none + j, last[0]), first[1], points[j], last[1])
        faces = jax.tree.map(lambda x: room(FACES, x), face) if faces is None else faces
        faces = _put(faces, jnp.int32(k), face)
    assert faces is not None
    return _Polytope(corners, faces, none + 4, none + 4)


class _Rim(NamedTuple):
    starts: Any  # arrays of numbers of corners
    ends: Any
    count: Any
    seen: Any  # an array of numbers of faces


def _toggled(rim: _Rim, start: Any, end: Any) -> _Rim:
    """Add an edge to the rim; or remove it, if the rim has it in the opposite direction."""
    place = while_loop(
        lambda k: (k < rim.count) & ((get(rim.starts, k) != end) | (get(rim.ends, k) != start)),
        lambda k: k + 1,
        jnp.zeros_like(rim.count),
    )
    found = place < rim.count
    last = jnp.maximum(rim.count - 1, 0)
    place = jnp.minimum(place, RIM - 1)
    a, b = (jnp.where(found, get(x, last), own) for x, own in ((rim.starts, start), (rim.ends, end)))
    starts, ends = put(rim.starts, place, a), put(rim.ends, place, b)
    return rim._replace(starts=starts, ends=ends, count=rim.count + jnp.where(found, -1, 1))


def _grown(p: _Polytope, rim: _Rim, corner: _Corner) -> tuple[_Polytope, _Rim, Any]:
    """The hull of a polytope and one more point; True if its surface is closed."""

    def note(k: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        sees = _at(p.faces.normal, k).dot(corner.point) - get(p.faces.offset, k) > SEEN
        listed, seen = state  # A face that is not seen is overwritten.
        return put(listed, seen, k), seen + jnp.where(sees, 1, 0)

    def look(state: tuple[Any, Any, _Face, _Rim]) -> tuple:
        left, count, faces, rim = state
        k = get(listed, left - 1)
        own, last = _at(faces, k), _at(faces, count - 1)
        a, b, c = own.corners
        for start, end in ((a, b), (b, c), (c, a)):
            rim = _toggled(rim, start, end)
        return left - 1, count - 1, _put(faces, k, last), rim

    # Lanes wait for no face that others see: each goes through a list of its own.
    none = jnp.zeros_like(p.n_faces)
    listed, seen = counted(p.n_faces, note, (rim.seen, none))
    begin = (seen, p.n_faces, p.faces, rim._replace(seen=listed, count=none))
    _, count, faces, rim = while_loop(lambda s: s[0] > 0, look, begin)
    sound = (rim.count == seen + 2) & (count + rim.count <= FACES)
    starts, ends, points = rim.starts, rim.ends, p.corners.point

    def add(k: Any, faces: _Face) -> _Face:
        a, b = get(starts, k), get(ends, k)
        return _put(faces, count + k, _face((a, b, p.n_corners), _at(points, a), _at(points, b), corner.point))

    added = jnp.where(sound, rim.count, 0)
    faces = counted(added, add, faces)
    corners = _put(p.corners, p.n_corners, corner)
    return _Polytope(corners, faces, p.n_corners + 1, count + added), rim, sound


def _deepest(p: _Polytope, face: _Face, a: Vec3, b: Vec3) -> Penetration:
    """The depth along the normal of a face; a and b are the points of the shapes farthest along it.

    A flat face is touched at the foot of the origin. Where the body bulges out over the face, a and b touch.
    """
    normal, offset = face.normal, face.offset
    depth = normal.dot(a - b)
    three = [_at(p.corners, k) for k in face.corners]
    x, y, z = (c.point - normal * offset for c in three)
    n = (y - x).cross(z - x)
    nn = n.dot(n)
    share = 1 / jnp.where(nn > 0, nn, 1.0)
    on_face = -normal * (offset / 2)
    for (one, two), c in zip(((y, z), (z, x), (x, y)), three, strict=True):
        on_face = on_face + c.first * (one.cross(two).dot(n) * share)
    middle = where(depth - offset <= BULGE, on_face, (a + b) * 0.5)
    ends = middle + normal * (depth / 2), middle - normal * (depth / 2)
    return Penetration(normal, depth, *ends, tuple(c.numbers for c in three))


class _Growth(NamedTuple):
    polytope: _Polytope
    rim: _Rim
    best: Penetration
    goes_on: Any
    fine: Any  # True if growth goes on to the end; else it ends where the depth is known roughly


def penetration(support: Support, along: Vec3, tolerance: Callable[[Vec3], Any], smooth: bool = False) -> Penetration:
    """The normal of least depth among all that were tried. `along` is any direction.

    Growth also ends where rounding would tear the surface. `smooth`: the shapes may be smooth where they are deepest.
    There growth needs many corners, but descent only a few steps. So growth stops at a rough depth, and goes on only
    if descent does not arrive.
    """

    def grow(s: _Growth) -> _Growth:
        p, rim, best = s[:3]
        offsets = p.faces.offset

        def least(k: Any, found: tuple[Any, Scalar]) -> tuple[Any, Scalar]:
            offset = get(offsets, k)
            return where(offset < found[1], (k, offset), found)

        none = jnp.zeros_like(p.n_faces), jnp.full_like(along.x, jnp.inf)
        number, offset = counted(p.n_faces, least, none)
        face = _at(p.faces, number)
        a, b, known = support.any_of(face.normal)
        found = _deepest(p, face, a, b)
        best = where((found.depth < best.depth) & (offset < jnp.inf), found, best)
        gap = found.depth - offset
        goes_on = (gap > tolerance(found.normal)) & (offset < jnp.inf) & (p.n_corners < VERTICES - 1)
        if smooth:
            goes_on = goes_on & (s.fine | (gap > ROUGH))

        def more(s: tuple[_Polytope, _Rim, Any]) -> tuple:
            a, b, numbers = support.chosen(face.normal, known)
            return _grown(s[0], s[1], _Corner(a - b, a, numbers))

        p, rim, sound = once(goes_on, more, (p, rim, goes_on))
        return _Growth(p, rim, best, goes_on & sound, s.fine)

    def grown(s: _Growth) -> _Growth:
        return while_loop(lambda s: s.goes_on, grow, s)

    def descend(state: tuple[_Growth, Any]) -> tuple[_Growth, Any]:
        s = grown(state[0])
        *rough, corners = s.best
        best, arrived = descended(lambda d: support.any_of(d)[:2], Lowest(*rough), float("inf"))
        yes = arrived == arrived
        return s._replace(best=Penetration(*best, corners), goes_on=yes, fine=yes), arrived | s.fine

    p = _first_polytope(support, along)
    zero = jnp.zeros_like(p.n_faces)
    nothing = Penetration(along, jnp.full_like(along.x, jnp.inf), along, along, ((zero, zero),) * 3)
    rim = _Rim(room(RIM, zero), room(RIM, zero), zero, room(FACES, zero))
    start = _Growth(p, rim, nothing, zero == zero, zero != zero)
    if not smooth:
        return grown(start).best
    return while_loop(lambda s: ~s[1], descend, (start, zero != zero))[0].best

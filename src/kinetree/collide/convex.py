"""Any two convex shapes: distance by GJK if their cores are apart, depth by EPA if they overlap.

MuJoCo does the same and stops within 1e-6 (ccd_tolerance); we go on to about 1e-10. For hulls, boxes, capsules and
spheres both are exact. Where a flat part of a cylinder or a box touches, nothing is searched (flats.py). Where a face
of one lies against the other there are several points (clip.py). Gradients see the points as fixed to their shapes and
the normal as constant: the gradient of the distance is exact, that of the position leaves out how the points slide.
Most pairs are far apart: only those whose bounding spheres meet are searched, and only those that overlap, or touch, go
on. A lane by itself skips what it does not need; in XLA the lanes that need something are put side by side
(compact.py).
"""

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from kinetree.lanes.program.alone import once
from kinetree.spatial import Scalar, Vec3

from .clip import POINTS, Points, several_points
from .compact import compacted
from .descent import Lowest
from .epa import CYLINDER_TOLERANCE, TOLERANCE, Penetration, Support, penetration
from .flats import Certain, Seeker, touching_flats
from .gjk import Nearest, nearest_points
from .hull import NOBODY
from .pool import Corners, CornerSearch
from .shapes import Contact, Geom, contact, frame_of, unit, where
from .solids import UNIT_BOX, chosen_corner, farthest_corner, feature, search_of
from .support import bounding_radius, core_box, core_radius, support

FLAT_TOLERANCE = 1e-6  # metres; enough where faces decide where shapes touch. MuJoCo's for all shapes
FLAT_PART = 1e-5  # the same, of the radius of a cylinder
NEARLY_FLAT = 0.9975  # cosine of a direction and the normal of such a face (from FACE_ALIGNED on an end counts as flat)
FACES = ("cylinder", "box", "mesh")  # kinds with flat faces or straight lines, which may touch in several points
LEAST_OVERLAP = 1e-15  # m: less is no contact in MuJoCo, so one shape may stand exactly on another
Kinds = tuple[str, str]


class _Way(NamedTuple):
    """A unit vector from one core to the other, and how far they are apart along it, at least."""

    along: Vec3
    gap: Scalar


def _width(geom: Geom, half: Vec3, axis: Vec3) -> Scalar:
    """Half the width of a box along a unit vector, from half its sides along the axes of a shape."""
    x, y, z = (jnp.abs(c) * h for c, h in zip(geom.rotation.t_mul(axis), half, strict=True))
    return x + y + z


def _farther(one: _Way, other: _Way) -> _Way:
    """The one along which shapes are farther apart."""
    return where(other.gap > one.gap, other, one)


def _between(kinds: Kinds, a: Geom, b: Geom) -> _Way:
    """Along the axes of boxes that hold two cores, or the line between the middles: where the boxes are farthest apart.

    Or where they overlap least.
    """
    if "prism" in kinds:
        return _Way(unit(b.position - a.position)[0], jnp.full_like(a.position.x, -jnp.inf))
    (middle1, half1), (middle2, half2) = (core_box(k, g) for k, g in zip(kinds, (a, b), strict=True))
    away = b.position - a.position + b.rotation @ middle2 - a.rotation @ middle1

    def way(axis: Vec3) -> _Way:
        along = away.dot(axis)
        gap = jnp.abs(along) - _width(a, half1, axis) - _width(b, half2, axis)
        return _Way(axis * jnp.where(along < 0, -1.0, 1.0).astype(gap.dtype), gap)

    return reduce(_farther, map(way, (unit(away)[0], *a.rotation.T.rows, *b.rotation.T.rows)))


def _sides(kinds: Kinds, a: Geom, b: Geom) -> tuple[Seeker, Seeker]:
    """Both shapes, with what finds the farthest point of each."""

    def side(kind: str, geom: Geom) -> Seeker:
        search = search_of(kind, geom)

        def farthest(d: Vec3) -> Vec3:
            number = farthest_corner(kind, search, geom.rotation.t_mul(d)).number
            return support(kind, geom, d, number if search is None else search.corner(number))

        return Seeker(kind, geom, farthest)

    return side(kinds[0], a), side(kinds[1], b)


def _way(kinds: Kinds, a: Geom, b: Geom, far: Scalar) -> _Way:
    """A direction along which two cores may be `far` apart.

    For a hull the normal of a face is tried: of the one where the line between the middles leaves it. Most shapes that
    are apart are so along it.
    """
    best, sides = _between(kinds, a, b), _sides(kinds, a, b)
    if "prism" in kinds:
        return best
    looks = []
    for sign, own, other in ((1.0, *sides), (-1.0, *sides[::-1])):
        if own.kind == "mesh":
            middle, half = core_box(other.kind, other.geom)
            place = other.geom.position + other.geom.rotation @ middle
            hull = Corners(own.geom.hull, own.geom.which)
            outward, height = hull.face_towards(own.geom.rotation.t_mul(place - own.geom.position) - hull.box[0])
            normal = own.geom.rotation @ outward
            height = height + normal.dot(own.geom.position)
            best = _farther(best, _Way(normal * sign, normal.dot(place) - height - _width(other.geom, half, normal)))
            looks += [(sign, normal, height, other)] if other.kind == "mesh" else []
    for sign, normal, height, other in looks:

        def look(
            best: _Way, sign: float = sign, n: Vec3 = normal, height: Scalar = height, other: Seeker = other
        ) -> _Way:
            return _farther(best, _Way(n * sign, n.dot(other.farthest(-n)) - height))

        best = once(~(best.gap > far), look, best)
    return best


def _ends(kinds: Kinds, a: Geom, b: Geom) -> Support:
    """The farthest points of two cores along a direction and against it, and their corners."""
    searches = tuple(search_of(k, g) for k, g in zip(kinds, (a, b), strict=True))

    def sides(d: Vec3) -> tuple[tuple[str, Geom, CornerSearch | None, Vec3], ...]:
        return (kinds[0], a, searches[0], d), (kinds[1], b, searches[1], -d)

    def placed(d: Vec3, numbers: tuple[Any, ...]) -> tuple[Vec3, Vec3]:
        first, second = (
            support(k, g, e, number if s is None else s.corner(number))
            for (k, g, s, e), number in zip(sides(d), numbers, strict=True)
        )
        return first, second

    def any_of(d: Vec3) -> tuple[Vec3, Vec3, Any]:
        known = tuple(farthest_corner(k, s, g.rotation.t_mul(e)) for k, g, s, e in sides(d))
        return *placed(d, tuple(x.number for x in known)), known

    def chosen(d: Vec3, known: Any) -> tuple[Vec3, Vec3, tuple[Any, Any]]:
        first, second = (
            chosen_corner(s, g.rotation.t_mul(e), x) for (_, g, s, e), x in zip(sides(d), known, strict=True)
        )
        return *placed(d, (first, second)), (first, second)

    return Support(any_of, chosen)


def _near(kinds: Kinds, a: Geom, b: Geom, reach: Scalar) -> Any:
    """True if balls around two shapes meet."""
    away = b.position - a.position
    radius = bounding_radius(kinds[0], a) + bounding_radius(kinds[1], b) + reach
    return away.dot(away) <= radius * radius


def _far(kinds: Kinds, a: Geom, b: Geom, reach: Scalar) -> Scalar:
    """The distance of two cores whose shapes are within reach."""
    return reach + core_radius(kinds[0], a) + core_radius(kinds[1], b)


def _apart(kinds: Kinds, a: Geom, b: Geom, reach: Scalar, along: Vec3) -> Nearest:
    """The nearest points of two cores."""
    ends = _ends(kinds, a, b).any_of
    round_ = set(kinds) <= {"sphere", "ellipsoid"}
    return nearest_points(lambda d: ends(d)[:2], along, _far(kinds, a, b, reach), "ellipsoid" in kinds, round_)


def _deep(kinds: Kinds, a: Geom, b: Geom, flat: Vec3 | None = None) -> Penetration:
    """The shortest way out of two cores that overlap; roughly, if it is nearly along the normal of faces that touch."""
    ends = _ends(kinds, a, b)
    fine = CYLINDER_TOLERANCE if "cylinder" in kinds else TOLERANCE

    def tolerance(normal: Vec3) -> Any:
        if flat is None:
            return fine
        rough = jnp.minimum(FLAT_TOLERANCE, FLAT_PART * a.size.x)
        return jnp.where(normal.dot(flat) > NEARLY_FLAT, jnp.maximum(rough, fine), fine)

    return penetration(ends, _between(kinds, a, b).along, tolerance, smooth="ellipsoid" in kinds)


class _Touch(NamedTuple):
    """The points where two shapes are nearest, or deepest."""

    touches: Any
    normal: Vec3
    first: Vec3
    second: Vec3


def _touch(kinds: Kinds, a: Geom, b: Geom, reach: Scalar, near: Any, apart: Nearest, deep: Penetration) -> _Touch:
    gap = apart.second - apart.first
    length = jnp.sqrt(gap.dot(gap))
    between = gap * (1 / jnp.where(length > 0, length, 1.0))
    normal, first, second = where(
        apart.overlap, (deep.normal, deep.first, deep.second), (between, apart.first, apart.second)
    )
    first = first + normal * core_radius(kinds[0], a)
    second = second - normal * core_radius(kinds[1], b)
    least = 0.0 if "sphere" in kinds or "capsule" in kinds else LEAST_OVERLAP
    return _Touch(near & ((second - first).dot(normal) + least < reach), normal, first, second)


def _flat(kinds: Kinds, a: Geom, b: Geom, normal: Vec3, corners: Any, overlap: Any, reach: Scalar) -> Points:
    """Points of faces that lie against each other. Where the corners of a shape are NOBODY, its farthest one counts."""
    there = _ends(kinds, a, b)(normal)[2]
    three = tuple(
        tuple(jnp.where(overlap & (c != NOBODY), c, t) for c, t in zip(pair, there, strict=True)) for pair in corners
    )
    f1 = feature(kinds[0], a, tuple(c[0] for c in three), normal, overlap)
    f2 = feature(kinds[1], b, tuple(c[1] for c in three), -normal, overlap)
    return several_points(f1, f2, jnp.maximum(reach, 0.0))


def _single(found: _Touch, count: int) -> Points:
    return Points(found.normal, (found.first,) * count, (found.second,) * count, found.touches.astype(jnp.int32))


def _alone(kinds: Kinds, a: Geom, b: Geom, reach: Scalar, count: int) -> tuple[Any, Points]:
    """One lane: True if two shapes touch, and their points."""
    zero = jnp.zeros_like(reach)
    nowhere, number = Vec3(zero, zero, zero), zero.astype(jnp.int32)
    far = _far(kinds, a, b, reach)
    near = _near(kinds, a, b, reach)
    way = once(near, lambda _: _way(kinds, a, b, far), _Way(nowhere, zero))
    near = near & ~(way.gap > far)
    nothing = Penetration(nowhere, zero, nowhere, nowhere, ((number, number),) * 3)
    searched, known = near, Certain(Lowest(nowhere, zero, nowhere, nowhere), nothing.corners, zero > 0, nowhere)
    if {"cylinder", "box"} & set(kinds):
        known = once(near, lambda _: touching_flats(*_sides(kinds, a, b), far, count == 1), known)
        searched = near & ~known.certain
    apart = once(searched, lambda _: _apart(kinds, a, b, reach, way.along), Nearest(nowhere, nowhere, known.certain))
    overlap = searched & apart.overlap
    deep = once(overlap, lambda _: _deep(kinds, a, b, known.flat), nothing)
    deep = where(known.certain, Penetration(*known.found, known.corners), deep)
    found = _touch(kinds, a, b, reach, near, apart, deep)
    one = _single(found, count)
    if count == 1:
        return found.touches, one

    def flat(_: Points) -> Points:
        overlaps = overlap | (known.certain & (known.found.depth > 0))
        some = _flat(kinds, a, b, found.normal, deep.corners, overlaps, reach)
        cut = some._replace(first=some.first[:count], second=some.second[:count])
        return where(some.count > 0, cut, one)

    return found.touches, once(found.touches, flat, one)


def _side_by_side(kinds: Kinds, hulls: Any, lanes: tuple[Geom, Geom], reach: Any, count: int) -> tuple[Any, Points]:
    """Contact points of all lanes, side by side, in XLA."""

    def whole(a: Geom, b: Geom) -> tuple[Geom, Geom]:
        return a._replace(hull=hulls[0]), b._replace(hull=hulls[1])

    def of(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda a, b, *rest: function(kinds, *whole(a, b), *rest)

    near, far = jax.vmap(of(_near))(*lanes, reach), jax.vmap(of(_far))(*lanes, reach)
    way = compacted(of(_way), near, *lanes, far)
    near = near & ~(way.gap > far)
    apart = compacted(of(_apart), near, *lanes, reach, way.along)
    deep = compacted(of(_deep), near & apart.overlap, *lanes)
    found = jax.vmap(of(_touch))(*lanes, reach, near, apart, deep)
    one = _single(found, count)
    if count == 1:
        return found.touches, one
    some = compacted(of(_flat), found.touches, *lanes, found.normal, deep.corners, apart.overlap, reach)
    cut = some._replace(first=some.first[:count], second=some.second[:count])
    return found.touches, where(some.count > 0, cut, one)


def points_of(kind1: str, kind2: str, single: bool = False) -> int:
    """The largest number of points."""
    may = {kind1, kind2} & set(FACES) and {kind1, kind2} <= {"capsule", *FACES}
    return 1 if single or not may else 2 if "capsule" in (kind1, kind2) else POINTS


def convex(kind1: str, kind2: str, single: bool = False) -> Callable[[Geom, Geom, Scalar], tuple[Contact, ...]]:
    """The collider of two kinds; `single` keeps one point, as MuJoCo does if its flag multiccd is off."""
    kinds, count = (kind1, kind2), points_of(kind1, kind2, single)

    def collide(first: Geom, second: Geom, margin: Scalar) -> tuple[Contact, ...]:
        first, second = (
            (g._replace(hull=UNIT_BOX) if k == "box" and g.hull is None else g).with_hulls()
            for k, g in zip(kinds, (first, second), strict=True)
        )
        hulls = first.hull, second.hull
        loose = first._replace(hull=None), second._replace(hull=None)
        shape = jnp.broadcast_shapes(*(jnp.shape(x) for x in jax.tree.leaves((loose, margin))))
        margin = jnp.asarray(margin, jnp.result_type(first.position.x))
        if shape == ():
            fixed = jax.lax.stop_gradient((first, second, margin))
            touches, found = jax.lax.stop_gradient(_alone(kinds, *fixed, count))
        else:
            lanes, reach = jax.lax.stop_gradient(
                jax.tree.map(lambda x: jnp.broadcast_to(x, shape).reshape(-1), (loose, margin))
            )
            made = _side_by_side(kinds, jax.lax.stop_gradient(hulls), lanes, reach, count)
            touches, found = jax.tree.map(lambda x: jax.lax.stop_gradient(x).reshape(shape), made)

        def carried(geom: Geom, point: Vec3) -> Vec3:
            """A point that moves with its shape."""
            fixed = jax.lax.stop_gradient(geom.rotation).t_mul(point - jax.lax.stop_gradient(geom.position))
            return geom.rotation @ fixed + geom.position

        contacts = []
        frame = frame_of(found.normal)
        for k in range(count):
            x1, x2 = carried(loose[0], found.first[k]), carried(loose[1], found.second[k])
            active = touches & (k < found.count)
            contacts.append(contact(active, (x1 + x2) * 0.5, frame, (x2 - x1).dot(found.normal)))
        return tuple(contacts)

    return collide

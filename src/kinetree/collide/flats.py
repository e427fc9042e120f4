"""Where a shape touches a flat or straight part of a cylinder or a box: by formula. One lane at a time.

The normal of a face is known; a normal across the side of a cylinder has one unknown. Along a normal from a point of
one shape to a point of the other, the shapes overlap by some depth. This is the least depth if a ball inside one shape
touches the surface of that shape at its point, and the radius of the ball is at least the depth: the ball alone
overlaps by as much along any other direction. (The same holds if both shapes have such balls, and the sum of their
radii is at least the depth.) Other cases, such as an edge that touches an edge, are left to a search.
"""

import math
from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import jax.numpy as jnp

from kinetree.lanes.program.alone import once
from kinetree.spatial import Scalar, Vec3

from .descent import Lowest, descended
from .hull import NOBODY
from .shapes import Geom, clip, unit, where

FACED = ("cylinder", "box")
INNER = 0.75  # share of a face's width that counts as its inner part
INSCRIBED = 0.98  # share of the radius that the polygon of 16 corners for the end of a cylinder covers on all sides
# Cosines of the angle of two faces, and of the cone of normals: together no more than MuJoCo's tolerance for faces.
FLAT, NARROW = 0.99995, 0.9969
FEW = 12  # steps of descent with one unknown; four find it
TIE = 1e-10  # metres; points whose heights differ by less count as equally far


class Seeker(NamedTuple):
    """One of two shapes."""

    kind: str
    geom: Geom
    farthest: Callable[[Vec3], Vec3]  # its farthest point along a direction


class Certain(NamedTuple):
    """What is known of two shapes: how they touch, if that is certain."""

    found: Lowest
    corners: tuple[tuple[Any, Any], ...]  # 3: for both shapes the corners of a box's face; else NOBODY
    certain: Any
    flat: Vec3  # normal of a face that lies against a face, if any: there faces decide where the shapes touch


def _offered(known: Certain, new: Lowest, corners: tuple, room: Scalar, reach: Scalar) -> Certain:
    """The same after one more normal: it is certain if its depth is at most `room`, or shapes are too far apart."""
    sure = ~known.certain & (((room >= 0) & (new.depth <= room)) | (new.depth < -reach))
    found, corners = where(sure, (new, corners), (known.found, known.corners))
    return Certain(found, corners, known.certain | sure, known.flat)


def _seen_from(which: int, normal: Vec3, depth: Scalar, own: Vec3, other: Vec3) -> Lowest:
    """What was found for a shape and the other, as from the first of both to the second."""
    return Lowest(-normal, depth, other, own) if which else Lowest(normal, depth, own, other)


class _FlatEnd(NamedTuple):
    """A face of a cylinder or a box: across an axis, on one side."""

    side: Seeker
    axis: Any  # its number, or a truth for each of three axes
    up: Any  # 1 or -1

    @staticmethod
    def towards(side: Seeker, d: Vec3) -> "_FlatEnd":
        """The face that looks most along a direction of the world."""
        x, y, z = local = side.geom.rotation.t_mul(d)
        by_x, by_y = (jnp.abs(x) >= jnp.abs(y)) & (jnp.abs(x) >= jnp.abs(z)), jnp.abs(y) >= jnp.abs(z)
        axis = (by_x, ~by_x & by_y, ~by_x & ~by_y) if side.kind == "box" else 2
        return _FlatEnd(side, axis, jnp.where(_part(local, axis) < 0, -1.0, 1.0).astype(x.dtype))

    @property
    def half(self) -> Scalar:
        """How far it is from the middle."""
        size = self.side.geom.size
        return size.y if self.side.kind == "cylinder" else _part(size, self.axis)

    @property
    def normal(self) -> Vec3:
        """Outwards."""
        axes = self.side.geom.rotation.T.rows
        return Vec3(*(_part(Vec3(*c), self.axis) for c in zip(*axes, strict=True))) * self.up

    def seen(self, point: Vec3) -> tuple[Vec3, Scalar]:
        """A point of the world in the frame of the shape, and how far it is below the face."""
        local = self.side.geom.rotation.t_mul(point - self.side.geom.position)
        return local, self.half - _part(local, self.axis) * self.up

    def room(self, local: Vec3) -> Scalar:
        """How far a point is from the rim of the face, towards its middle."""
        size = self.side.geom.size
        if self.side.kind == "cylinder":
            return size.x - jnp.sqrt(local.x * local.x + local.y * local.y)
        far = Vec3(*(s - jnp.abs(c) for s, c in zip(size, local, strict=True)))
        return reduce(
            jnp.minimum, Vec3(*(jnp.where(own, jnp.inf, c) for own, c in zip(_flags(self.axis), far, strict=True)))
        )

    def clamped(self, local: Vec3, share: float) -> Vec3:
        """The point in a share of the face, about its middle, that is over a point, or near one."""
        size = self.side.geom.size * share
        if self.side.kind == "cylinder":
            off = jnp.sqrt(local.x * local.x + local.y * local.y)
            part = jnp.where(off > size.x, size.x / jnp.where(off > size.x, off, 1.0), 1.0)
            return Vec3(local.x * part, local.y * part, self.half * self.up)
        flags = _flags(self.axis)
        return Vec3(
            *(jnp.where(f, self.half * self.up, clip(c, s)) for f, c, s in zip(flags, local, size, strict=True))
        )


def _corners(which: int, side: Seeker, face: _FlatEnd | None = None) -> tuple[tuple[Any, Any], ...]:
    """Three corners of a face of a box, for the shape that is the box; NOBODY else."""
    nobody = jnp.full_like(side.geom.size.x, NOBODY).astype(jnp.int32)
    own = (nobody,) * 3
    if side.kind == "box" and face is not None:
        bits = [jnp.where(f, 1 << k, 0) for k, f in enumerate(_flags(face.axis))]
        first = jnp.where(face.up > 0, sum(bits), 0).astype(jnp.int32)
        beside = [sum(jnp.where(f, 1 << (k + j) % 3, 0) for k, f in enumerate(_flags(face.axis))) for j in (1, 2)]
        own = (first, *(first + x for x in beside))
    return tuple((nobody, k) if which else (k, nobody) for k in own)


def _flags(axis: Any) -> tuple[Any, ...]:
    return axis if isinstance(axis, tuple) else tuple(k == axis for k in range(3))


def _part(v: Vec3, axis: Any) -> Scalar:
    """One component."""
    return v[axis] if isinstance(axis, int) else jnp.where(axis[0], v.x, jnp.where(axis[1], v.y, v.z))


def _faces(which: int, side: Seeker, other: Seeker, reach: Scalar, known: Certain, unique: bool) -> Certain:
    """A point of the other shape within a face of one, or faces of both against each other."""
    away = side.geom.rotation.t_mul(other.geom.position - side.geom.position)
    for k in (2,) if side.kind == "cylinder" else (0, 1, 2):
        face = _FlatEnd(side, k, jnp.where(away[k] < 0, -1.0, 1.0).astype(away.x.dtype))
        normal = face.normal
        point = other.farthest(-normal)
        local, depth = face.seen(point)
        room = jnp.minimum(face.room(local), face.half)
        if unique:
            room = jnp.where(_lies_along(other, normal), -1.0, room)
        new = _seen_from(which, normal, depth, point + normal * depth, point)
        known = _offered(known, new, _corners(which, side, face), room, reach)
    return known


def _against(first: Seeker, second: Seeker, reach: Scalar, known: Certain) -> Certain:
    """The end of a cylinder against a face of another shape, though neither has its deepest point within the other.

    Faces decide where the shapes touch then. The least depth is nearly along their normals: a depth in the middle of
    the part that both have is no more than the least one, that along a normal is no less, and balls that touch from
    within leave no other normals for depths between them than those of a cone.
    """
    geom = first.geom
    face = _FlatEnd.towards(first, second.geom.position - geom.position)
    normal = face.normal
    there = _FlatEnd.towards(second, -normal)
    cosine = -there.normal.dot(normal)
    flat = cosine >= FLAT
    onto = 1 / jnp.where(flat, cosine, 1.0)
    one, two = second.farthest(-normal), first.farthest(-there.normal)
    most, other = face.seen(one)[1], there.seen(two)[1]
    # Of both normals, the one with less depth.
    new = Lowest(normal, most, one + normal * most, one)
    new = where(other < most, Lowest(-there.normal, other, two, two + there.normal * other), new)

    def certain(inner: Vec3) -> tuple[Any, Any]:
        at = geom.rotation @ inner + geom.position
        gap = there.seen(at)[1] * onto
        rooms = face.room(inner), there.room(there.seen(at - normal * gap)[0])
        rooms = tuple(x - (1 - INSCRIBED) * f.side.geom.size.x for x, f in zip(rooms, (face, there), strict=True))
        radius = jnp.minimum(rooms[0], face.half) + jnp.minimum(rooms[1], there.half)
        cone = (new.depth < radius) & (radius - new.depth >= NARROW * (radius - gap))
        within = flat & (rooms[0] > 0) & (rooms[1] > 0)
        return within, within & (gap > 0) & cone

    middle1 = face.clamped(face.seen(second.geom.position)[0], 1.0)
    middle2 = there.clamped(there.seen(geom.position)[0], 1.0)
    both = (middle1 + face.seen(second.geom.rotation @ middle2 + second.geom.position)[0]) * 0.5
    deepest = face.clamped(face.seen(new.second)[0], INNER)
    within, sure = certain(both)
    room = jnp.where(sure | certain(deepest)[1], new.depth, -1.0)
    found = _offered(known, new, _corners(1, second, there), room, reach)
    return found._replace(flat=normal * jnp.where(within, 1.0, 0.0).astype(cosine.dtype))


def _beside(which: int, side: Seeker, other: Seeker, reach: Scalar, known: Certain) -> Certain:
    """A point of the other shape at the side of a cylinder."""
    geom = side.geom
    axis, radius = geom.axis, geom.size.x
    away = other.geom.position - geom.position
    outward, _ = unit(away - axis * axis.dot(away))

    def ends(d: Vec3) -> tuple[Vec3, Vec3]:
        return geom.position + d * radius, other.farthest(-d)

    start = Lowest(outward, jnp.full_like(radius, jnp.inf), away, away)
    best, arrived = descended(ends, start, reach, axis, FEW)
    normal, depth = best.normal, best.depth
    point = ends(normal)[1]
    up = axis.dot(point - geom.position)
    rest = geom.size.y - jnp.abs(up)
    # A second point of the other shape, towards the other end.
    along = axis * jnp.where(up < 0, -1.0, 1.0).astype(up.dtype)
    far = other.farthest((normal + along) * -math.sqrt(0.5)) - geom.position
    height = along.dot(far)
    off = far - along * height
    room = _room(geom.size.y, depth, rest, radius - jnp.sqrt(off.dot(off)), geom.size.y - height)
    room = jnp.where(arrived & ~_lies_along(other, normal), jnp.minimum(radius, room), -1.0)
    new = _seen_from(which, normal, depth, point + normal * depth, point)
    return _offered(known, new, _corners(which, side), room, reach)


def _lies_along(other: Seeker, normal: Vec3) -> Any:
    """True if several points of a shape are the farthest along a normal: which of them touches is a choice."""
    local, size = other.geom.rotation.t_mul(normal), other.geom.size
    line = local.z, size.y
    flat = {
        "capsule": (line,),
        "cylinder": (line, (jnp.sqrt(local.x * local.x + local.y * local.y), size.x)),
        "box": tuple(zip(local, size, strict=True)),
    }
    found = normal.x != normal.x
    for part, half in flat.get(other.kind, ()):
        found = found | (jnp.abs(part) * half <= TIE)
    return found


def _room(half: Scalar, depth: Scalar, rest: Scalar, depth2: Scalar, rest2: Scalar) -> Scalar:
    """How deep a point may be for its depth to be that of the shapes, where it is beside a rim.

    A point of the other shape is `depth` deep under the normal and `rest` below a rim, a second one `depth2` and
    `rest2`. Along a normal that is turned towards the rim by an angle t, shapes overlap by depth cos t + rest sin t at
    least, and by as much for the second point. One of the two must nowhere be less than the depth. The first is not up
    to the angle whose half has the tangent rest / depth, and the second if it is not at this angle, nor at the end.
    """
    part = jnp.clip(rest / jnp.where(depth > 0, depth, 1.0), 0.0, 1.0)
    least = depth2 * (1 - part * part) + rest2 * 2 * part
    sure = (least >= depth * (1 + part * part)) & (rest2 >= depth) & (rest >= 0) & (depth <= half)
    return jnp.where(sure, jnp.maximum(rest, depth), rest)


def touching_flats(first: Seeker, second: Seeker, reach: Scalar, unique: bool) -> Certain:
    """How two shapes touch, if one does with a flat or straight part; or that they are farther apart than `reach`.

    `unique`: there is to be one point, and no choice of it.
    """
    zero = jnp.zeros_like(reach)
    nowhere = Vec3(zero, zero, zero)
    known = Certain(Lowest(nowhere, zero, nowhere, nowhere), _corners(0, first), zero > 0, nowhere)
    both = (0, first, second), (1, second, first)
    for which, side, other in both:
        if side.kind in FACED:
            known = _faces(which, side, other, reach, known, unique)
    for which, side, other in both:
        if side.kind == "cylinder":
            known = once(~known.certain, lambda k, w=which, s=side, o=other: _beside(w, s, o, reach, k), known)
    if not unique and first.kind == "cylinder" and second.kind in FACED:
        known = _against(first, second, reach, known)
    return known

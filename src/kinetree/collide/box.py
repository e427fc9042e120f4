"""A sphere or a capsule against a box.

Sources: mjraw_SphereBox and mjraw_CapsuleBox of MuJoCo.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from kinetree.spatial import Scalar, Vec3

from .shapes import MIN_VALUE, Contact, Geom, clip, contact, fold, frame_of, ratio, unit, where

AXES = (Vec3(1.0, 0.0, 0.0), Vec3(0.0, 1.0, 0.0), Vec3(0.0, 0.0, 1.0))


def ball_box(centre: Vec3, radius: Scalar, box: Geom, margin: Scalar) -> Contact:
    """A ball whose centre is given in the box's frame."""
    size = box.size
    clamped = Vec3(*(jnp.where(s > 0, clip(c, s), c) for c, s in zip(centre, size, strict=True)))
    towards, outside = unit(clamped - centre)
    inside = outside <= MIN_VALUE

    # A centre inside is pushed out of the nearest face.
    depth = (size.x + size.y + size.z) * 2
    zero = jnp.zeros_like(depth)
    nearest = Vec3(zero, zero, zero)
    for c, s, axis in zip(centre, size, AXES, strict=True):
        for sign in (-1, 1):
            gap = jnp.abs(sign * s - c)
            nearest = where(gap < depth, Vec3(*(zero - sign * a for a in axis)), nearest)
            depth = jnp.minimum(depth, gap)

    point = where(inside, centre + nearest * ((radius - depth) / 2), (clamped + centre + towards * radius) * 0.5)
    normal = box.rotation @ where(inside, nearest, towards)
    distance = jnp.where(inside, -depth, outside) - radius
    return contact(outside - radius <= margin, box.rotation @ point + box.position, frame_of(normal), distance)


def sphere_box(sphere: Geom, box: Geom, margin: Scalar) -> tuple[Contact, ...]:
    """One point."""
    return (ball_box(box.rotation.t_mul(sphere.position - box.position), sphere.size.x, box, margin),)


class _Nearest(NamedTuple):
    """The place where a segment is nearest to a box. Lists over axes are `Vec3`s of truths."""

    squared: Scalar  # distance
    along: Scalar  # place on the segment, from -1 to 1
    found: Scalar
    on_edge: Scalar  # of the box, not over a face
    in_middle: Scalar  # of that edge, not at a corner
    edge: Vec3  # which axis the edge has
    corner: Vec3  # on which sides of the box the corner is
    on_box: Scalar  # place on the edge, from -1 to 1
    face: Vec3  # which axis the face has


def _over_faces(centre: Vec3, half: Vec3, size: Vec3, best: _Nearest) -> _Nearest:
    """Ends of the segment that are inside the box or straight over one of its faces."""
    for end in (-1, 1):
        point = centre + half * end
        beyond = Vec3(*(jnp.abs(p) > s for p, s in zip(point, size, strict=True)))
        gap = Vec3(*(jnp.maximum(jnp.abs(p) - s, 0.0) for p, s in zip(point, size, strict=True)))
        squared = gap.dot(gap)
        several = (beyond.x & beyond.y) | (beyond.x & beyond.z) | (beyond.y & beyond.z)
        better = ~several & (squared < best.squared)
        along = jnp.full_like(squared, end)
        best = where(better, best._replace(squared=squared, along=along, found=better, face=beyond), best)
    return best


class _Edge(NamedTuple):
    """An edge of the box: its axis, and on which sides of the box it is. Tables have a row for each edge."""

    axis: Vec3  # 1 for the edge's own axis, 0 for the others
    side: Vec3  # -1 or 1 for the others, 0 for its own
    own: Vec3  # True if this is the edge's axis
    upper: Vec3  # True if the side is 1


def _edges() -> _Edge:
    """All twelve, in MuJoCo's order: by axis, then by corner numbers, of which x is the lowest bit."""
    rows = []
    for j in range(3):
        for number in range(8):
            if not number >> j & 1:
                sides = [0 if i == j else 2 * (number >> i & 1) - 1 for i in range(3)]
                rows.append(([int(i == j) for i in range(3)], sides))
    axes, sides = (np.array(x, float).T for x in zip(*rows, strict=True))
    return _Edge(Vec3(*axes), Vec3(*sides), Vec3(*(axes > 0)), Vec3(*(sides > 0)))


EDGES = _edges()


def _at_edge(centre: Vec3, half: Vec3, length: Scalar, size: Vec3, edge: _Edge, best: _Nearest) -> _Nearest:
    """The segment against one edge of the box."""
    start = Vec3(*(s * side for s, side in zip(size, edge.side, strict=True)))
    own = size.dot(edge.axis)
    offset = start - centre
    aa, ab, bb = own * own, -own * half.dot(edge.axis), length * length
    u, v = -own * offset.dot(edge.axis), half.dot(offset)
    det = aa * bb - ab * ab
    valid = jnp.abs(det) >= MIN_VALUE
    inverse = 1 / jnp.where(valid, det, 1.0)
    per_aa, per_bb = (1 / jnp.where(c > 0, c, 1.0) for c in (aa, bb))
    x1, x2 = (bb * u - ab * v) * inverse, (aa * v - ab * u) * inverse
    upper, lower = x1 > 1, x1 < -1  # once found at an end of the edge, it counts as a corner
    x2 = jnp.where(upper, (v - ab) * per_bb, jnp.where(lower, (v + ab) * per_bb, x2))
    x1 = clip(x1, 1.0)
    again = jnp.where(x2 > 1, (u - ab) * per_aa, (u + ab) * per_aa)
    clipped = jnp.abs(x2) > 1
    upper = jnp.where(clipped & (jnp.abs(again) > 1), again > 1, upper)
    lower = jnp.where(clipped & (jnp.abs(again) > 1), again < -1, lower)
    x1, x2 = jnp.where(clipped, clip(again, 1.0), x1), clip(x2, 1.0)
    gap = offset - half * x2 + edge.axis * (own * x1)
    squared = gap.dot(gap)
    better = valid & (squared < best.squared - MIN_VALUE)
    true = jnp.ones_like(better)
    corner = Vec3(*(jnp.where(o, upper, up) for o, up in zip(edge.own, edge.upper, strict=True)))
    this = _Nearest(squared, x2, true, true, ~(upper | lower), edge.own, corner, x1, best.face)
    return where(better, this, best)


def _second_from_corner(best: _Nearest, differ: Vec3, axis: Vec3, reach: Vec3) -> tuple[Scalar, Scalar]:
    """A second place if the box touches in a corner: along an edge or a face, if the segment leads there."""
    count = sum(jnp.where(d, 1, 0).astype(jnp.int32) for d in differ)
    forward = count == 1
    odd = Vec3(*(jnp.where(forward, d, ~d) for d in differ))  # the axis whose direction differs from the others'
    towards = jnp.where(forward, 1.0, -1.0).astype(jnp.result_type(best.along))
    ahead, behind = 1 - towards * best.along, 1 + towards * best.along
    own = sum(jnp.where(o, a, 0.0) for o, a in zip(odd, axis, strict=True))
    own_reach = sum(jnp.where(o, r, 0.0) for o, r in zip(odd, reach, strict=True))
    others = [jnp.where(o, 1e30, r) for o, r in zip(odd, reach, strict=True)]
    on_edge = jnp.minimum(ahead, own_reach) * towards
    on_face = jnp.minimum(behind, jnp.minimum(others[0], jnp.minimum(others[1], others[2]))) * -towards
    return (count == 1) | (count == 2), jnp.where(own * own > 0.5, on_edge, on_face)


def _second_from_edge(
    best: _Nearest, differ: Vec3, up: Vec3, axis: Vec3, half: Vec3, reach: Vec3, size: Vec3
) -> tuple[Scalar, Scalar]:
    """A second place if the middle of an edge touches: over the face that the segment is closer to."""
    found, second = jnp.zeros_like(best.on_edge), jnp.zeros_like(best.along)
    for j in range(3):
        a, b = (j + 1) % 3, (j + 2) % 3
        crossed = differ[a] ^ differ[b]
        steep = jnp.abs(axis[a]) > jnp.abs(axis[b])  # axis a then takes the place of b
        forward = jnp.where(steep, differ[a], differ[b])
        towards = jnp.where(forward, 1.0, -1.0).astype(jnp.result_type(best.along))
        over_face = jnp.minimum(1 - towards * best.along, jnp.where(steep, reach[a], reach[b]))
        rest = jnp.where(up[j] == forward, 1 - best.on_box, 1 + best.on_box)
        this = jnp.minimum(over_face, ratio(size[j] * rest, jnp.abs(half[j]))) * towards
        second = jnp.where(best.edge[j], this, second)
        found = jnp.where(best.edge[j], crossed, found)
    return found, second


def _second_from_face(best: _Nearest, centre: Vec3, half: Vec3, size: Vec3) -> tuple[Scalar, Scalar]:
    """A second place where an end is over a face: the farthest place of the segment that is over it."""
    towards = -best.along
    end = centre - half * towards
    second = jnp.full_like(best.along, 2.0)
    for i in range(3):
        for side in (size[i], -size[i]):
            slope = half[i] * towards
            step = (side - end[i]) / jnp.where(slope == 0, 1.0, slope)
            usable = ~best.face[i] & (slope != 0) & (step > 0) & (step < second)
            second = jnp.where(usable, step, second)
    return best.face.x | best.face.y | best.face.z, second * towards


def capsule_box(capsule: Geom, box: Geom, margin: Scalar) -> tuple[Contact, ...]:
    """The ball of the capsule that is nearest to the box, and a second one where the capsule lies along the box."""
    size, length, radius = box.size, capsule.size.y, capsule.size.x
    centre = box.rotation.t_mul(capsule.position - box.position)
    axis = box.rotation.t_mul(capsule.axis)
    half = axis * length

    start = margin + 2 * (radius + length + size.x + size.y + size.z) + 0 * (centre.x + axis.x)
    zero, false = jnp.zeros_like(start), jnp.zeros_like(start) > 0
    nowhere = Vec3(false, false, false)
    best = _Nearest(start, zero, false, false, false, nowhere, nowhere, zero, nowhere)
    best = _over_faces(centre, half, size, best)
    best = fold(lambda best, edge: _at_edge(centre, half, length, size, edge, best), best, EDGES, start)

    up = Vec3(*(h > 0 for h in half))
    differ = Vec3(*(u ^ c for u, c in zip(up, best.corner, strict=True)))
    reach = Vec3(*(ratio(2 * s, jnp.abs(h)) for s, h in zip(size, half, strict=True)))
    by_corner = _second_from_corner(best, differ, axis, reach)
    by_edge = _second_from_edge(best, differ, up, axis, half, reach, size)
    by_face = _second_from_face(best, centre, half, size)
    more, step = where(best.on_edge, where(best.in_middle, by_edge, by_corner), by_face)

    points = [ball_box(centre + half * along, radius, box, margin) for along in (best.along, best.along + step)]
    return tuple(
        contact(flag & p.active, p.position, p.frame, p.distance)
        for flag, p in zip((best.found, best.found & more), points, strict=True)
    )

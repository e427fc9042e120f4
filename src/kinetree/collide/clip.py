"""Several points where faces of two shapes lie against each other, one lane at a time.

A face of one is clipped by the sides of a face of the other (Sutherland and Hodgman 1974), and of the corners that are
left up to four count. Which faces, and which corners, is MuJoCo's choice (its multicontact, polygonClip, polygonQuad).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .solids import FACE_ALIGNED, Feature

POINTS = 4
EDGE_FLAT = 0.0888  # MuJoCo's mjEDGE_TOL: cosine up to which an edge counts as parallel to a face
SLACK = 1e-15  # metres that a corner may be outside a side and count as inside (mjMINVAL)
MAX_TURNS = 400  # of the search for a large quadrilateral; it needs a few for each corner


class Points(NamedTuple):
    """Points of contact that share a normal, from the first shape to the second; `count` is 0 where there is one."""

    normal: Any  # (3,)
    first: Any  # (POINTS, 3): on the first shape
    second: Any
    count: Any


class _Polygon(NamedTuple):
    points: Any  # (n, 3)
    count: Any


def _unit(v: Any) -> Any:
    length = jnp.sqrt(jnp.sum(v * v, -1, keepdims=True))
    return v / jnp.where(length > 0, length, 1.0)


def _kept(points: Any, flags: Any, width: int) -> _Polygon:
    """The points that are flagged, in order."""
    place = jnp.where(flags, jnp.cumsum(flags) - 1, width)
    return _Polygon(jnp.zeros((width, 3), points.dtype).at[place].set(points, mode="drop"), jnp.sum(flags))


def clipped(sides: _Polygon, normal: Any, polygon: _Polygon, margin: Any) -> _Polygon:
    """What of a polygon is within the sides of another, which goes around against its normal, and not high above it."""
    width = polygon.points.shape[0]
    here = jnp.arange(width)

    def turn(state: tuple[Any, _Polygon]) -> tuple[Any, _Polygon]:
        e, (points, count) = state
        corner = sides.points[e]
        inward = _unit(jnp.cross(sides.points[jnp.where(e + 1 < sides.count, e + 1, 0)] - corner, normal))
        heights = jnp.sum((points - corner) * inward, -1)
        after = jnp.where(here + 1 < count, here + 1, 0)
        inside = heights > -SLACK
        crosses = (here < count) & (inside != inside[after])
        fall = heights - heights[after]
        share = heights / jnp.where(fall != 0, fall, 1.0)
        crosses = crosses & (fall != 0) & (share >= 0) & (share <= 1)
        between = points + (points[after] - points) * share[:, None]
        both = jnp.stack([between, points[after]], 1).reshape(-1, 3)
        flags = jnp.stack([crosses, (here < count) & inside[after]], 1).reshape(-1)
        made = _kept(both, flags, width)
        return e + 1, made._replace(count=jnp.minimum(made.count, width))

    _, left = jax.lax.while_loop(lambda s: s[0] < sides.count, turn, (jnp.zeros_like(sides.count), polygon))
    below = jnp.sum((left.points - sides.points[0]) * normal, -1) <= margin
    return _kept(left.points, (here < left.count) & below, width)


def _area(p: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    return jnp.sqrt(jnp.sum(jnp.cross(p[c] - p[a], p[d] - p[b]) ** 2)) / 2


class _Quad(NamedTuple):
    corners: Any  # (4,): numbers
    best: Any  # (4,)
    area: Any
    trying: Any  # which of d, c, b may move on: 0, 1, 2
    turns: Any


def large_quadrilateral(polygon: _Polygon) -> Any:
    """(4,): numbers of corners that span a large part of a polygon of more than four.

    One corner after the other is the first; the last moves on while the area grows, and after each of its moves the
    third and the second follow.
    """
    p, n = polygon

    def after(i: Any) -> Any:
        return jnp.where(i + 1 < n, i + 1, 0)

    def turn(s: _Quad) -> _Quad:
        a, b, c, d = s.corners
        moved = jnp.stack(
            [
                a,
                jnp.where(s.trying == 2, after(b), b),
                jnp.where(s.trying == 1, after(c), c),
                jnp.where(s.trying == 0, after(d), d),
            ]
        )
        area = _area(p, *moved)
        grows = area > s.area
        ends = ~grows & (s.trying == 0)  # nothing more with this first corner
        b1 = jnp.where(b == a, after(b), b)
        c1 = jnp.where((b == a) & (c == b1), after(c), c)
        d1 = jnp.where((b == a) & (c == b1) & (d == c1), after(d), d)
        corners = jnp.where(grows, moved, jnp.where(ends, jnp.stack([a + 1, b1, c1, d1]), s.corners))
        trying = jnp.where(grows, jnp.where(s.trying == 0, 1, s.trying), jnp.where(s.trying == 1, 2, 0))
        return _Quad(corners, jnp.where(grows, moved, s.best), jnp.where(grows, area, s.area), trying, s.turns + 1)

    start = jnp.arange(4)
    first = _Quad(start, start, _area(p, 0, 1, 2, 3), jnp.zeros_like(start[0]), jnp.zeros_like(start[0]))
    wanted = n > POINTS

    def goes_on(s: _Quad) -> Any:
        return wanted & (s.corners[0] < n) & (s.turns < MAX_TURNS)

    return jax.lax.while_loop(goes_on, turn, first).best


def _farthest_two(polygon: _Polygon) -> Any:
    """(4,): the numbers of the two corners that are farthest apart, twice."""
    p, n = polygon
    here = jnp.arange(p.shape[0])
    apart = jnp.sum((p[:, None] - p[None]) ** 2, -1)
    apart = jnp.where((here[:, None] < here[None]) & (here[None] < n), apart, -1.0)
    k = jnp.argmax(apart)
    return jnp.stack([k // p.shape[0], k % p.shape[0]] * 2)


def several_points(f1: Feature, f2: Feature, radius: Any, margin: Any, wanted: Any) -> Points:
    """Points where a face of one shape lies against a face or an edge of the other.

    Arguments:
        f1, f2: what may touch.
        radius: around the first shape's edge, of a capsule.
        margin: Points count up to this distance.
        wanted: False leaves all out.
    """
    n1, n2 = f1.normals, f2.normals
    facing = jnp.sum(n1[:, None] * n2[None], -1) < -FACE_ALIGNED
    facing = facing & f1.flat[:, None] & f2.flat[None]
    face_face = jnp.any(facing)
    lies1 = _first(jnp.abs(jnp.sum(f1.directions[None] * n2[:, None], -1)) < EDGE_FLAT, f2.flat, f1.straight)
    lies2 = _first(jnp.abs(jnp.sum(f2.directions[None] * n1[:, None], -1)) < EDGE_FLAT, f1.flat, f2.straight)
    edge1 = ~face_face & (f1.dimension < 3) & (f1.dimension <= f2.dimension) & lies1[2]
    edge2 = ~face_face & (f2.dimension < 3) & (f2.dimension <= f1.dimension) & lies2[2] & ~edge1
    pair = jnp.argmax(facing)
    i1 = jnp.where(face_face, pair // facing.shape[1], lies2[0])
    i2 = jnp.where(face_face, pair % facing.shape[1], lies1[0])
    n1, n2 = n1[i1], n2[i2]
    width = f1.rings.shape[1] + f2.rings.shape[1]

    def wide(ring: Any) -> Any:
        return jnp.pad(ring, ((0, width - ring.shape[0]), (0, 0)))

    ring1, ring2 = ((wide(f.rings[i]), f.counts[i]) for f, i in ((f1, i1), (f2, i2)))
    line1, line2 = (
        (wide(jnp.stack([f.start, f.ends[k]])), jnp.full_like(ring1[1], 2)) for f, k in ((f1, lies1[1]), (f2, lies2[1]))
    )
    # The second face, or an edge of it, is clipped by the first face; an edge of the first by the second face.
    sides = _Polygon(*_choose(edge1, ring2, ring1))
    given = _Polygon(*_choose(edge1, line1, _choose(edge2, line2, ring2)))
    up = jnp.where(edge1, n2, n1)
    meets = wanted & (face_face | edge1 | edge2)
    sides, given = (x._replace(count=jnp.where(meets, x.count, 0)) for x in (sides, given))
    found = clipped(sides, up, given, margin + radius)
    found = found._replace(count=jnp.where(meets, found.count, 0))

    two_ends = (edge1 | edge2) & (found.count > 2) & (found.count <= POINTS)
    chosen = jnp.where(found.count > POINTS, large_quadrilateral(found), jnp.arange(POINTS))
    chosen = jnp.where(two_ends, _farthest_two(found), chosen)
    count = jnp.where(two_ends, 2, jnp.minimum(found.count, POINTS))
    p = found.points[chosen]
    other = p - up * jnp.sum((p - sides.points[0]) * up, -1, keepdims=True)  # on the face that clips
    first, second = _choose(edge1, (p - n2 * radius, other), (other, p))
    down = jnp.sum((other - ring2[0][0]) * n2, -1, keepdims=True)  # Two faces: the normal is that of the second.
    second = jnp.where(face_face, other - n2 * down, second)
    return Points(jnp.where(edge2, n1, -n2), first, second, count)


def _choose(flag: Any, a: Any, b: Any) -> Any:
    return jax.tree.map(lambda x, y: jnp.where(flag, x, y), a, b)


def _first(flat: Any, faces: Any, lines: Any) -> tuple[Any, Any, Any]:
    """The first face and edge, in order, that are parallel: their numbers, and whether there are such."""
    flat = flat & faces[:, None] & lines[None]
    k = jnp.argmax(flat)
    return k // flat.shape[1], k % flat.shape[1], jnp.any(flat)

"""Several points where faces of two shapes lie against each other, one lane at a time.

A face of one is clipped by the sides of a face of the other (Sutherland and Hodgman 1974). Up to four of the remaining
corners are contact points. The faces and corners are MuJoCo's choice (its multicontact, polygonClip, polygonQuad).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from kinetree.lanes.program.alone import counted, get, once, put, room, while_loop
from kinetree.spatial import Scalar, Vec3

from .shapes import where
from .solids import FACE_ALIGNED, Feature

POINTS = 4
EDGE_FLAT = 0.0888  # MuJoCo's mjEDGE_TOL: cosine up to which an edge counts as parallel to a face
SLACK = 1e-15  # metres that a corner may be outside a side and count as inside (mjMINVAL)
ROUNDING = 1e-6  # share of the radius of a ball around a polygon; so much is added, against rounding in float32
MAX_TURNS = 4_000  # steps of the search for a large quadrilateral; it needs about five for each corner


class Points(NamedTuple):
    """Points of contact that share a normal, from the first shape to the second; `count` is 0 where there is one."""

    normal: Vec3
    first: tuple[Vec3, ...]  # POINTS: on the first shape
    second: tuple[Vec3, ...]
    count: Any


class _Polygon(NamedTuple):
    points: Vec3  # of arrays
    count: Any
    turned: Any  # the number, in the arrays, of the corner that counts as the first

    def at(self, k: Any) -> Vec3:
        """Corner k."""
        k = k + self.turned
        k = jnp.where(k < self.count, k, k - self.count)
        return Vec3(*(get(x, k) for x in self.points))


def _put(points: Vec3, k: Any, p: Vec3) -> Vec3:
    return Vec3(*(put(x, k, c) for x, c in zip(points, p, strict=True)))


def _unit(v: Vec3) -> Vec3:
    length = jnp.sqrt(v.dot(v))
    return v * (1 / jnp.where(length > 0, length, 1.0))


def _after(k: Any, count: Any) -> Any:
    return jnp.where(k + 1 < count, k + 1, 0)


def _ball(p: _Polygon, zero: Scalar) -> tuple[Vec3, Scalar]:
    """The middle and the radius of a ball that holds a polygon."""
    total = counted(p.count, lambda k, total: total + p.at(k), Vec3(zero, zero, zero))
    middle = total * (1 / jnp.maximum(p.count, 1).astype(zero.dtype))

    def widened(k: Any, most: Scalar) -> Scalar:
        away = p.at(k) - middle
        return jnp.maximum(most, away.dot(away))

    return middle, jnp.sqrt(counted(p.count, widened, zero)) * (1 + ROUNDING)


def clipped(sides: _Polygon, normal: Vec3, polygon: _Polygon, width: int, margin: Scalar) -> _Polygon:
    """The part of a polygon within the sides of another, which goes around against its normal, and not high above it.

    The arrays of the polygon have room for `width` corners and one more. If a side cuts corners off, the new corners
    are written to other arrays, and copied back. If all corners are within a side, only the first corner changes.
    """
    middle, radius = _ball(polygon, jnp.zeros_like(margin))
    spare = Vec3(*(room(width + 1, margin) for _ in range(3)))

    def by_side(e: Any, state: tuple[_Polygon, Vec3]) -> tuple[_Polygon, Vec3]:
        p, spare = state
        corner = sides.at(e)
        inward = _unit((sides.at(_after(e, sides.count)) - corner).cross(normal))
        cuts = (middle - corner).dot(inward) <= radius

        def cut(state: tuple[_Polygon, Vec3]) -> tuple[_Polygon, Vec3]:
            p, spare = state
            after = _after(p.turned, p.count)

            def look(k: Any, state: tuple) -> tuple:
                spare, made, here, height, turned = state
                there = Vec3(*(get(x, k) for x in p.points))
                next_height = (there - corner).dot(inward)
                stays = next_height > -SLACK
                fall = height - next_height
                share = height / jnp.where(fall != 0, fall, 1.0)
                crosses = ((height > -SLACK) != stays) & (fall != 0) & (share >= 0) & (share <= 1)
                crossing = here + (there - here) * share
                turned = jnp.where(k == after, made, turned)
                for point, flag in ((crossing, crosses), (there, stays)):  # a point that does not count is overwritten
                    spare = _put(spare, jnp.minimum(made, width), point)
                    made = made + jnp.where(flag, 1, 0)
                return spare, made, there, next_height, turned

            none = jnp.zeros_like(p.count)
            last = Vec3(*(get(x, jnp.maximum(p.count - 1, 0)) for x in p.points))
            begin = spare, none, last, (last - corner).dot(inward), none
            spare, made, _, _, turned = counted(p.count, look, begin)
            made = jnp.minimum(made, width)
            points = counted(made, lambda k, points: _put(points, k, Vec3(*(get(x, k) for x in spare))), p.points)
            return _Polygon(points, made, jnp.where(turned < made, turned, 0)), spare

        kept = p._replace(turned=jnp.where(cuts, p.turned, _after(p.turned, p.count)))
        return once(cuts, cut, (kept, spare))

    p, spare = counted(sides.count, by_side, (polygon, spare))
    origin = sides.at(jnp.zeros_like(p.count))

    def keep(k: Any, state: tuple[Vec3, Any]) -> tuple[Vec3, Any]:
        points, made = state
        corner = p.at(k)
        below = (corner - origin).dot(normal) <= margin
        return _put(points, made, corner), made + jnp.where(below, 1, 0)

    none = jnp.zeros_like(p.count)
    points, made = counted(p.count, keep, (spare, none))
    return _Polygon(points, made, none)


class _Quad(NamedTuple):
    corners: tuple[Any, ...]  # 4 numbers
    best: tuple[Any, ...]
    area: Scalar
    trying: Any  # which of d, c, b may move on: 0, 1, 2
    turns: Any


def large_quadrilateral(p: _Polygon) -> tuple[Any, ...]:
    """Numbers of four corners that span a large part of a polygon of more than four.

    One corner after the other is the first; the last moves on while the area grows, and after each of its moves the
    third and the second follow.
    """
    n = p.count

    def area(corners: tuple[Any, ...]) -> Scalar:
        a, b, c, d = (p.at(k) for k in corners)
        across = (c - a).cross(d - b)
        return jnp.sqrt(across.dot(across)) / 2

    def turn(s: _Quad) -> _Quad:
        a, b, c, d = s.corners
        moved = (
            a,
            jnp.where(s.trying == 2, _after(b, n), b),
            jnp.where(s.trying == 1, _after(c, n), c),
            jnp.where(s.trying == 0, _after(d, n), d),
        )
        found = area(moved)
        grows = found > s.area
        ends = ~grows & (s.trying == 0)  # nothing more with this first corner
        b1 = jnp.where(b == a, _after(b, n), b)
        c1 = jnp.where((b == a) & (c == b1), _after(c, n), c)
        d1 = jnp.where((b == a) & (c == b1) & (d == c1), _after(d, n), d)
        corners = where(grows, moved, where(ends, (a + 1, b1, c1, d1), s.corners))
        trying = jnp.where(grows, jnp.where(s.trying == 0, 1, s.trying), jnp.where(s.trying == 1, 2, 0))
        best = where(grows, moved, s.best)
        return _Quad(corners, best, jnp.where(grows, found, s.area), trying, s.turns + 1)

    start = tuple(jnp.full_like(n, k) for k in range(4))
    first = _Quad(start, start, area(start), jnp.zeros_like(n), jnp.zeros_like(n))
    return while_loop(lambda s: (s.corners[0] < n) & (s.turns < MAX_TURNS), turn, first).best


def _farthest_two(p: _Polygon) -> tuple[Any, Any]:
    """The numbers of the two of up to four corners that are farthest apart."""
    zero = jnp.zeros_like(p.count)
    found = (zero, zero)
    corners = [p.at(jnp.minimum(jnp.full_like(zero, k), jnp.maximum(p.count - 1, 0))) for k in range(POINTS)]
    best = jnp.full_like(corners[0].x, -1.0)
    for i in range(POINTS):
        for j in range(i + 1, POINTS):
            between = corners[j] - corners[i]
            squared = between.dot(between)
            better = (p.count > j) & (squared > best)
            found = where(better, (jnp.full_like(zero, i), jnp.full_like(zero, j)), found)
            best = jnp.where(better, squared, best)
    return found


def _first_pair(wanted: Any, n1: Any, n2: Any, test: Callable[[Any, Any], Any]) -> tuple[Any, Any, Any]:
    """The first pair of numbers below n1 and n2 that passes a test, the second changing fastest; if there is one."""

    def turn(s: tuple) -> tuple:
        i, j, _ = s
        ok = test(i, j)
        last = j + 1 >= n2
        return jnp.where(ok | ~last, i, i + 1), jnp.where(ok, j, jnp.where(last, 0, j + 1)), ok

    zero = jnp.zeros_like(n1)
    i, j, found = while_loop(
        lambda s: wanted & ~s[2] & (s[0] < n1) & (n2 > 0), turn, (zero, zero, jnp.zeros_like(wanted))
    )
    return jnp.where(found, i, 0), jnp.where(found, j, 0), found


def _best_pair(wanted: Any, n1: Any, n2: Any, score: Callable[[Any, Any], Any], least: float) -> tuple[Any, Any, Any]:
    """The pair of numbers below n1 and n2 with the highest score, if one is above `least`; of equal ones the first."""

    def turn(s: tuple) -> tuple:
        i, j, most, best = s
        new = score(i, j)
        better = new > most
        last = j + 1 >= n2
        following = jnp.where(last, i + 1, i), jnp.where(last, 0, j + 1)
        return *following, jnp.where(better, new, most), where(better, (i, j), best)

    zero = jnp.zeros_like(n1)
    start = zero, zero, jnp.full_like(score(zero, zero), least), (zero, zero)
    _, _, most, (i, j) = while_loop(lambda s: wanted & (s[0] < n1) & (n2 > 0), turn, start)
    return i, j, most > least


def _copied(to: _Polygon, f: Feature, face: Any, wanted: Any) -> _Polygon:
    """The corners of a face of a shape, put into a polygon if `wanted`."""
    ring, count = f.ring(face)
    count = jnp.where(wanted, jnp.minimum(count, f.width), 0)
    points = counted(count, lambda k, points: _put(points, k, f.corner(ring, k)), to.points)
    return to._replace(points=points, count=jnp.where(wanted, count, to.count))


def _line(to: _Polygon, f: Feature, edge: Any, wanted: Any) -> _Polygon:
    def both(points: Vec3) -> Vec3:
        for k, p in enumerate(f.edge(edge)):
            points = _put(points, jnp.full_like(to.count, k), p)
        return points

    return to._replace(points=once(wanted, both, to.points), count=jnp.where(wanted, 2, to.count))


def several_points(f1: Feature, f2: Feature, margin: Scalar) -> Points:
    """Points where a face of one shape lies against a face or an edge of the other.

    Arguments:
        f1, f2: the features that may touch.
        margin: Points count up to this distance.
    """
    always = f1.dimension == f1.dimension

    def lies(f: Feature, other: Feature) -> Callable[[Any, Any], Any]:
        def test(face: Any, edge: Any) -> Any:
            start, end = f.edge(edge)
            return jnp.abs(_unit(end - start).dot(other.normal(face))) < EDGE_FLAT

        return test

    i1, i2, face_face = _best_pair(
        always, f1.n_faces, f2.n_faces, lambda i, j: -f1.normal(i).dot(f2.normal(j)), FACE_ALIGNED
    )
    may1 = ~face_face & (f1.dimension < 3) & (f1.dimension <= f2.dimension)
    over2, line1, edge1 = _first_pair(may1, f2.n_faces, f1.n_edges, lies(f1, f2))
    may2 = ~face_face & ~edge1 & (f2.dimension < 3) & (f2.dimension <= f1.dimension) & f2.edge_counts
    over1, line2, edge2 = _first_pair(may2, f1.n_faces, f2.n_edges, lies(f2, f1))
    i1, i2 = jnp.where(face_face, i1, over1), jnp.where(face_face, i2, over2)
    meets = face_face | edge1 | edge2
    n1, n2 = f1.normal(i1), f2.normal(i2)
    width = f1.width + f2.width
    zero = jnp.zeros_like(f1.dimension)

    def corners(count: int) -> Vec3:
        return Vec3(*(room(count, margin) for _ in range(3)))

    # The second face, or an edge of it, is clipped by the first face; an edge of the first by the second face.
    sides = _Polygon(corners(max(f1.width, f2.width)), zero, zero)
    sides = _copied(_copied(sides, f1, i1, meets & ~edge1), f2, i2, edge1)
    given = _Polygon(corners(width + 1), zero, zero)
    given = _line(_line(_copied(given, f2, i2, face_face), f1, line1, edge1), f2, line2, edge2)
    up = where(edge1, n2, n1)
    found = clipped(sides, up, given, width, margin)

    two_ends = (edge1 | edge2) & (found.count > 2) & (found.count <= POINTS)
    plain = tuple(jnp.full_like(zero, k) for k in range(POINTS))
    chosen = once(found.count > POINTS, lambda _: large_quadrilateral(found), plain)
    chosen = where(two_ends, _farthest_two(found) * 2, chosen)
    count = jnp.where(two_ends, 2, jnp.minimum(found.count, POINTS))
    origin = sides.at(zero)
    firsts, seconds = [], []
    for k in chosen:
        p = found.at(k)
        other = p - up * (p - origin).dot(up)  # on the face that clips
        first, second = where(edge1, (p, other), (other, p))
        lower = other - n2 * (other - p).dot(n2)  # Two faces: the normal is that of the second.
        firsts.append(first)
        seconds.append(where(face_face, lower, second))
    return Points(where(edge2, n1, -n2), tuple(firsts), tuple(seconds), jnp.where(meets, count, 0))

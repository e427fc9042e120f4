"""The distance of two convex shapes that do not overlap (Gilbert, Johnson and Keerthi 1988), one lane at a time.

Among the differences of their points, the one nearest to the origin is sought. A simplex of up to four differences is
kept. Its point nearest to the origin is found by trying all of its 15 faces: a face counts if the point of its plane
nearest to the origin has no negative weight, and the nearest of those is the answer.
"""

from collections.abc import Callable
from functools import reduce
from itertools import combinations
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from kinetree.spatial import Scalar, Vec3

from .shapes import where

MAX_ITERATIONS = 60  # Corners of hulls need about ten; smooth shapes gain a factor of a few for each.
FACES = [f for k in (1, 2, 3, 4) for f in combinations(range(4), k)]


class Nearest(NamedTuple):
    """The nearest points of two shapes, and whether they overlap: then the points mean nothing."""

    first: Vec3
    second: Vec3
    overlap: Any


class _Simplex(NamedTuple):
    first: tuple[Vec3, ...]  # 4 points of the first shape
    second: tuple[Vec3, ...]
    weights: tuple[Scalar, ...]  # 4, of the point nearest to the origin; unused corners have none
    distance2: Scalar  # squared, of that point
    overlap: Any
    done: Any
    turns: Any


class _Best(NamedTuple):
    """The face whose point is nearest so far."""

    squared: Scalar
    weights: tuple[Scalar, ...]


def _over(a: Scalar, b: Scalar) -> Scalar:
    return a / jnp.where(b != 0, b, 1.0)


def _weights(p: list[Vec3]) -> tuple[list[Scalar], Any]:
    """Weights of the point nearest to the origin of the plane through some corners; whether there is a plane."""
    if len(p) == 1:
        return [jnp.ones_like(p[0].x)], p[0].x == p[0].x
    if len(p) == 2:
        d = p[1] - p[0]
        dd = d.dot(d)
        t = _over(-p[0].dot(d), dd)
        return [1 - t, t], dd > 0
    if len(p) == 3:
        n = (p[1] - p[0]).cross(p[2] - p[0])
        nn = n.dot(n)
        foot = n * _over(p[0].dot(n), nn)
        a, b, c = (x - foot for x in p)
        return [_over(x.cross(y).dot(n), nn) for x, y in ((b, c), (c, a), (a, b))], nn > 0
    a, b, c, d = p
    ab = a.cross(b)
    v = [b.cross(c).dot(d), -a.cross(c).dot(d), ab.dot(d), -ab.dot(c)]
    total = v[0] + v[1] + v[2] + v[3]
    return [_over(x, total) for x in v], total != 0


def _combined(weights: tuple[Scalar, ...], points: tuple[Vec3, ...]) -> Vec3:
    total = points[0] * weights[0]
    for w, p in zip(weights[1:], points[1:], strict=True):
        total = total + p * w
    return total


def _nearest_face(w: list[Vec3], present: list[Any]) -> tuple[_Best, Any]:
    """The point of a simplex nearest to the origin; whether the origin is inside."""
    zero = jnp.zeros_like(w[0].x)
    best, inside = _Best(jnp.full_like(zero, jnp.inf), (zero,) * 4), zero > 0
    for face in FACES:
        part, usable = _weights([w[i] for i in face])
        usable = reduce(lambda x, y: x & y, [usable, *(x >= 0 for x in part), *(present[i] for i in face)])
        if len(face) == 4:
            squared, inside = zero, usable
        else:
            point = _combined(tuple(part), tuple(w[i] for i in face))
            squared = point.dot(point)
        full = tuple(part[face.index(i)] if i in face else zero for i in range(4))
        best = where(usable & (squared < best.squared), _Best(squared, full), best)
    return best, inside


def nearest_points(support: Callable[[Vec3], tuple[Vec3, Vec3]], start: tuple[Vec3, Vec3], reach: Scalar) -> Nearest:
    """`support(direction)` gives the farthest points of the first shape along a direction and of the second against it.

    `start` is any point of each. The search ends where it is certain that the distance is larger than `reach`.
    """
    tiny = float(jnp.finfo(jnp.result_type(reach)).eps)

    def turn(s: _Simplex) -> _Simplex:
        x = _combined(s.weights, s.first) - _combined(s.weights, s.second)
        length = jnp.sqrt(jnp.where(s.distance2 > 0, s.distance2, 1.0))
        a, b = support(x * (-1 / length))
        toward = x.dot(a - b)
        gap = s.distance2 - toward
        least = reduce(jnp.minimum, s.weights)
        free, taken = [], s.done  # An unused corner: there is one unless the origin is inside.
        for weight in s.weights:
            free.append((weight == least) & ~taken)
            taken = taken | free[-1]
        first = tuple(where(f, a, p) for f, p in zip(free, s.first, strict=True))
        second = tuple(where(f, b, p) for f, p in zip(free, s.second, strict=True))
        present = [f | (w > 0) for f, w in zip(free, s.weights, strict=True)]
        best, inside = _nearest_face([p - q for p, q in zip(first, second, strict=True)], present)
        overlap = inside | (best.squared <= (100 * tiny) ** 2)
        beyond = toward > reach * length  # a plane between the shapes keeps them so far apart
        finished = (gap <= 4 * tiny * s.distance2) | ~(best.squared < s.distance2) | beyond
        over = overlap | (s.turns >= MAX_ITERATIONS)
        moved = _Simplex(first, second, best.weights, best.squared, overlap, over, s.turns + 1)
        return where(finished, s._replace(done=finished), moved)

    x = start[0] - start[1]
    squared = x.dot(x)
    same = squared <= tiny * tiny
    one, zero = jnp.ones_like(squared), jnp.zeros_like(squared)
    first = where(same, start[0] + Vec3(one, zero, zero), start[0])
    begin = _Simplex(
        (first,) * 4,
        (start[1],) * 4,
        (one, zero, zero, zero),
        jnp.where(same, 1.0, squared),
        zero > 0,
        zero > 0,
        jnp.int32(0) * zero.astype(jnp.int32),
    )
    s = jax.lax.while_loop(lambda s: ~s.done, turn, begin)
    return Nearest(_combined(s.weights, s.first), _combined(s.weights, s.second), s.overlap)

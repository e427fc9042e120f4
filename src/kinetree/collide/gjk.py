"""The distance of two convex shapes that do not overlap (Gilbert, Johnson and Keerthi 1988), one lane at a time.

Among the differences of their points, the one nearest to the origin is sought. A simplex of up to four differences is
kept, the newest first. Its point nearest to the origin is found by trying the eight faces that have the newest corner,
as the others were not nearer before: a face counts if the point of its plane nearest to the origin has no negative
weight, and the nearest of those is the answer.
"""

from functools import reduce
from itertools import combinations
from typing import Any, NamedTuple

import jax.numpy as jnp

from kinetree.lanes.program.alone import once, while_loop
from kinetree.spatial import Scalar, Vec3

from .descent import Ends, Lowest, descended
from .shapes import where

MAX_ITERATIONS = 60  # Corners of hulls need about ten; smooth shapes gain a factor of a few for each.
ROUGH = 1e-3  # part of the squared distance; from here on descent finds that of smooth shapes
FEW = 24  # steps of descent; at edges it never arrives
FARTHEST = 1e15  # metres; farther than any two points are apart
FACES = [(0, *f) for k in range(4) for f in combinations((1, 2, 3), k)]  # of four corners, those with the first


class Nearest(NamedTuple):
    """The nearest points of two shapes, and True if they overlap: then the points have no meaning."""

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
    fine: Any  # True if the search goes on to the end; else it ends where the distance is known roughly


class _Best(NamedTuple):
    """The face whose point is nearest so far."""

    squared: Scalar
    weights: tuple[Scalar, ...]


def _inverse(a: Scalar) -> Scalar:
    return 1 / jnp.where(a != 0, a, 1.0)


def _weights(p: list[Vec3]) -> tuple[list[Scalar], Any]:
    """Weights of the point nearest to the origin of the plane through some corners; True if there is a plane."""
    if len(p) == 1:
        return [jnp.ones_like(p[0].x)], p[0].x == p[0].x
    if len(p) == 2:
        d = p[1] - p[0]
        dd = d.dot(d)
        t = -p[0].dot(d) * _inverse(dd)
        return [1 - t, t], dd > 0
    if len(p) == 3:
        n = (p[1] - p[0]).cross(p[2] - p[0])
        nn = n.dot(n)
        scale = _inverse(nn)
        foot = n * (p[0].dot(n) * scale)
        a, b, c = (x - foot for x in p)
        return [x.cross(y).dot(n) * scale for x, y in ((b, c), (c, a), (a, b))], nn > 0
    a, b, c, d = p
    ab = a.cross(b)
    v = [b.cross(c).dot(d), -a.cross(c).dot(d), ab.dot(d), -ab.dot(c)]
    total = v[0] + v[1] + v[2] + v[3]
    scale = _inverse(total)
    return [x * scale for x in v], total != 0


def _combined(weights: tuple[Scalar, ...], points: tuple[Vec3, ...]) -> Vec3:
    total = points[0] * weights[0]
    for w, p in zip(weights[1:], points[1:], strict=True):
        total = total + p * w
    return total


def _nearest_face(w: list[Vec3], present: list[Any]) -> tuple[_Best, Any]:
    """The point of a simplex nearest to the origin; True if the origin is inside."""
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


def nearest_points(support: Ends, along: Vec3, reach: Scalar, smooth: bool = False, round_: bool = False) -> Nearest:
    """`support(direction)` gives the farthest points of the first shape along a direction and of the second against it.

    `along` is the direction to begin with. The search ends where it is certain that the distance is larger than
    `reach`; the points returned are then some that are so far apart. `smooth`: the shapes may be smooth where they are
    nearest. Then the search goes on from a rough distance only if descent from there does not arrive.
    """
    tiny = float(jnp.finfo(jnp.result_type(reach)).eps)
    zero = jnp.zeros_like(along.x)
    alone = (jnp.ones_like(zero), zero, zero, zero)  # weights of a single corner

    def turn(s: _Simplex) -> _Simplex:
        x = _combined(s.weights, s.first) - _combined(s.weights, s.second)
        length = jnp.sqrt(jnp.where(s.distance2 > 0, s.distance2, 1.0))
        direction = where(s.turns == 0, along, x * (-1 / length))
        a, b = support(direction)
        apart = direction.dot(b - a)  # A plane between the shapes shows that they are at least so far apart.
        beyond = apart > reach
        close = jnp.where(s.fine, 4 * tiny, ROUGH) if smooth else 4 * tiny
        finished = (s.distance2 - length * apart <= close * s.distance2) | beyond

        def moved(s: _Simplex) -> _Simplex:
            least = reduce(jnp.minimum, s.weights)
            free, taken = [], s.done  # An unused corner: there is one unless the origin is inside.
            for weight in s.weights:
                free.append((weight == least) & ~taken)
                taken = taken | free[-1]
            # The newest comes first; what was first takes the unused place.
            first = (a, *(where(f, s.first[0], p) for f, p in zip(free[1:], s.first[1:], strict=True)))
            second = (b, *(where(f, s.second[0], p) for f, p in zip(free[1:], s.second[1:], strict=True)))
            weights = [where(f, s.weights[0], w) for f, w in zip(free[1:], s.weights[1:], strict=True)]
            present = [zero == zero, *(w > 0 for w in weights)]
            best, inside = _nearest_face([p - q for p, q in zip(first, second, strict=True)], present)
            overlap = inside | (best.squared <= (100 * tiny) ** 2)
            over = overlap | (s.turns >= MAX_ITERATIONS)
            new = _Simplex(first, second, best.weights, best.squared, overlap, over, s.turns + 1, s.fine)
            return where(best.squared < s.distance2, new, s._replace(done=~s.done))

        first, second = ((where(beyond, p, q[0]), *q[1:]) for p, q in ((a, s.first), (b, s.second)))
        last = s._replace(first=first, second=second, weights=where(beyond, alone, s.weights), done=finished)
        return once(~finished, moved, last)

    nowhere = (Vec3(zero, zero, zero),) * 4
    far = jnp.full_like(zero, FARTHEST * FARTHEST)
    begin = _Simplex(nowhere, nowhere, (zero,) * 4, far, zero > 0, zero > 0, zero.astype(jnp.int32), zero != 0)

    def search(s: _Simplex) -> _Simplex:
        return while_loop(lambda s: ~s.done, turn, s)

    def points(s: _Simplex) -> Nearest:
        return Nearest(_combined(s.weights, s.first), _combined(s.weights, s.second), s.overlap)

    if not smooth:
        return points(search(begin))

    def descend(state: tuple[_Simplex, Nearest, Any]) -> tuple[_Simplex, Nearest, Any]:
        s = search(state[0])
        found = points(s)
        gap = found.second - found.first
        squared = gap.dot(gap)
        near = ~s.overlap & ~s.fine & (squared > 0) & (squared * (1 - 2 * ROUGH) <= reach * reach)
        length = jnp.sqrt(jnp.where(squared > 0, squared, 1.0))
        normal = gap * (1 / length)
        if round_:  # The first time there is no search.
            first = s.turns == 0
            near, normal = near | first, where(first, along, normal)

        def polished(state: tuple[Nearest, Any]) -> tuple[Nearest, Any]:
            start = Lowest(normal, jnp.full_like(zero, jnp.inf), found.first, found.second)
            best, arrived = descended(support, start, reach, steps=FEW)
            # For shapes that are apart this is the distance. If they overlap, another direction may have less depth.
            arrived = arrived & (best.depth < 0)
            return where(arrived, Nearest(best.first, best.second, s.overlap), state[0]), ~arrived

        found, again = once(near, polished, (found, zero != zero))
        yes = again == again
        return s._replace(done=yes & ~again, fine=yes), found, again

    return while_loop(
        lambda s: s[2],
        descend,
        (begin._replace(done=zero == zero if round_ else begin.done), points(begin), zero == zero),
    )[1]

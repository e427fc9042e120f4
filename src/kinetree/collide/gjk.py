"""The distance of two convex shapes that do not overlap (Gilbert, Johnson and Keerthi 1988), one lane at a time.

Among the differences of their points, the one nearest to the origin is sought. A simplex of up to four differences is
kept. Its point nearest to the origin is found by trying all of its 15 faces: a face counts if the point of its plane
nearest to the origin has no negative weight, and the nearest of those is the answer.
"""

from collections.abc import Callable
from itertools import combinations
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

MAX_ITERATIONS = 60  # Corners of hulls need about ten; smooth shapes gain a factor of a few for each.
FACES = [f for k in (1, 2, 3, 4) for f in combinations(range(4), k)]


class Nearest(NamedTuple):
    """The nearest points of two shapes, and whether they overlap: then the points mean nothing."""

    first: Any  # (3,)
    second: Any
    overlap: Any


class _Simplex(NamedTuple):
    first: Any  # (4, 3) points of the first shape
    second: Any
    weights: Any  # (4,) of the point nearest to the origin; unused corners have none
    distance2: Any  # squared, of that point
    overlap: Any
    done: Any
    turns: Any


def _weights(w: Any) -> tuple[Any, Any]:
    """For each face of a tetrahedron: weights (15, 4) of its point nearest to the origin, and whether it is inside."""
    found, inside = [], []
    for face in FACES:
        p = [w[i] for i in face]
        if len(face) == 1:
            part, ok = jnp.ones(1, w.dtype), jnp.array(True)
        elif len(face) == 2:
            d = p[1] - p[0]
            dd = d @ d
            t = -(p[0] @ d) / jnp.where(dd > 0, dd, 1.0)
            part, ok = jnp.stack([1 - t, t]), dd > 0
        elif len(face) == 3:
            n = jnp.cross(p[1] - p[0], p[2] - p[0])
            nn = n @ n
            foot = n * ((p[0] @ n) / jnp.where(nn > 0, nn, 1.0))
            a, b, c = (x - foot for x in p)
            areas = jnp.stack([jnp.cross(b, c) @ n, jnp.cross(c, a) @ n, jnp.cross(a, b) @ n])
            part, ok = areas / jnp.where(nn > 0, nn, 1.0), nn > 0
        else:
            a, b, c, d = p
            v = [jnp.cross(b, c) @ d, -jnp.cross(a, c) @ d, jnp.cross(a, b) @ d, -jnp.cross(a, b) @ c]
            total = v[0] + v[1] + v[2] + v[3]
            part = jnp.stack(v) / jnp.where(total != 0, total, 1.0)
            part, ok = part, total != 0
        full = jnp.zeros(4, w.dtype).at[np.array(face)].set(part)
        found.append(full)
        inside.append(ok & jnp.all(part >= 0))
    return jnp.stack(found), jnp.stack(inside)


def nearest_points(support: Callable[[Any], tuple[Any, Any]], start: tuple[Any, Any], reach: Any) -> Nearest:
    """`support(direction)` gives the farthest points of the first shape along a direction and of the second against it.

    `start` is any point of each. The search ends where it is certain that the distance is larger than `reach`.
    """
    corners = (np.array([[i in face for i in range(4)] for face in FACES]), np.array([len(f) for f in FACES]))
    dtype = start[0].dtype
    tiny = jnp.finfo(dtype).eps
    scale = jnp.max(jnp.abs(jnp.stack([*start])) * 0 + 1)

    def turn(s: _Simplex) -> _Simplex:
        x1, x2 = s.weights @ s.first, s.weights @ s.second
        x = x1 - x2
        length = jnp.sqrt(jnp.where(s.distance2 > 0, s.distance2, 1.0))
        a, b = support(-x / length)
        gap = s.distance2 - x @ (a - b)
        free = jnp.argmin(s.weights)  # An unused corner: there is one unless the origin is inside.
        first, second = s.first.at[free].set(a), s.second.at[free].set(b)
        present = (s.weights > 0).at[free].set(True)
        found, inside = _weights(first - second)
        usable = inside & jnp.all(present | ~corners[0], -1)
        points = found @ (first - second)
        squared = jnp.where(usable, jnp.sum(points * points, -1), jnp.inf)
        squared = squared.at[-1].set(jnp.where(usable[-1], 0.0, jnp.inf))
        best = jnp.argmin(squared)
        closer = squared[best] < s.distance2
        overlap = usable[-1] | (squared[best] <= (100 * tiny) ** 2 * scale)
        beyond = x @ (a - b) > reach * length  # a plane between the shapes keeps them so far apart
        finished = (gap <= 4 * tiny * s.distance2) | ~closer | beyond
        moved = _Simplex(
            first, second, found[best], squared[best], overlap, overlap | (s.turns >= MAX_ITERATIONS), s.turns + 1
        )
        kept = s._replace(done=jnp.array(True))
        return jax.tree.map(lambda m, k: jnp.where(finished, k, m), moved, kept)

    first, second = (jnp.broadcast_to(p, (4, 3)) for p in start)
    x = start[0] - start[1]
    same = x @ x <= tiny * tiny
    weights = jnp.array([1.0, 0, 0, 0], dtype)
    begin = _Simplex(
        first, second, weights, jnp.where(same, 1.0, x @ x), jnp.array(False), jnp.array(False), jnp.array(0)
    )
    begin = begin._replace(first=jnp.where(same, begin.first + jnp.array([1.0, 0, 0], dtype), begin.first))
    s = jax.lax.while_loop(lambda s: ~s.done, turn, begin)
    return Nearest(s.weights @ s.first, s.weights @ s.second, s.overlap)

"""How deep two convex shapes overlap: the expanding polytope algorithm, one lane at a time.

The differences of the points of both shapes form a convex body that holds the origin. A polytope inside that body is
grown where its surface is nearest to the origin, until it can not grow there: this is the direction in which the shapes
are separated by the shortest way. Offsets of faces have signs, so the first polytope need not hold the origin.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

# Of a direction: the farthest point of the first shape along it, of the second against it, and their corners (2,).
Support = Callable[[Any], tuple[Any, Any, Any]]
MAX_GROWTH = 60  # corners added; MuJoCo's default is 35 iterations
VERTICES = 4 + MAX_GROWTH
FACES = 2 * VERTICES - 4  # of a polytope of triangles with so many corners
TOLERANCE = 1e-10  # metres; the depth is certain to be within this where growth ends by itself
POLISH_STEPS = 30  # of descent; two ellipsoids, deep in each other, are then within 1e-9
BULGE = 1e-7  # metres between a face and the body beyond it, from which on the body is taken to be round


def norm(x: Any) -> Any:
    """Length of a vector; no linear algebra of JAX may run on a CPU."""
    return jnp.sqrt(jnp.sum(x * x))


class Penetration(NamedTuple):
    """The shortest way out: its direction (from the first shape to the second), and the deepest points."""

    normal: Any  # (3,)
    depth: Any
    first: Any
    second: Any
    corners: Any  # (3, 2): of the face of the difference there, numbers of corners of both shapes


class _Polytope(NamedTuple):
    points: Any  # (VERTICES, 3) differences
    first: Any  # (VERTICES, 3) points of the first shape
    corners: Any  # (VERTICES, 2) their numbers of corners of both shapes
    faces: Any  # (FACES, 3) corners, in order around the outward normal
    alive: Any  # (FACES,)
    normals: Any  # (FACES, 3)
    offsets: Any  # (FACES,) of the faces' planes from the origin; infinite for faces without area
    count: Any  # corners
    sound: Any  # whether the last growth left a closed surface


def _planes(points: Any, faces: Any) -> tuple[Any, Any]:
    a, b, c = (points[faces[:, k]] for k in range(3))
    n = jnp.cross(b - a, c - a)
    nn = jnp.sum(n * n, -1)
    flat = nn <= 1e-36
    normal = n / jnp.sqrt(jnp.where(flat, 1.0, nn))[:, None]
    return normal, jnp.where(flat, jnp.inf, jnp.sum(normal * a, -1))


def _first_polytope(support: Support, along: Any) -> _Polytope:
    """A tetrahedron of points that are far apart."""
    dtype = along.dtype
    a0, b0, c0 = support(along)
    a1, b1, c1 = support(-along)
    line = (a0 - b0) - (a1 - b1)
    least = jnp.argmin(jnp.abs(line))
    side = jnp.cross(line, jnp.eye(3, dtype=dtype)[least])
    side = side / norm(side)
    one, other = support(side), support(-side)
    distance = jnp.abs((one[0] - one[1] - a1 + b1) @ side), jnp.abs((other[0] - other[1] - a1 + b1) @ side)
    a2, b2, c2 = jax.tree.map(lambda x, y: jnp.where(distance[0] >= distance[1], x, y), one, other)
    n = jnp.cross((a0 - b0) - (a1 - b1), (a2 - b2) - (a1 - b1))
    n = n / norm(n)
    one, other = support(n), support(-n)
    heights = (one[0] - one[1] - a1 + b1) @ n, (other[0] - other[1] - a1 + b1) @ n
    above = heights[0] >= -heights[1]
    a3, b3, c3 = jax.tree.map(lambda x, y: jnp.where(above, x, y), one, other)
    first = jnp.zeros((VERTICES, 3), dtype).at[:4].set(jnp.stack([a0, a1, a2, a3]))
    second = jnp.stack([b0, b1, b2, b3])
    points = jnp.zeros((VERTICES, 3), dtype).at[:4].set(first[:4] - second)
    corners = jnp.zeros((VERTICES, 2), jnp.int32).at[:4].set(jnp.stack([c0, c1, c2, c3]))
    # Corner 3 is on the side of n = (0 - 1) x (2 - 1) or on the other: the order around the faces follows.
    outward = np.array([[0, 1, 2], [0, 3, 1], [1, 3, 2], [2, 3, 0]])
    start = jnp.where(above, outward, outward[:, ::-1])
    faces = jnp.zeros((FACES, 3), jnp.int32).at[:4].set(start.astype(jnp.int32))
    alive = jnp.arange(FACES) < 4
    normals, offsets = _planes(points, faces)
    return _Polytope(points, first, corners, faces, alive, normals, offsets, jnp.array(4), jnp.array(True))


def _grown(p: _Polytope, point: Any, first: Any, corners: Any) -> _Polytope:
    """The hull of a polytope and one more point."""
    points, firsts = p.points.at[p.count].set(point), p.first.at[p.count].set(first)
    visible = p.alive & (p.normals @ point - p.offsets > 1e-14)
    starts, ends = p.faces.reshape(-1), p.faces[:, np.array([1, 2, 0])].reshape(-1)
    seen = jnp.repeat(visible, 3)
    edges = jnp.zeros((VERTICES, VERTICES), bool).at[jnp.where(seen, starts, VERTICES), ends].set(True, mode="drop")
    rim = edges & ~edges.T  # edges between a face that is seen and one that is not
    on_rim, after = jnp.any(rim, -1), jnp.argmax(rim, -1).astype(jnp.int32)
    new = jnp.stack([jnp.arange(VERTICES, dtype=jnp.int32), after, jnp.full(VERTICES, p.count, jnp.int32)], -1)
    alive = p.alive & ~visible
    free = jnp.argsort(alive)  # places of faces that are gone or not yet used come first
    place = jnp.where(on_rim, free[jnp.maximum(jnp.cumsum(on_rim) - 1, 0)], FACES)
    normals, offsets = _planes(points, new)
    return _Polytope(
        points,
        firsts,
        p.corners.at[p.count].set(corners),
        p.faces.at[place].set(new, mode="drop"),
        alive.at[place].set(True, mode="drop"),
        p.normals.at[place].set(normals, mode="drop"),
        p.offsets.at[place].set(offsets, mode="drop"),
        p.count + 1,
        (jnp.sum(on_rim) == jnp.sum(visible) + 2) & (jnp.max(jnp.sum(rim, -1)) == 1),
    )


def _deepest(p: _Polytope, face: Any, a: Any, b: Any) -> Penetration:
    """The depth along the normal of a face; a and b are the points of the shapes farthest along it.

    A flat face is touched at the foot of the origin. Where the body bulges out over the face, a and b touch.
    """
    normal, offset = p.normals[face], p.offsets[face]
    depth = normal @ (a - b)
    corners = p.points[p.faces[face]] - normal * offset
    n = jnp.cross(corners[1] - corners[0], corners[2] - corners[0])
    nn = n @ n
    areas = jnp.stack([jnp.cross(corners[i], corners[j]) @ n for i, j in ((1, 2), (2, 0), (0, 1))])
    on_face = (areas / jnp.where(nn > 0, nn, 1.0)) @ p.first[p.faces[face]] - normal * (offset / 2)
    middle = jnp.where(depth - offset <= BULGE, on_face, (a + b) / 2)
    here = p.corners[p.faces[face]]
    return Penetration(normal, depth, middle + normal * (depth / 2), middle - normal * (depth / 2), here)


class _Search(NamedTuple):
    polytope: _Polytope
    best: Penetration
    done: Any


def penetration(support: Support, along: Any, needed: Any) -> Penetration:
    """`support` as in gjk.py, `along` any direction. Where not `needed`, little is done.

    Of all normals tried, the one of least depth is the answer. Growth also ends where rounding would tear the
    surface.
    """

    def grow(s: _Search) -> _Search:
        p = s.polytope
        face = jnp.argmin(jnp.where(p.alive, p.offsets, jnp.inf))
        a, b, c = support(p.normals[face])
        found = _deepest(p, face, a, b)
        better = (found.depth < s.best.depth) & jnp.isfinite(p.offsets[face])
        best = jax.tree.map(lambda x, y: jnp.where(better, x, y), found, s.best)
        grown = _grown(p, a - b, a, c)
        done = (found.depth - p.offsets[face] <= TOLERANCE) | (p.count >= VERTICES - 1) | ~grown.sound
        return _Search(jax.tree.map(lambda x, y: jnp.where(done, x, y), p, grown), best, done)

    p = _first_polytope(support, along)
    nothing = Penetration(along, jnp.full_like(along[0], jnp.inf), along, along, jnp.zeros((3, 2), jnp.int32))
    start = _Search(p, nothing, ~needed)
    return jax.lax.while_loop(lambda s: ~s.done, grow, start).best


def polished(support: Support, found: Penetration) -> Penetration:
    """The depth at its least near a normal, by descent: for round shapes that EPA finds slowly.

    The depth along a unit vector n is n · w, with w the farthest difference, and its gradient the part of w that is
    orthogonal to n. Steps are those of Barzilai and Borwein (1988); the best normal seen is kept.
    """

    def slope(n: Any) -> tuple[Any, Any, Any]:
        a, b, _ = support(n)
        return a, b, (a - b) - n * (n @ (a - b))

    def step(_: Any, state: tuple) -> tuple:
        n, gradient, rate, best = state
        moved = n - gradient * rate
        moved = moved / norm(moved)
        a, b, after = slope(moved)
        depth = moved @ (a - b)
        middle = (a + b) / 2
        ends = middle + moved * (depth / 2), middle - moved * (depth / 2)
        here = Penetration(moved, depth, *ends, found.corners)
        best = jax.tree.map(lambda x, y: jnp.where(depth < best.depth, x, y), here, best)
        change, turned = moved - n, after - gradient
        along, size = change @ turned, change @ change
        rate = jnp.where(along > 0, size / jnp.where(along > 0, along, 1.0), rate)
        return moved, after, rate, best

    a, b, gradient = slope(found.normal)
    rate = 0.1 / jnp.maximum(norm(a - b), 1e-12)
    return jax.lax.fori_loop(0, POLISH_STEPS, step, (found.normal, gradient, rate, found))[3]

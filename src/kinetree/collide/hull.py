"""Convex hulls: corners, who is next to whom, and flat faces. Constants of a shape, in its own frame."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.spatial import Scalar, Vec3


class Hull(NamedTuple):
    """The hull of a mesh: n corners, at most k neighbours each.

    The order of corners and neighbours matters: where corners tie, it decides which of them touch a plane.
    """

    vertices: Any  # (n, 3)
    neighbours: Any  # (n, k) corners joined by an edge, in order; rows are filled up with the corner itself
    radius: Any  # of the sphere about the shape's origin that MuJoCo gives the shape (geom_rbound)

    @staticmethod
    def from_mujoco(model: Any, geom: int) -> "Hull":
        """The hull that MuJoCo collides for a mesh geom of a compiled model."""
        mesh = int(model.geom_dataid[geom])
        start = int(model.mesh_vertadr[mesh])
        vertices = np.asarray(model.mesh_vert[start : start + int(model.mesh_vertnum[mesh])], np.float64)
        radius = np.asarray(model.geom_rbound[geom])
        address = int(model.mesh_graphadr[mesh])
        if address < 0:  # Without a graph MuJoCo tries all corners in order: as if all were neighbours.
            n = len(vertices)
            return Hull(vertices, _padded([[j for j in range(n) if j != i] for i in range(n)]), radius)
        graph = np.asarray(model.mesh_graph[address:])
        n = int(graph[0])
        edge_start, number, edges = graph[2 : 2 + n], graph[2 + n : 2 + 2 * n], graph[2 + 2 * n :]
        lists = [list(edges[s : s + int(np.argmax(edges[s:] < 0))]) for s in edge_start]
        return Hull(vertices[number], _padded(lists), radius)

    @staticmethod
    def from_points(points: Any) -> "Hull":
        """The convex hull of points in the shape's frame."""
        from scipy.spatial import ConvexHull

        points = np.asarray(points, np.float64)
        found = ConvexHull(points, qhull_options="Qt")
        used = np.sort(found.vertices)
        renumbered = {int(old): new for new, old in enumerate(used)}
        lists: list[list[int]] = [[] for _ in used]
        for triangle in found.simplices:
            corners = [renumbered[int(i)] for i in triangle]
            for a in corners:
                lists[a] += [b for b in corners if b != a and b not in lists[a]]
        low, high = points.min(0), points.max(0)
        return Hull(points[used], _padded(lists), np.linalg.norm(np.maximum(-low, high)))


def _padded(lists: list[list[int]]) -> np.ndarray:
    """Rows of one length; the row's own number fills up."""
    most = max(map(len, lists))
    return np.array([[*row, *[i] * (most - len(row))] for i, row in enumerate(lists)], np.int32)


def corner(hull: Hull, number: Scalar) -> Vec3:
    """A corner of each lane's own."""
    return Vec3.from_array(jnp.asarray(hull.vertices)[number])


def climb(hull: Hull, direction: Vec3, start: Scalar) -> Scalar:
    """The number of the corner farthest along a direction, in the hull's frame.

    From the corner `start`, go to the neighbour that is farthest until none is farther. The neighbour first in order
    wins a tie, so ties end where they end in MuJoCo.
    """
    vertices, neighbours = jax.lax.stop_gradient(jnp.asarray(hull.vertices)), jnp.asarray(hull.neighbours)
    along = jax.lax.stop_gradient(direction)

    def height(number: Scalar) -> Scalar:
        v = vertices[number]
        extra = (1,) * (v.ndim - 1 - along.x.ndim)
        x, y, z = (c.reshape(c.shape + extra) for c in along)
        return x * v[..., 0] + y * v[..., 1] + z * v[..., 2]

    def improve(state: tuple[Scalar, Scalar, Scalar]) -> tuple[Scalar, Scalar, Scalar]:
        at, best, _ = state
        around = neighbours[at]
        heights = height(around)
        k = jnp.argmax(heights, -1)
        found = jnp.take_along_axis(heights, k[..., None], -1)[..., 0]
        higher = found > best
        to = jnp.take_along_axis(around, k[..., None], -1)[..., 0]
        return jnp.where(higher, to, at), jnp.where(higher, found, best), jnp.any(higher)

    at = jnp.broadcast_to(start, along.x.shape).astype(neighbours.dtype)
    return jax.lax.while_loop(lambda s: s[2], improve, (at, height(at), jnp.array(True)))[0]

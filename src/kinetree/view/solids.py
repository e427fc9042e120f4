"""Surfaces to draw: triangles with a normal at each corner. Primitives, and what a mesh makes of its faces."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

SMOOTH_COSINE = 0.8  # Corners whose vertex normal lies within 37° of the face are shaded smoothly; others are edges.


class Solid(NamedTuple):
    """Triangles of a surface."""

    points: np.ndarray  # (triangles, 3, 3), float32
    normals: np.ndarray  # (triangles, 3, 3), float32

    def placed(self, rotation: Any = None, position: Any = None) -> "Solid":
        """The same surface, turned and then moved."""
        points, normals = self
        if rotation is not None:
            turn = np.asarray(rotation, np.float32).T
            points, normals = points @ turn, normals @ turn
        if position is not None:
            points = points + np.asarray(position, np.float32)
        return Solid(points, normals)

    @property
    def bounds(self) -> np.ndarray:
        """Lowest and highest corner, (2, 3)."""
        corners = self.points.reshape(-1, 3)
        return np.array([corners.min(0), corners.max(0)]) if len(corners) else np.zeros((2, 3))

    @property
    def extents(self) -> np.ndarray:
        """Size along each axis."""
        return np.ptp(self.bounds, axis=0)

    @property
    def reach(self) -> float:
        """How far the surface reaches from the origin."""
        return float(np.linalg.norm(self.points.reshape(-1, 3), axis=1).max(initial=0.0))


def box(size: Any) -> Solid:
    """A box about the origin with these edges."""
    half = np.asarray(size, float) / 2
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * half
    quads = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
    faces = [t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))]
    return mesh(corners, faces, flat=True)


def _lathe(profile: list[tuple[float, float, float, float]], sides: int) -> Solid:
    """A surface of revolution about z. The profile is pairs of ends: radius, height, and their parts of the normal."""
    ends = np.array(profile, float).reshape(-1, 2, 4)
    turn = 2 * np.pi * np.arange(sides + 1) / sides
    c, s = np.cos(turn), np.sin(turn)

    def around(radius: np.ndarray, height: np.ndarray) -> np.ndarray:
        """(segments, 2 ends, sides + 1, 3)."""
        flat = np.broadcast_to(height[..., None], (*height.shape, sides + 1))
        return np.stack([radius[..., None] * c, radius[..., None] * s, flat], -1)

    def triangles(x: np.ndarray) -> np.ndarray:
        low, low_next, high, high_next = x[:, 0, :-1], x[:, 0, 1:], x[:, 1, :-1], x[:, 1, 1:]
        first, second = np.stack([low, low_next, high_next], 2), np.stack([low, high_next, high], 2)
        return np.concatenate([first.reshape(-1, 3, 3), second.reshape(-1, 3, 3)]).astype(np.float32)

    points, normals = triangles(around(ends[..., 0], ends[..., 1])), triangles(around(ends[..., 2], ends[..., 3]))
    area = np.linalg.norm(np.cross(points[:, 1] - points[:, 0], points[:, 2] - points[:, 0]), axis=1)
    kept = area > 1e-7 * max(float(area.max(initial=0.0)), 1e-30)  # triangles at a pole have no area
    return Solid(points[kept], normals[kept])


def _arc(radius: float, height: float, start: float, stop: float, steps: int) -> list[tuple[float, ...]]:
    """Part of a circle about (0, height), from one latitude to another."""
    at = np.linspace(start, stop, steps + 1)
    c, s = np.cos(at), np.sin(at)
    c[np.abs(c) < 1e-12] = 0.0
    stops = [(radius * a, height + radius * b, a, b) for a, b in zip(c, s, strict=True)]
    return [end for pair in pairwise(stops) for end in pair]


def sphere(radius: float, sides: int = 24) -> Solid:
    """A ball about the origin."""
    return _lathe(_arc(radius, 0.0, -np.pi / 2, np.pi / 2, max(4, sides // 2)), sides)  # type: ignore[arg-type]


def cylinder(radius: float, length: float, sides: int = 24) -> Solid:
    """A cylinder about z, its middle at the origin."""
    z = length / 2
    caps = [(0, -z, 0, -1), (radius, -z, 0, -1), (radius, -z, 1, 0), (radius, z, 1, 0), (radius, z, 0, 1), (0, z, 0, 1)]
    return _lathe(caps, sides)


def capsule(radius: float, length: float, sides: int = 24) -> Solid:
    """A capsule about z, its middle at the origin; `length` is without the caps."""
    z, steps = length / 2, max(2, sides // 4)
    side = [(radius, -z, 1, 0), (radius, z, 1, 0)]
    low, high = _arc(radius, -z, -np.pi / 2, 0, steps), _arc(radius, z, 0, np.pi / 2, steps)
    return _lathe([*low, *side, *high], sides)  # type: ignore[arg-type]


def ellipsoid(half_axes: Any, sides: int = 24) -> Solid:
    """An ellipsoid about the origin."""
    a = np.asarray(half_axes, np.float32)
    ball = sphere(1.0, sides)
    normals = ball.normals / a
    return Solid(ball.points * a, normals / np.linalg.norm(normals, axis=-1, keepdims=True))


def distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct rows of numbers: the first place of each, and the number of the distinct row for each row.

    They are compared by 64 mixed bits of each: sorting whole rows takes ten times as long.
    """
    key = np.zeros(len(rows), np.uint64)
    for column in (rows.astype(np.float64) + 0.0).T:  # -0 becomes 0
        key = (key ^ np.ascontiguousarray(column).view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(32)
    _, first, number = np.unique(key, return_index=True, return_inverse=True)
    return first, number


def mesh(vertices: Any, faces: Any, *, flat: bool = False) -> Solid:
    """The surface of a mesh, smooth except at its edges."""
    points = np.asarray(vertices, float)[np.asarray(faces, np.int64).reshape(-1, 3)]
    across = np.cross(points[:, 1] - points[:, 0], points[:, 2] - points[:, 0])  # twice the area long
    size = np.linalg.norm(across, axis=1)
    points, across = points[size > 0], across[size > 0]
    own = across / np.linalg.norm(across, axis=1, keepdims=True)
    normals = np.repeat(own[:, None], 3, 1)
    if not flat and len(points):
        corner = distinct(points.reshape(-1, 3))[1]
        weights = np.repeat(across, 3, 0)
        total = np.stack([np.bincount(corner, weights[:, k]) for k in range(3)], -1)
        total /= np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-30)
        mean = total[corner].reshape(-1, 3, 3)
        smooth = (mean * normals).sum(-1, keepdims=True) > SMOOTH_COSINE
        normals = np.where(smooth, mean, normals)
    return Solid(points.astype(np.float32), normals.astype(np.float32))


def box_around(solid: Solid) -> tuple[np.ndarray, np.ndarray]:
    """A small box around a surface: its centre, and three half edges as vectors, (3,) and (3, 3).

    Along the principal axes of the corners where that is the smaller box, as for a leg that leans; else along x, y, z.
    """
    corners = solid.points.reshape(-1, 3).astype(float)
    if not len(corners):
        return np.zeros(3), np.zeros((3, 3))
    principal = np.linalg.eigh(np.cov(corners.T))[1].T
    boxes = [(axes, (corners @ axes.T).min(0), (corners @ axes.T).max(0)) for axes in (np.eye(3), principal)]
    axes, low, high = min(boxes, key=lambda found: float(np.prod(found[2] - found[1] + 1e-9)))
    return (low + high) / 2 @ axes, (high - low)[:, None] / 2 * axes


def simplified(solid: Solid, triangles: int) -> Solid:
    """The surface with a limited number of triangles: corners in the same cell of a grid become one."""
    if len(solid.points) <= triangles:
        return solid
    low, size = solid.bounds[0], np.maximum(solid.extents, 1e-30)  # as many cells along a thin side as along a long one
    cells = max(2, int(np.sqrt(triangles / 2)))  # A closed surface meets about cells² cells, with two triangles each.
    while True:
        grid = np.floor((solid.points - low) / size * cells * 0.999).astype(np.int64)
        key = (grid[..., 0] * (cells + 1) + grid[..., 1]) * (cells + 1) + grid[..., 2]
        _, corner = np.unique(key, return_inverse=True)
        corner = corner.reshape(key.shape)
        flat = corner.ravel()
        count = np.bincount(flat)
        centre = np.stack([np.bincount(flat, solid.points.reshape(-1, 3)[:, k]) / count for k in range(3)], -1)
        whole = (corner[:, 0] != corner[:, 1]) & (corner[:, 1] != corner[:, 2]) & (corner[:, 0] != corner[:, 2])
        faces = corner[whole]
        first = distinct(np.sort(faces, 1))[0]
        if len(first) <= triangles or cells <= 2:
            return mesh(centre, faces[np.sort(first)])
        cells = max(2, min(cells - 1, int(cells * np.sqrt(triangles / len(first)))))

"""Directions sorted into the cells of a cube's faces: a table by direction that a lane looks up in a few operations."""

from functools import reduce
from typing import Any

import jax.numpy as jnp
import numpy as np

from kinetree.spatial import Vec3

SIDE = (
    16  # cells along an edge: three to five corners may be farthest in a cell, of 40 to 1 000 that hulls of robots have
)
CELLS = 6 * SIDE * SIDE


def _grid(ticks: np.ndarray) -> list[np.ndarray]:
    """For each face of the cube, (n, n, 3): its points with those coordinates. Faces are +x, −x, +y, −y, +z, −z."""
    u, v = np.meshgrid(ticks, ticks, indexing="ij")
    faces = [np.stack((sign * np.ones_like(u), u, v), -1) for sign in (1, -1)]
    return [np.roll(face, axis, -1) for axis in range(3) for face in faces]


def directions() -> np.ndarray:
    """(cells, 3): the middle of each cell, not normalised."""
    return np.concatenate(_grid((2 * np.arange(SIDE) + 1) / SIDE - 1)).reshape(-1, 3)


def may_be_farthest(points: np.ndarray, slack: float) -> tuple[np.ndarray, np.ndarray]:
    """Cells and points, in order, of all points that may be the farthest along a direction of a cell.

    Those that are no more than `slack` short of it count, too. On a face of the cube the height of a point along a
    direction is linear, so its values at the four corners of a cell bound it. A point is out where another one, of a
    few good ones, is higher at all four. None is left out that should not be; some may be left in.
    """
    slack = slack * np.sqrt(3.0)  # directions of the cube are up to so long
    middles = np.argmax(directions() @ points.T, 1).reshape(6, SIDE * SIDE)
    quarters = [(slice(i, SIDE + i), slice(j, SIDE + j)) for i in (0, 1) for j in (0, 1)]
    cells, numbers = [], []
    for face, (grid, middle) in enumerate(zip(_grid(np.linspace(-1, 1, SIDE + 1)), middles, strict=True)):
        height = grid @ points.T
        top = np.argmax(height, -1)
        at = [height[q].reshape(SIDE * SIDE, -1) for q in quarters]
        certain = reduce(np.minimum, at).max(1)  # In the whole cell some point is as high as this.
        cell, number = np.nonzero(reduce(np.maximum, at) >= certain[:, None] - slack)
        may = np.ones(len(cell), bool)
        for good in (middle, *(top[q].ravel() for q in quarters)):
            may &= reduce(np.logical_or, (h[cell, number] >= h[cell, good[cell]] - slack for h in at))
        cells.append(cell[may] + face * SIDE * SIDE)
        numbers.append(number[may])
    return np.concatenate(cells), np.concatenate(numbers)


def cell_of(d: Vec3) -> Any:
    """The number of the cell that a direction points at."""
    x, y, z = (jnp.abs(c) for c in d)
    by_x, by_y = (x >= y) & (x >= z), y >= z
    ahead, u, v = (
        jnp.where(by_x, a, jnp.where(by_y, b, c)) for a, b, c in ((d.x, d.y, d.z), (d.y, d.z, d.x), (d.z, d.x, d.y))
    )
    size = jnp.abs(ahead)
    scale = (SIDE / 2) / jnp.where(size > 0, size, 1.0)
    row, column = (jnp.clip((c * scale + SIDE / 2).astype(jnp.int32), 0, SIDE - 1) for c in (u, v))
    axis = jnp.where(by_x, 0, jnp.where(by_y, 2, 4)).astype(jnp.int32)
    return ((axis + (ahead < 0).astype(jnp.int32)) * SIDE + row) * SIDE + column

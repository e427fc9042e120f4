"""Directions sorted into the cells of a cube's faces: a table by direction that a lane looks up in a few operations."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from kinetree.spatial import Vec3

SIDE = 8  # cells along an edge; hulls of robots have 40 to 1 000 corners
CELLS = 6 * SIDE * SIDE


def directions() -> np.ndarray:
    """(cells, 3): the middle of each cell, not normalised. Faces are +x, −x, +y, −y, +z, −z."""
    middle = (2 * np.arange(SIDE) + 1) / SIDE - 1
    u, v = (x.ravel() for x in np.meshgrid(middle, middle, indexing="ij"))
    one = np.ones_like(u)
    faces = [(sign * one, u, v) for sign in (1, -1)]
    return np.concatenate([np.roll(np.stack(face, 1), axis, 1) for axis in range(3) for face in faces])


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

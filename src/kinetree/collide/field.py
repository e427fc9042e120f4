"""Height fields: a grid of heights over a rectangle, and below each of its triangles a prism (mjc_ConvexHField).

A shape over a field is collided with the prisms of a patch of cells under it. The patch begins at the first cell under
the shape's bounding box. How many cells it has is known from the sizes of both (`patch_of`), so each cell is a pair of
its own, with one point: the `size` of a field, in a pair, is the row and the column of a cell in the patch, and which
of the two triangles of the cell is meant.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.lanes.program.alone import get, whole
from kinetree.spatial import Scalar, Vec3

from .convex import convex
from .pool import place_of
from .shapes import Contact, Geom
from .solids import UNIT_BOX, farthest_corner, search_of
from .support import core_radius, support

MAX_CELLS = 500  # cells of the patch under one shape; `kt.load` warns about shapes that cover more
Cell = tuple[int, int, int]  # row and column in the patch, and which triangle


class HeightField(NamedTuple):
    """Heights on a grid over the rectangle from (−x, −y) to (x, y); prisms reach down to −base."""

    half: Any  # (4,): x, y, the largest height, base
    count: Any  # (2,): rows (along y) and columns (along x)
    heights: Any  # (rows, columns): 0 to 1, times the largest height
    radius: Any  # of a ball about the origin that holds it

    @staticmethod
    def make(half: Any, heights: Any) -> "HeightField":
        """From x, y, largest height and base, and heights (rows, columns) between 0 and 1."""
        half, heights = np.asarray(half, np.float64), np.asarray(heights, np.float64)
        count = np.array(heights.shape, np.int32)
        return HeightField(half, count, heights, np.asarray(np.linalg.norm([*half[:2], max(half[2:])])))

    @staticmethod
    def from_mujoco(m: Any, geom: int) -> "HeightField":
        """The field of a geom of a compiled model."""
        field = int(m.geom_dataid[geom])
        rows, columns, start = int(m.hfield_nrow[field]), int(m.hfield_ncol[field]), int(m.hfield_adr[field])
        heights = np.asarray(m.hfield_data[start : start + rows * columns], np.float64).reshape(rows, columns)
        return HeightField.make(m.hfield_size[field], heights)


def patch_of(field: HeightField, radius: float) -> list[Cell]:
    """The cells that a shape within a ball may be over, in MuJoCo's order."""
    rows, columns = (int(n) for n in np.asarray(field.count))
    x, y = (float(h) for h in np.asarray(field.half)[:2])
    wide = min(math.ceil(2 * radius / (2 * x / (columns - 1))) + 1, columns - 1)
    high = min(math.ceil(2 * radius / (2 * y / (rows - 1))) + 1, rows - 1)
    return [(r, c, half) for r in range(high) for c in range(wide) for half in (0, 1)]


class _Grid(NamedTuple):
    """One field of a pool. One lane at a time."""

    numbers: Any
    at: Any

    def half(self, k: int) -> Scalar:
        return get(self.numbers, place_of(HeightField, self.numbers, self.at, "half")[0] + k)

    def count(self, k: int) -> Any:
        return whole(get(self.numbers, place_of(HeightField, self.numbers, self.at, "count")[0] + k))

    def height(self, row: Any, column: Any) -> Scalar:
        first, width = place_of(HeightField, self.numbers, self.at, "heights")
        return get(self.numbers, first + row * width + column)


def prism_of(kind: str, field: Geom, other: Geom, margin: Scalar) -> tuple[Geom, Any]:
    """The prism of a cell as a shape in the world, and True if it is under the other shape. One lane."""
    grid = _Grid(field.hull, field.which)
    rows, columns = grid.count(0), grid.count(1)
    x, y, top, base = (grid.half(k) for k in range(4))
    zero, one = jnp.zeros_like(x), jnp.ones_like(x)
    number, search = rows.dtype, search_of(kind, other)

    def reach(d: Vec3) -> Scalar:
        """The extent of the other shape along an axis of the field."""
        along = field.rotation @ d
        which = farthest_corner(kind, search, other.rotation.t_mul(along)).number
        corner = which if search is None else search.corner(which)
        far = support(kind, other, along, corner) - field.position
        return far.dot(along) + core_radius(kind, other)

    east, north, up = Vec3(one, zero, zero), Vec3(zero, one, zero), Vec3(zero, zero, one)

    def cells(low: Scalar, high: Scalar, half: Scalar, count: Any) -> tuple[Any, Any]:
        """The first cell under a stretch, and the last one after it."""
        scale = (count - 1).astype(half.dtype) / (2 * half)
        first = jnp.floor((low + half) * scale).astype(number)
        last = jnp.ceil((high + half) * scale).astype(number)
        return jnp.maximum(first, 0), jnp.minimum(last, count - 1)

    column, last_column = cells(-reach(-east) - margin, reach(east) + margin, x, columns)
    row, last_row = cells(-reach(-north) - margin, reach(north) + margin, y, rows)
    lowest = -reach(-up) - margin
    row, column, half = row + whole(field.size.x), column + whole(field.size.y), whole(field.size.z)
    there = (row < last_row) & (column < last_column)
    row, column = jnp.clip(row, 0, rows - 2), jnp.clip(column, 0, columns - 2)
    step_x, step_y = 2 * x / (columns - 1).astype(x.dtype), 2 * y / (rows - 1).astype(x.dtype)
    # Triangles of a cell: two corners on the left and the upper right one, or the lower left and two on the right.
    corners = ((row + 1 - half, column), (row + half, column + half), (row + 1 - half, column + 1))
    tops = [
        Vec3(
            c.astype(x.dtype) * step_x - x,
            r.astype(x.dtype) * step_y - y,
            grid.height(r, c) * top,
        )
        for r, c in corners
    ]
    reaches = tops[0].z >= lowest
    for p in tops[1:]:
        reaches = reaches | (p.z >= lowest)
    below = [Vec3(p.x, p.y, -base) for p in tops]
    middle = (tops[0] + tops[1] + tops[2] + below[0] + below[1] + below[2]) * (1 / 6)
    solid = tuple(p - middle for p in (*below, *tops))
    prism = Geom(field.rotation @ middle + field.position, field.rotation, field.size, corners=solid)
    return prism, there & reaches


def field_collider(kind: str) -> Callable[[Geom, Geom, Scalar], tuple[Contact, ...]]:
    """The collider of one cell of a height field and a convex shape."""
    collide_prism = convex("prism", kind, single=True)

    def collide(field: Geom, other: Geom, margin: Scalar) -> tuple[Contact, ...]:
        if kind == "box" and other.hull is None:
            other = other._replace(hull=UNIT_BOX)
        field, other = field.with_hulls(), other.with_hulls()
        hulls = field.hull, other.hull
        loose = field._replace(hull=None), other._replace(hull=None)
        shape = jnp.broadcast_shapes(*(jnp.shape(x) for x in jax.tree.leaves((loose, margin))))

        def one(a: Geom, b: Geom, margin: Scalar) -> tuple[Geom, Any]:
            return prism_of(kind, a._replace(hull=hulls[0]), b._replace(hull=hulls[1]), margin)

        if shape == ():
            prism, there = one(*loose, margin)
        else:
            lanes = jax.tree.map(lambda x: jnp.broadcast_to(x, shape).reshape(-1), (*loose, jnp.asarray(margin)))
            prism, there = jax.tree.map(lambda x: x.reshape(shape), jax.vmap(one)(*lanes))
        (found,) = collide_prism(prism, other, margin)
        return (found._replace(distance=jnp.where(there, found.distance, jnp.inf)),)

    return collide

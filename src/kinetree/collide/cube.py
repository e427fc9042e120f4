"""Directions sorted into the cells of a cube's faces: a table by direction that a lane looks up in a few operations.

Each face has SIDE × SIDE cells. Where very many points may be the farthest along a direction of a cell, it is divided
into FINER × FINER smaller ones, and those again, up to DEPTH times.
"""

from functools import reduce
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from kinetree.spatial import Vec3

# Cells along an edge. Hulls of robots have 40 to 1 000 corners; of these, three to five may be the farthest in a cell.
SIDE = 16
CELLS = 6 * SIDE * SIDE
# Hulls of 1 000 to 5 000 corners have 30 to 480 crowded cells. Divided in this way, less than one cell stays crowded.
FINER = 8
DEPTH = 2
TOGETHER = 1 << 19  # numbers that are computed at a time: heights of points along directions, 4 MB


class Squares(NamedTuple):
    """Squares on the faces +x, −x, +y, −y, +z, −z of a cube, all of one size."""

    face: np.ndarray  # (n,)
    low: np.ndarray  # (n, 2) the corner of least coordinates
    size: float

    def grid(self, ticks: np.ndarray) -> np.ndarray:
        """(n, m, m, 3): directions to points of each, at m ticks from 0 to 1 both ways."""
        u, v = (self.low[:, k, None] + self.size * ticks for k in (0, 1))
        u, v = np.broadcast_arrays(u[:, :, None], v[:, None, :])
        face = self.face[:, None, None]
        axes = (np.arange(3) - face[..., None] // 2) % 3
        return np.take_along_axis(np.stack((1.0 - 2 * (face % 2) + 0 * u, u, v), -1), axes, -1)

    def __getitem__(self, which: Any) -> "Squares":
        return Squares(self.face[which], self.low[which], self.size)

    def cells(self, which: np.ndarray, side: int) -> "Squares":
        """Some of the cells of all, `side` × `side` of each."""
        square, place = np.divmod(which, side * side)
        size = self.size / side
        return Squares(self.face[square], self.low[square] + size * np.stack(np.divmod(place, side), -1), size)


FACES = Squares(np.arange(6), np.full((6, 2), -1.0), 2.0)


def directions() -> np.ndarray:
    """(cells, 3): the middle of each cell, not normalised."""
    return FACES.grid((np.arange(SIDE) + 0.5) / SIDE).reshape(-1, 3)


class CellLists(NamedTuple):
    """Which points may be the farthest along a direction of each cell, or tie with those."""

    count: np.ndarray  # (cells,) how many points each has
    numbers: np.ndarray  # of the points, cell by cell
    middle: np.ndarray  # (cells,) one that is farthest along the middle of the cell
    finer: np.ndarray  # (cells,) the first of the smaller cells of one that is divided, which has no points; else 0


def _may_be_farthest(grid: np.ndarray, points: np.ndarray, count: np.ndarray, slack: float) -> tuple:
    """Cells and points, in order, of all points that may be the farthest along a direction of a cell; and `middle`.

    Points that are lower by at most `slack` count, too. On a face of the cube the height of a point along a direction
    is linear, so its values at the four corners of a cell bound it. A point is left out if another one (of a few
    candidates) is higher at all four corners. So no point is left out wrongly, but some are kept without need.

    Arguments:
        grid: (squares, n + 1, n + 1, 3) corners of the cells of some squares.
        points: (squares, m, 3) those of each square.
        count: (squares,) how many of them are real; the others are padding.
    """
    slack = slack * np.sqrt(3.0)  # points of the cube are up to √3 from its middle
    squares, n, most = len(grid), grid.shape[1] - 1, points.shape[1]
    height = (grid.reshape(squares, -1, 3) @ points.swapaxes(1, 2)).reshape(squares, n + 1, n + 1, most)
    if (count < most).any():
        height += np.where(np.arange(most) < count[:, None], 0.0, -np.inf)[:, None, None]
    quarters = [np.s_[:, i : n + i, j : n + j] for i in (0, 1) for j in (0, 1)]
    top, at = np.argmax(height, -1), [height[q].reshape(-1, most) for q in quarters]
    middle = np.argmax(reduce(np.add, at), 1)
    certain = reduce(np.minimum, at).max(1)  # In the whole cell some point is as high as this.
    cell, number = np.nonzero(reduce(np.maximum, at) >= certain[:, None] - slack)
    may = np.ones(len(cell), bool)
    for good in (middle, *(top[q].ravel() for q in quarters)):
        may &= reduce(np.logical_or, (h[cell, number] >= h[cell, good[cell]] - slack for h in at))
    return cell[may], number[may], middle


def _of_cells(
    squares: Squares, side: int, points: np.ndarray, near: list[np.ndarray], slack: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`count`, `numbers` and `middle` of the cells of some squares; `near` are numbers of points that may count."""
    lengths, ticks = np.array([len(x) for x in near]), np.linspace(0, 1, side + 1)
    found, begin = [], 0
    while begin < len(near):
        room = max(1, TOGETHER // (lengths[begin:].max() * (side + 1) ** 2))
        part = slice(begin, begin + room)
        most = lengths[part].max()
        own = np.array([np.pad(x, (0, most - len(x)), mode="edge") for x in near[part]])
        cell, number, middle = _may_be_farthest(squares[part].grid(ticks), points[own], lengths[part], slack)
        square = np.arange(len(middle)) // side**2
        counts = np.bincount(cell, minlength=len(middle))
        found.append((counts, own[square[cell], number], own[square, middle]))
        begin += room
    counts, numbers, middles = (np.concatenate(x) for x in zip(*found, strict=True))
    return counts, numbers, middles


def may_be_farthest(points: np.ndarray, slack: float, most: int) -> CellLists:
    """CellLists for all cells, those of the faces first. Where there are more than `most` points, a cell is divided."""
    squares, side, near, found, before = FACES, SIDE, [np.arange(len(points))] * 6, [], 0
    for depth in range(DEPTH + 1):
        count, numbers, middle = _of_cells(squares, side, points, near, slack)
        crowded = (count > most) & (depth < DEPTH)
        before += len(count)
        finer = np.where(crowded, before + (np.cumsum(crowded) - 1) * FINER**2, 0)
        lists = np.split(numbers, np.cumsum(count)[:-1])
        which = np.flatnonzero(crowded)
        near = [lists[c] for c in which]
        found.append(CellLists(np.where(crowded, 0, count), numbers[~np.repeat(crowded, count)], middle, finer))
        if not near:
            break
        squares, side = squares.cells(which, side), FINER
    return CellLists(*(np.concatenate(x) for x in zip(*found, strict=True)))


class Cell(NamedTuple):
    """A cell by its number, and where in it a direction points, from 0 to 1 both ways."""

    number: Any
    u: Any
    v: Any

    @staticmethod
    def of(d: Vec3) -> "Cell":
        """The cell of a face that a direction points at."""
        x, y, z = (jnp.abs(c) for c in d)
        by_x, by_y = (x >= y) & (x >= z), y >= z
        ahead, u, v = (
            jnp.where(by_x, a, jnp.where(by_y, b, c)) for a, b, c in ((d.x, d.y, d.z), (d.y, d.z, d.x), (d.z, d.x, d.y))
        )
        size = jnp.abs(ahead)
        scale = 0.5 / jnp.where(size > 0, size, 1.0)
        axis = jnp.where(by_x, 0, jnp.where(by_y, 2, 4)).astype(jnp.int32)
        face = axis + (ahead < 0).astype(jnp.int32)
        return Cell(face * (SIDE * SIDE), u * scale + 0.5, v * scale + 0.5).part(SIDE)

    def part(self, side: int, first: Any = None) -> "Cell":
        """The cell, of `side` × `side` in this one, where the direction points; `first` is the number of the first."""
        first = self.number if first is None else first
        ends = [jnp.clip((c * side).astype(jnp.int32), 0, side - 1) for c in (self.u, self.v)]
        u, v = (c * side - k.astype(c.dtype) for c, k in zip((self.u, self.v), ends, strict=True))
        return Cell(first + ends[0] * side + ends[1], u, v)

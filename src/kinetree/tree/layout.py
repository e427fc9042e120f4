"""Layouts: the order in which the rows of a tree are visited, and how many at a time.

A layout packs the rows into grids of `steps × width`. All lanes of a grid advance together, one row a step; a lane
holds consecutive rows of one heavy path. A lane starts from the row before its first one: in an earlier grid, or,
where a long path was cut into several lanes of one grid, in the lane before it (`rank` counts the lanes of a run from
0). Then
    sequential   is grids of 1 × 1 (and an empty lane beside, see GRID_MIN_WIDTH),
    levels       is grids of 1 × width,
    paths        is grids of steps × width with runs where paths are long, of 1 × width elsewhere,
and one executor (fix.py) serves them all. Positions count the cells of all grids in order of visit; position 0 is the
base.
"""

from dataclasses import dataclass, field
from functools import lru_cache

import jax
import numpy as np

from kinetree._unknown import unknown

from . import tuning
from .topology import Tree


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Grid:
    """`count` grids of one shape, visited one after the other."""

    source: np.ndarray  # (count, width): position each lane (or the run it belongs to) starts from
    rank: np.ndarray  # (count, width): how many lanes of the same run come before
    run: np.ndarray  # (count, width): how many lanes the run has
    valid: np.ndarray  # (count, steps, width): False for the cells that hold no row
    offset: int = field(metadata={"static": True})  # position of the first cell
    longest_run: int = field(metadata={"static": True})

    @property
    def shape(self) -> tuple[int, int, int]:
        """(count, steps, width)."""
        return self.valid.shape  # type: ignore[return-value]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Layout:
    """All rows of a tree, packed."""

    grids: tuple[Grid, ...]
    row_at: np.ndarray  # (positions,): the row in each cell; some row, to be ignored, where there is none
    position_of: np.ndarray  # (n,): where each row is
    schedule: str = field(metadata={"static": True})

    @property
    def positions(self) -> int:
        """Cells of all grids, and the base."""
        return self.row_at.shape[0]


def _place(rows: np.ndarray, offset: int, position_of: np.ndarray) -> None:
    cells = rows.reshape(-1)
    filled = np.flatnonzero(cells >= 0)
    position_of[cells[filled]] = offset + filled


def _tile_width(widths: np.ndarray, widest: int) -> int:
    """The power of two that visits levels of these widths at the least cost."""
    candidates = tuning.GRID_MIN_WIDTH << np.arange(max(1, int(widest).bit_length()))
    costs = [(np.ceil(widths / w) * (w + tuning.GRID_START_ROWS)).sum() for w in candidates]
    return int(candidates[int(np.argmin(costs))])


def _pack_levels(rows: np.ndarray, level: np.ndarray, width: int | None) -> np.ndarray:
    """Rows, sorted by level, as (count, 1, width), with −1 after the end of a level."""
    order = np.argsort(level, kind="stable")
    rows, level = rows[order], level[order]
    widths = np.bincount(level)
    width = width or _tile_width(widths, int(widths.max()))
    tiles = -(-widths // width)
    first_cell = np.concatenate([[0], np.cumsum(tiles)[:-1]]) * width
    first_row = np.concatenate([[0], np.cumsum(widths)[:-1]])
    cells = np.full(int(tiles.sum()) * width, -1, np.int64)
    cells[first_cell[level] + np.arange(len(rows)) - first_row[level]] = rows
    return cells.reshape(-1, 1, width)


def _pack_chunks(tree: Tree, paths: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Long paths cut into lanes: rows as (count, steps, width), rank and run of each lane as (count, width)."""
    start, length = tree.path_start[paths], np.diff(tree.path_start)[paths]
    steps = int(max(tuning.LONG_PATH_MIN_ROWS // 2, -(-int(length.sum()) // width)))
    lanes = -(-length // steps)
    total = int(lanes.sum())
    width = min(total, width + len(paths))
    count = -(-total // width)
    path_of_lane = np.repeat(np.arange(len(paths)), lanes)
    number = np.arange(total) - np.repeat(np.cumsum(lanes) - lanes, lanes)  # of the lane within its path
    index = start[path_of_lane][:, None] + number[:, None] * steps + np.arange(steps)
    inside = number[:, None] * steps + np.arange(steps) < length[path_of_lane][:, None]
    cells = np.full((count * width, steps), -1, np.int64)
    cells[:total] = np.where(inside, tree.path_list[np.where(inside, index, 0)], -1)
    # a run ends with its path and with its grid
    run_id = np.full(count * width, -1, np.int64)
    run_id[:total] = path_of_lane
    grid_of = np.arange(count * width) // width
    first = np.ones(count * width, bool)
    first[1:] = (run_id[1:] != run_id[:-1]) | (grid_of[1:] != grid_of[:-1]) | (run_id[1:] < 0)
    leader = np.maximum.accumulate(np.where(first, np.arange(count * width), 0))
    rank = np.arange(count * width) - leader
    run = np.bincount(leader, minlength=count * width)[leader]
    rows = cells.reshape(count, width, steps).swapaxes(1, 2)
    return rows, rank.reshape(count, width), run.reshape(count, width)


def _grid(
    tree: Tree, rows: np.ndarray, rank: np.ndarray, run: np.ndarray, offset: int, position_of: np.ndarray
) -> Grid:
    first = rows[:, 0, :]
    leader = np.arange(first.shape[1]) - rank  # every lane of a run starts from where its first lane starts
    head = np.take_along_axis(first, leader, 1)
    parent = np.where(head >= 0, tree.parent[np.maximum(head, 0)], -1)
    source = np.where(parent >= 0, position_of[np.maximum(parent, 0)], 0)
    return Grid(
        source.astype(np.int32), rank.astype(np.int32), run.astype(np.int32), rows >= 0, offset, int(run.max(initial=1))
    )


def _finish(tree: Tree, blocks: list[tuple[np.ndarray, np.ndarray, np.ndarray]], schedule: str) -> Layout:
    position_of = np.zeros(tree.n, np.int64)
    row_at, grids, offset = [np.zeros(1, np.int64)], [], 1
    for rows, rank, run in blocks:
        _place(rows, offset, position_of)
        grids.append(_grid(tree, rows, rank, run, offset, position_of))
        row_at.append(np.maximum(rows, 0).reshape(-1))
        offset += rows.size
    return Layout(tuple(grids), np.concatenate(row_at).astype(np.int32), position_of.astype(np.int32), schedule)


def _unlinked(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    shape = (rows.shape[0], rows.shape[2])
    return rows, np.zeros(shape, np.int64), np.ones(shape, np.int64)


def phases(tree: Tree, long: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each path its phase (odd for long ones), and the level of its head within an even phase.

    A path is visited after the one it hangs from. Long paths that hang from one another, at most log2 n of them, are
    what makes phases; everything else shares them.
    """
    head_parent = tree.parent[tree.path_list[tree.path_start[:-1]]]
    place = np.arange(tree.n) - np.repeat(tree.path_start[:-1], np.diff(tree.path_start))  # along path_list
    place_of = np.empty(tree.n, np.int64)
    place_of[tree.path_list] = place
    phase = np.zeros(len(long), np.int64)
    level = np.zeros(len(long), np.int64)
    for rank in range(int(tree.path_rank.max(initial=0)) + 1):
        paths = np.flatnonzero(tree.path_rank == rank)
        p = head_parent[paths]
        above = np.where(p >= 0, phase[tree.path_of[np.maximum(p, 0)]], 0)
        phase[paths] = np.where(long[paths], above + 1 + above % 2, above + above % 2)
        joined = (p >= 0) & (phase[paths] == above) & ~long[paths]
        level[paths] = np.where(joined, level[tree.path_of[np.maximum(p, 0)]] + place_of[np.maximum(p, 0)] + 1, 0)
    return phase, level


def long_paths(tree: Tree) -> np.ndarray:
    """For each path: True if it is cut into chunks.

    If one step for each level costs no more than the rows themselves, cuts would only make more grids to compile.
    """
    bushy = tuning.GRID_START_ROWS * tree.height <= 2 * tree.n
    return (np.diff(tree.path_start) >= tuning.LONG_PATH_MIN_ROWS) & ~np.bool_(bushy)


def paths_layout(tree: Tree, width: int = 1024) -> Layout:
    """Heavy paths: long ones cut into up to `width` lanes, short ones, and bushy trees as a whole, level by level."""
    length = np.diff(tree.path_start)
    phase, level = phases(tree, long_paths(tree))
    place = np.arange(tree.n) - np.repeat(tree.path_start[:-1], length)
    row_phase = np.repeat(phase, length)
    row_level = np.repeat(level, length) + place
    blocks = []
    for k in range(int(phase.max(initial=0)) + 1):
        if k % 2:
            blocks.append(_pack_chunks(tree, np.flatnonzero(phase == k), width))
        elif (inside := np.flatnonzero(row_phase == k)).size:
            rows = tree.path_list[inside]
            by_number = np.argsort(rows, kind="stable")
            blocks.append(_unlinked(_pack_levels(rows[by_number], row_level[inside][by_number], None)))
    return _finish(tree, blocks, "paths")


def levels_layout(tree: Tree, width: int | None = None) -> Layout:
    """One depth after the other."""
    blocks = [_unlinked(_pack_levels(np.arange(tree.n), tree.depth, width))] if tree.n else []
    return _finish(tree, blocks, "levels")


def sequential_layout(tree: Tree) -> Layout:
    """One row after the other."""
    rows = np.full((tree.n, 1, tuning.GRID_MIN_WIDTH), -1, np.int64)
    rows[:, 0, 0] = np.arange(tree.n)
    return _finish(tree, [_unlinked(rows)] if tree.n else [], "sequential")


@lru_cache(maxsize=64)
def layout(tree: Tree, schedule: str) -> Layout:
    """The layout of a schedule, made once for each tree."""
    make = {"sequential": sequential_layout, "levels": levels_layout, "paths": paths_layout}
    if schedule not in make:
        raise ValueError(unknown("schedule", schedule, make) + " (euler has no layout)")
    return make[schedule](tree)

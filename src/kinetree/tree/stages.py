"""Stages: a tree as a few walks of many lanes, for native code.

Long heavy paths are cut into chunks, one lane to a chunk. The other rows, and bushy trees as a whole, are taken level
by level, one lane to a row. If there would be many levels, all paths become lanes, those of one rank side by side: at
most log2 n stages. A lane starts where it hangs from an earlier stage. A level hangs from the level before it, lane by
lane, which stores its children. A chunk that is not the `first` of its run follows the chunk before it. The grids of a
layout (layout.py) have few shapes, for loops of XLA; here every stage has its own shape.
"""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import tuning
from .layout import long_paths, phases
from .topology import Tree


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Stage:
    """Rows as (turns, lanes), −1 where there is none."""

    rows: np.ndarray
    above: np.ndarray  # (lanes,): where the lane, or its run, hangs: a lane of the stage before, else a position
    first: np.ndarray  # (lanes,): True if the lane begins a run
    children: tuple[np.ndarray, ...]  # of (lanes,) each: lanes of the next stage that hang from it, −1 for none
    offset: int = field(metadata={"static": True})  # position of the first cell; position 0 is the base
    chained: bool = field(metadata={"static": True})  # hangs from the stage before alone, lane by lane
    remembered: bool = field(metadata={"static": True})  # True if lanes of later stages hang from its cells
    cut: bool = field(metadata={"static": True})  # True if some lanes follow one another
    start: int | None = field(metadata={"static": True})  # its first row, where its lanes hold all from there in order

    @property
    def cells(self) -> slice:
        """Its positions."""
        return slice(self.offset, self.offset + self.rows.size)

    def arrange(self, x: Any) -> Any:
        """Values of rows, (n,), as (turns, lanes), with any value for padding. Rows in order need no gather."""
        if self.start is None:
            return x[jnp.maximum(self.rows, 0)]
        turns, lanes = self.rows.shape
        missing = max(0, self.start + turns * lanes - x.shape[0])
        return jnp.pad(x, (0, missing), mode="edge")[self.start : self.start + turns * lanes].reshape(lanes, turns).T


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Stages:
    """All rows of a tree."""

    stages: tuple[Stage, ...]
    position_of: np.ndarray  # (n,)
    bases: int = field(default=1, metadata={"static": True})  # a part of a tree hangs from several rows (dealt.py)

    @property
    def positions(self) -> int:
        """Cells of all stages, and the bases, which come first."""
        return self.bases + sum(s.rows.size for s in self.stages)


def chunks(listed: np.ndarray, start: np.ndarray, length: np.ndarray, lanes: int) -> tuple[np.ndarray, np.ndarray]:
    """Paths cut into about `lanes` lanes, or more if the paths are short: rows, and which lanes begin a path.

    Path k is `listed[start[k]:start[k] + length[k]]`.
    """
    total = int(length.sum())
    turns = min(max(tuning.CHUNK_MIN_TURNS, -(-total // lanes)), int(length.max()))
    while turns > tuning.CHUNK_MIN_TURNS and (-(-length // turns) * turns).sum() > tuning.MAX_CELLS_PER_ROW * total:
        turns = max(tuning.CHUNK_MIN_TURNS, turns // 2)
    count = -(-length // turns)
    path = np.repeat(np.arange(len(length)), count)
    number = np.arange(len(path)) - np.repeat(np.cumsum(count) - count, count)  # of the lane within its path
    place = number * turns + np.arange(turns)[:, None]
    inside = place < length[path]
    rows = np.where(inside, listed[np.where(inside, start[path] + place, 0)], -1)
    return rows, number == 0


def _start(rows: np.ndarray) -> int | None:
    """The first row, if lanes hold consecutive rows one after the other, perhaps fewer than there are cells."""
    in_order = rows.T.reshape(-1)
    count = int((in_order >= 0).sum())
    regular = (in_order[:count] == rows[0, 0] + np.arange(count)).all() and (in_order[count:] < 0).all()
    return int(rows[0, 0]) if regular else None


def _levels(rows: np.ndarray, level: np.ndarray) -> list[np.ndarray]:
    """Rows of each level."""
    order = np.lexsort((rows, level))
    return np.split(rows[order], np.flatnonzero(np.diff(level[order])) + 1)


def _children(parent_lane: np.ndarray, lanes: int) -> tuple[np.ndarray, ...] | None:
    """For lanes in order, the lanes of the next level that hang from each; None if some have too many.

    As many as a power of two, so that few different walks are compiled.
    """
    count = np.bincount(parent_lane, minlength=lanes)
    most = int(count.max(initial=0))
    if most > tuning.MAX_CHILDREN:
        return None
    start = np.cumsum(count) - count
    sources = 1 << max(0, most - 1).bit_length()
    return tuple(np.where(k < count, start + k, -1).astype(np.int32) for k in range(sources))


def _phases(tree: Tree, levels: int) -> tuple[np.ndarray, np.ndarray]:
    """The phase of each path, odd where it is cut into chunks, and its level within an even one."""
    length = np.diff(tree.path_start)
    phase, level = phases(tree, long_paths(tree))
    count = np.arange(int(phase.max(initial=0)) + 1) % 2  # of stages in each phase
    np.maximum.at(count, phase, np.where(phase % 2, 1, level + length))
    every_path = levels * (int(tree.path_rank.max(initial=0)) + 1) < count.sum()
    return phases(tree, np.ones(len(length), bool)) if every_path else (phase, level)


def stages(tree: Tree, lanes: int, levels: int = 4) -> Stages:
    """The stages of a tree, with chunks for about `lanes` lanes.

    `levels`: the number of levels that cost as much as one stage of chunks.
    """
    length = np.diff(tree.path_start)
    phase, level = _phases(tree, levels)
    place = np.arange(tree.n) - np.repeat(tree.path_start[:-1], length)
    row_phase, row_level = np.repeat(phase, length), np.repeat(level, length) + place
    position_of, lane_of = np.zeros(tree.n, np.int64), np.zeros(tree.n, np.int64)
    made: list[dict] = []
    offset = 1

    def add(rows: np.ndarray, first: np.ndarray, chained: bool) -> None:
        nonlocal offset
        head = rows[0][np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))]
        parent = tree.parent[head]
        if chained:
            below = _children(lane_of[parent], made[-1]["rows"].shape[1])
            chained = below is not None
            made[-1]["children"] = below or ()
        above = np.where(parent >= 0, (lane_of if chained else position_of)[np.maximum(parent, 0)], 0)
        inside = np.flatnonzero(rows.reshape(-1) >= 0)
        position_of[rows.reshape(-1)[inside]] = offset + inside
        lane_of[rows[0]] = np.arange(rows.shape[1])
        made.append(
            {"rows": rows, "above": above, "first": first, "children": (), "offset": offset, "chained": chained}
        )
        offset += rows.size

    for k in range(int(phase.max(initial=0)) + 1):
        if k % 2:
            paths = np.flatnonzero(phase == k)
            add(*chunks(tree.path_list, tree.path_start[paths], length[paths], lanes), chained=False)
            continue
        inside = np.flatnonzero(row_phase == k)
        if not inside.size:
            continue
        for i, rows in enumerate(_levels(tree.path_list[inside], row_level[inside])):
            if i > 0:  # those of one parent side by side, in the order of the parents
                rows = rows[np.argsort(lane_of[tree.parent[rows]], kind="stable")]
            add(rows[None], np.ones(len(rows), bool), chained=i > 0)
    hung = np.concatenate([m["above"] for m in made if not m["chained"]] or [np.zeros(0, np.int64)])
    done = tuple(
        Stage(
            rows=m["rows"].astype(np.int32),
            above=m["above"].astype(np.int32),
            first=m["first"],
            children=m["children"],
            offset=m["offset"],
            chained=m["chained"],
            remembered=bool(((hung >= m["offset"]) & (hung < m["offset"] + m["rows"].size)).any()),
            cut=not m["first"].all(),
            start=_start(m["rows"]),
        )
        for m in made
    )
    return Stages(done, position_of.astype(np.int32))

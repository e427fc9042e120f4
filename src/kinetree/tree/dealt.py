"""Stages of a tree whose clusters are dealt out to several devices: a stage for each device, all of one shape.

Every device runs the same program. So the stages are made for the whole tree, and each lane is dealt to the device with
its rows. Devices with fewer lanes get empty ones. The first stage holds the spines of the clusters, cut into chunks;
only their elements pass between devices. Rows, lanes, positions and clusters are numbered on each device from 0. The
base of a cluster replaces the base of the tree.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .clusters import Clusters
from .stages import Stage, Stages, chunks, stages
from .topology import Tree


class OnDevices(NamedTuple):
    """Items (rows, lanes, clusters) dealt out to devices, in order on each of them."""

    number: np.ndarray  # (things,): the number that each has on its device
    at: np.ndarray  # (devices, most): the things of each device, −1 where there is none

    @staticmethod
    def by(part: np.ndarray, parts: int) -> "OnDevices":
        """From the device of each thing."""
        count = np.bincount(part, minlength=parts)
        order = np.argsort(part, kind="stable") if (np.diff(part) < 0).any() else np.arange(len(part))
        start = np.cumsum(count) - count
        number = np.empty(len(part), np.int32)
        number[order] = np.arange(len(part)) - np.repeat(start, count)
        at = np.full((parts, max(1, int(count.max(initial=0)))), -1, np.int32)
        at[part[order], number[order]] = order
        return OnDevices(number, at)

    def arrange(self, x: np.ndarray, fill: float = 0) -> np.ndarray:
        """Values of the things, (..., things), as (..., devices, most)."""
        return (
            np.where(self.at >= 0, x[..., np.maximum(self.at, 0)], np.asarray(fill, x.dtype))
            if x.shape[-1]
            else (np.full((*x.shape[:-1], *self.at.shape), fill, x.dtype))
        )


@dataclass(frozen=True)
class Ports:
    """Where spines begin and end among the lanes of the first stage, and the tree of all clusters."""

    exist: np.ndarray  # (devices, clusters): True if the cluster has a spine
    first: np.ndarray  # (devices, clusters): the lane in which the spine begins; 0 without a spine
    last: np.ndarray  # (devices, clusters)
    carries: np.ndarray  # (devices, clusters): True if other clusters hang from the tail
    tree: Tree  # of clusters
    slot: np.ndarray  # (all clusters,): device · clusters of a device + number there


@dataclass(frozen=True)
class Dealt:
    """A tree on several devices: arrays have the device as first axis."""

    stages: Stages
    ports: Ports
    rows: OnDevices


def deal(parent: np.ndarray, clusters: Clusters, parts: int, lanes: int, levels: int = 4) -> Dealt:
    """The stages of a tree of these parents, with chunks for about `lanes` lanes on each device."""
    spine = np.flatnonzero(clusters.on_spine)
    spine = spine[np.argsort(clusters.of_row[spine], kind="stable")]
    length = np.bincount(clusters.of_row[spine], minlength=len(clusters.part))
    length = length[length > 0]
    made: list[tuple[np.ndarray, np.ndarray, Stage | None]] = []
    if len(spine):
        made.append((*chunks(spine, np.cumsum(length) - length, length, parts * lanes), None))
    else:
        made.append((np.full((1, 0), -1), np.zeros(0, bool), None))
    rest = np.flatnonzero(~clusters.on_spine)
    if len(rest):
        number = np.full(len(parent) + 1, -1, np.int32)  # the last is the base
        number[rest] = np.arange(len(rest))
        inner = stages(Tree(number[parent[rest]]), parts * lanes, levels)
        made += [(np.where(s.rows >= 0, rest[s.rows], -1), s.first, s) for s in inner.stages]
    return _dealt(parent, clusters, parts, made)


def _dealt(parent: np.ndarray, clusters: Clusters, parts: int, made: list) -> Dealt:
    part = clusters.part[clusters.of_row]
    rows, homes = OnDevices.by(part, parts), OnDevices.by(clusters.part, parts)
    bases = homes.at.shape[1]
    position = np.zeros(len(parent), np.int32)
    lanes_of = [OnDevices.by(part[cells[0]], parts) for cells, _, _ in made]
    done: list[Stage] = []
    hung = [np.zeros(0, np.int64)]
    offset = bases
    for k, (cells, first, inner) in enumerate(made):
        lanes = lanes_of[k]
        width, turns = lanes.at.shape[1], cells.shape[0]
        exists = cells >= 0
        place = np.arange(offset, offset + turns * width, width, dtype=np.int32)[:, None] + lanes.number
        position[cells[exists]] = place[exists]
        chained = inner is not None and inner.chained
        if inner is not None and chained:
            above = lanes_of[k - 1].number[inner.above]
        else:
            run = np.maximum.accumulate(np.where(first, np.arange(len(first)), 0)) if len(first) else np.zeros(0, int)
            head = cells[0][run]
            inside = (parent[head] >= 0) & (clusters.of_row[head] == clusters.of_row[parent[head]])
            above = np.where(inside, position[parent[head]], homes.number[clusters.of_row[head]])
            hung.append(above[above >= bases])
        children = () if inner is None else inner.children
        local = np.where(cells >= 0, rows.number[np.maximum(cells, 0)], -1).astype(np.int32)
        done.append(
            Stage(
                rows=np.ascontiguousarray(lanes.arrange(local, -1).swapaxes(0, 1)),
                above=lanes.arrange(above.astype(np.int32)),
                first=lanes.arrange(first, True),
                children=tuple(
                    lanes.arrange(np.where(c >= 0, lanes_of[k + 1].number[np.maximum(c, 0)], -1).astype(np.int32), -1)
                    for c in children
                ),
                offset=offset,
                chained=chained,
                remembered=False,
                cut=inner is None or inner.cut,
                start=None,
            )
        )
        offset += turns * width
    asked = np.unique(np.concatenate(hung))
    ends = [s.offset for s in done] + [offset]
    for k, s in enumerate(done):
        within = np.searchsorted(asked, ends[k : k + 2])
        done[k] = replace(s, remembered=bool(within[1] > within[0]))
    laid = Stages(tuple(done), rows.arrange(position, bases), bases)
    return Dealt(laid, _ports(clusters, homes, made[0], lanes_of[0]), rows)


def _ports(clusters: Clusters, homes: OnDevices, spines: tuple, lanes: OnDevices) -> Ports:
    count = len(clusters.part)
    exist, first, last = np.zeros(count, bool), np.zeros(count, np.int32), np.zeros(count, np.int32)
    cells, begins, _ = spines
    if cells.shape[1]:
        of_lane = clusters.of_row[cells[0]]
        exist[of_lane] = True
        first[of_lane[begins]] = lanes.number[begins]
        ends = np.append(begins[1:], True)
        last[of_lane[ends]] = lanes.number[ends]
    carries = np.zeros(count, bool)
    carries[clusters.parent[clusters.parent >= 0]] = True
    slot = clusters.part * homes.at.shape[1] + homes.number
    exist, first, last, carries = (homes.arrange(x) for x in (exist, first, last, carries))
    return Ports(exist, first, last, carries, Tree(clusters.parent), slot.astype(np.int32))

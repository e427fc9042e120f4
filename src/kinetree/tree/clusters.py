"""Clusters: a tree divided among several devices with small messages between them.

A cluster is a connected part of the tree, or several side by side, that hangs from one row outside it. It has at most
one row, its tail, from which other clusters hang. So a cluster acts as a single row: it receives one state at its base
and passes one on at its tail. The way from its base to its tail is its spine.
"""

from typing import NamedTuple

import numpy as np

from . import tuning
from .topology import Tree


class Clusters(NamedTuple):
    """A tree, divided. Clusters are numbered so that each comes after the one that it hangs from."""

    of_row: np.ndarray  # (n,): the cluster of each row
    on_spine: np.ndarray  # (n,): True if the row is on the spine of its cluster
    parent: np.ndarray  # (clusters,): the cluster from whose tail it hangs, −1 for the base
    part: np.ndarray  # (clusters,): the device that holds it

    def expanded(self, count: np.ndarray) -> "Clusters":
        """These clusters, with each row replaced by `count` consecutive ones."""
        return self._replace(of_row=np.repeat(self.of_row, count), on_spine=np.repeat(self.on_spine, count))


def divide(tree: Tree, weight: np.ndarray, parts: int) -> Clusters:
    """Divide a tree into clusters of about equal weight, for a number of devices.

    Rows with a large subtree are cut apart, in the order of a walk around the tree. Small subtrees stay whole, beside
    the row from which they hang if there is room. A chain becomes `parts` pieces.
    """
    n, parent = tree.n, tree.parent
    total = int(weight.sum())
    before = np.concatenate([[0], np.cumsum(weight[tree.preorder])])
    size = before[tree.preorder_index + tree.subtree_size] - before[tree.preorder_index]
    large = size > (total / (parts * tuning.CLUSTER_GRAIN) if parts > 1 else total)
    within = np.maximum(parent, 0)
    root_of_small = ~large & ((parent < 0) | large[within])

    # Large rows in the order of a walk, each followed by the small subtrees that hang from it; then those of the base.
    rows = np.flatnonzero(large)
    number = np.full(n + 1, len(rows))  # the base comes last; also reached by index −1
    number[rows] = np.arange(len(rows))
    above = np.where(parent[rows] >= 0, number[parent[rows]], -1)
    place = np.full(n + 1, len(rows))
    place[rows] = Tree(above).preorder_index
    units = np.flatnonzero(large | root_of_small)
    holder = np.where(large[units], units, parent[units])
    order = np.lexsort((units, ~large[units], place[holder]))
    units = units[order]
    heavy = np.where(large[units], weight[units], size[units])
    part = np.zeros(n + 1, np.int64)
    part[units] = np.minimum(parts * (np.cumsum(heavy) - heavy / 2) // max(1, total), parts - 1)

    # A large row goes on the spine of the one it hangs from, unless others hang from that one.
    small = np.flatnonzero(root_of_small)
    apart = small[(parent[small] >= 0) & (part[small] != part[within[small]])]
    ends = np.bincount(parent[rows] + 1, minlength=n + 1)[1:] > 1
    ends[parent[apart]] = True
    follows = (parent[rows] >= 0) & ~ends[within[rows]] & (part[rows] == part[within[rows]])
    in_walk = np.argsort(place[rows])
    cluster = np.full(n + 1, -1)
    cluster[rows[in_walk]] = np.cumsum(~follows[in_walk]) - 1
    spines = int((~follows).sum())

    # Small subtrees join the row that they hang from, or those that hang from the same one and are on the same device.
    alone = small[(parent[small] < 0) | (part[small] != part[within[small]])]
    beside = np.setdiff1d(small, alone, assume_unique=True)
    cluster[beside] = cluster[parent[beside]]
    keys, group = np.unique(np.stack([cluster[parent[alone]], part[alone]]), axis=1, return_inverse=True)
    cluster[alone] = spines + group.reshape(-1)
    hangs_from = np.full(spines + keys.shape[1], -1)
    hangs_from[cluster[rows[~follows]]] = cluster[parent[rows[~follows]]]
    hangs_from[spines:] = keys[0]
    of_cluster = np.zeros(len(hangs_from), np.int64)
    of_cluster[cluster[units]] = part[units]

    unit_of = np.zeros(n, bool)
    unit_of[units] = True
    starts = np.flatnonzero(unit_of[tree.preorder])  # a small subtree is what follows its root, up to the next unit
    of_row = np.empty(n, np.int64)
    of_row[tree.preorder] = np.repeat(cluster[tree.preorder[starts]], np.diff(np.append(starts, n)))
    first = np.full(len(hangs_from), n)
    np.minimum.at(first, of_row, np.arange(n))
    ordered = np.argsort(first)
    new = np.full(len(ordered) + 1, -1)
    new[ordered] = np.arange(len(ordered))
    return Clusters(new[of_row].astype(np.int32), large, new[hangs_from[ordered]], of_cluster[ordered])


def spines(parent: np.ndarray, tails: np.ndarray, of_row: np.ndarray) -> np.ndarray:
    """For each row: True if it is on the way from the base of its cluster to one of the tails."""
    row = np.arange(len(parent), dtype=parent.dtype)
    begins = parent != row - 1
    begins[1:] |= np.diff(of_row) != 0
    straight = np.maximum.accumulate(np.where(begins, row, 0))  # where a stretch of consecutive rows begins
    found = np.zeros(len(parent), bool)
    for tail in tails.tolist():
        at = tail
        while at >= 0 and of_row[at] == of_row[tail]:
            begin = int(straight[at])
            found[begin : at + 1] = True
            at = int(parent[begin])
    return found

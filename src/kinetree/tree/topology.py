"""The shape of a kinematic tree, as index arrays computed once from its parent array.

Everything here is NumPy, immutable and vectorised. A sum along the way to the base, or over a subtree, uses pointer
doubling: log2(height) rounds of whole-array gathers, for any shape of the tree. (Depths of a million rows:
0.10 s for a chain and 0.03 s for a random recursive tree, where a plain Python loop takes 0.16 s for either.)
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

Rows = NDArray[np.int32]

# Euler tour positions reach 2n - 1 and are kept in 32 bits.
MAX_TREE_ROWS = 2**30
# Above this, ancestor pairs alone would take more than 8 GiB (a chain of 46 340 rows).
MAX_ANCESTOR_PAIRS = 2**30


class Tree:
    """A rooted forest of `n` rows hanging from the base, which is row -1.

    Arguments:
        parent: integers, one to a row, with `-1 <= parent[i] < i`; several rows may hang from the base.

    Two trees are equal, and hash alike, when their parent arrays are equal. All facts are read-only int32 arrays
    (`ancestor_start` is int64, `starts_path` bool), computed when first asked for.
    """

    parent: Rows
    n: int

    def __init__(self, parent: ArrayLike):
        checked = _as_parents(parent)
        _check_order(checked)
        # `cached_property` and this line write to __dict__; all other writes go to __setattr__ below.
        self.__dict__.update(parent=_frozen(checked), n=len(checked))

    # -- identity ------------------------------------------------------------------------------------------------
    def __setattr__(self, name: str, value: object = None) -> None:
        raise AttributeError(f"a Tree is immutable: can not change {name!r}")

    __delattr__ = __setattr__

    @cached_property
    def _hash(self) -> int:
        return hash(self.parent.tobytes())

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tree):
            return NotImplemented
        return self is other or np.array_equal(self.parent, other.parent)

    def __reduce__(self):
        return Tree, (self.parent,)

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        shown = ", ".join(map(str, self.parent[:8])) + (", ..." if self.n > 8 else "")
        return f"Tree(n={self.n}, parent=[{shown}])"

    # -- levels --------------------------------------------------------------------------------------------------
    @cached_property
    def roots(self) -> Rows:
        """Rows that hang from the base, ascending."""
        return _frozen(np.flatnonzero(self.parent < 0))

    @cached_property
    def depth(self) -> Rows:
        """Edges between each row and its root; roots have 0."""
        return _frozen(ancestor_sum(self.parent, np.ones(self.n, np.int64)) - 1)

    @cached_property
    def height(self) -> int:
        """Number of levels: 0 for the empty tree, n for a chain."""
        return int(self.depth.max()) + 1 if self.n else 0

    @cached_property
    def level_order(self) -> Rows:
        """Rows sorted by depth, ascending within a depth."""
        return _frozen(_stable_argsort(self.depth))

    @cached_property
    def level_start(self) -> Rows:
        """Level d is `level_order[level_start[d]:level_start[d + 1]]`; length height + 1."""
        return _starts(np.bincount(self.depth, minlength=self.height))

    # -- children ------------------------------------------------------------------------------------------------
    @cached_property
    def n_children(self) -> Rows:
        """Number of children of each row."""
        return _frozen(np.bincount(self.parent + 1, minlength=self.n + 1)[1:])

    @cached_property
    def child_start(self) -> Rows:
        """The children of row i are `child_list[child_start[i]:child_start[i + 1]]`; length n + 1."""
        return _starts(self.n_children)

    @cached_property
    def child_list(self) -> Rows:
        """Children of row 0, of row 1, and so on, each list ascending. Roots are not in it."""
        return _frozen(self._siblings[len(self.roots) :])

    @cached_property
    def _siblings(self) -> NDArray[np.int64]:
        """All rows, sorted by parent: the roots, then `child_list`."""
        return _stable_argsort(self.parent + 1)

    # -- subtrees, preorder and Euler tour -------------------------------------------------------------------------
    @cached_property
    def subtree_size(self) -> Rows:
        """Number of rows in the subtree of each row, itself included."""
        return _frozen(descendant_count(self.parent))

    @cached_property
    def earlier_siblings(self) -> Rows:
        """Total subtree size of each row's siblings of lower number; roots are siblings of one another."""
        size = self.subtree_size[self._siblings].astype(np.int64)
        before = np.cumsum(size) - size
        group_start = np.concatenate([[0], len(self.roots) + self.child_start[:-1]])
        # Clip: the start of a last, empty group lies past the end, and is not read.
        group_before = before[np.minimum(group_start, self.n - 1)] if self.n else before
        earlier = np.empty(self.n, np.int64)
        earlier[self._siblings] = before - group_before[self.parent[self._siblings] + 1]
        return _frozen(earlier)

    @cached_property
    def preorder_index(self) -> Rows:
        """Position of each row in `preorder`."""
        if not self.n:
            return _frozen(np.empty(0, np.int64))
        row, parent = np.arange(self.n), self.parent
        heavy = np.where(parent >= 0, self.heavy_child[parent], -1)
        # Rows visited between the parent and this row: siblings of lower number, but the heavy one goes first.
        skipped = self.earlier_siblings + np.where(row < heavy, self.subtree_size[heavy], 0)
        skipped[row == heavy] = 0
        return _frozen(ancestor_sum(parent, skipped + (parent >= 0)))

    @cached_property
    def preorder(self) -> Rows:
        """Rows listed parents first and subtree by subtree; of siblings the heavy child first, then ascending."""
        listed = np.empty(self.n, np.int32)
        listed[self.preorder_index] = np.arange(self.n, dtype=np.int32)
        return _frozen(listed)

    @cached_property
    def lp(self) -> Rows:
        """Step of the Euler tour, 0 to 2n - 1, at which each row is entered, siblings in the order of `preorder`."""
        # Before row i is entered, preorder_index[i] rows were entered, and all of them except its ancestors were left.
        return _frozen(2 * self.preorder_index - self.depth)

    @cached_property
    def rp(self) -> Rows:
        """Step of the Euler tour at which each row is left; its subtree lies between lp and rp."""
        return _frozen(self.lp + 2 * self.subtree_size - 1)

    # -- heavy paths -----------------------------------------------------------------------------------------------
    @cached_property
    def heavy_child(self) -> Rows:
        """The child with the largest subtree, the lowest such row on a tie; -1 at leaves."""
        heavy = np.full(self.n, -1, np.int64)
        inner = np.flatnonzero(self.n_children)
        if len(inner):
            child = self.child_list.astype(np.int64)
            # One key to sort by size, then by lower row; fits in 60 bits.
            key = self.subtree_size[child] * np.int64(self.n) + (self.n - 1 - child)
            best = np.maximum.reduceat(key, self.child_start[inner])
            heavy[inner] = self.n - 1 - best % self.n
        return _frozen(heavy)

    @cached_property
    def starts_path(self) -> NDArray[np.bool_]:
        """For each row: True if it is the head of its heavy path."""
        heads = np.ones(self.n, bool)
        heads[self.heavy_child[self.heavy_child >= 0]] = False
        heads.setflags(write=False)
        return heads

    @cached_property
    def path_list(self) -> Rows:
        """Rows along each heavy path, from its head outward. This is `preorder`, which visits heavy children first."""
        return self.preorder

    @cached_property
    def path_start(self) -> Rows:
        """Path k is `path_list[path_start[k]:path_start[k + 1]]`; length number of paths + 1."""
        return _frozen(np.append(np.flatnonzero(self.starts_path[self.preorder]), self.n))

    @cached_property
    def path_head(self) -> Rows:
        """The row nearest the base on each heavy path."""
        return _frozen(self.preorder[self.path_start[:-1]])

    @cached_property
    def path_of(self) -> Rows:
        """The heavy path each row lies on. Paths are numbered as `preorder` meets them: inner paths first."""
        path = np.empty(self.n, np.int64)
        path[self.preorder] = np.cumsum(self.starts_path[self.preorder]) - 1
        return _frozen(path)

    @cached_property
    def path_parent(self) -> Rows:
        """The path that each path branches off, -1 for those that start at a root."""
        attached = self.parent[self.path_head]
        return _frozen(np.where(attached >= 0, self.path_of[attached], -1) if self.n else attached)

    @cached_property
    def path_rank(self) -> Rows:
        """Light edges between each path and the base, at most log2(n): paths of one rank can be done together."""
        return _frozen(ancestor_sum(self.path_parent, np.ones(len(self.path_head), np.int64)) - 1)

    # -- ancestor pairs --------------------------------------------------------------------------------------------
    @cached_property
    def n_ancestor_pairs(self) -> int:
        """Number of pairs (i, j) with j an ancestor of i or i itself: the sum of depth + 1."""
        return int(self.depth.sum(dtype=np.int64)) + self.n

    @cached_property
    def ancestor_start(self) -> NDArray[np.int64]:
        """The pairs of row i are `ancestor_start[i]:ancestor_start[i + 1]` of `ancestor_pairs`; length n + 1."""
        start = np.concatenate([[0], np.cumsum(self.depth.astype(np.int64) + 1)])
        start.flags.writeable = False
        return start

    @cached_property
    def ancestor_pairs(self) -> tuple[Rows, Rows]:
        """All (i, j) with j an ancestor of i or i itself, by i and then from i to its root.

        Refuses, with a ValueError, more than MAX_ANCESTOR_PAIRS. Work O(pairs).
        """
        if self.n_ancestor_pairs > MAX_ANCESTOR_PAIRS:
            raise ValueError(
                f"this tree has {self.n_ancestor_pairs} ancestor pairs (n={self.n}, height={self.height}), more than "
                f"the limit of {MAX_ANCESTOR_PAIRS}: use a method that does not form them"
            )
        # Measured: generations win on bushy trees (1e6 rows, binary: 0.2 s against 0.5), copies on deep ones
        # (chain of 20 000: 1.8 s against 5.0); they meet near 64 pairs to a row.
        deep = self.n_ancestor_pairs > 64 * self.n
        ancestor = self._ancestors_by_copying() if deep else self._ancestors_by_generation()
        return _frozen(np.repeat(np.arange(self.n, dtype=np.int32), self.depth + 1)), _frozen(ancestor)

    def _ancestors_by_generation(self) -> Rows:
        """One scatter for each generation, over all rows that have an ancestor so far up."""
        ancestor = np.empty(self.n_ancestor_pairs, np.int32)
        current, place = self.level_order, self.ancestor_start[self.level_order]
        for k in range(self.height):
            # In level order, rows that have an ancestor k generations up are a tail.
            gone = self.level_start[k] - (self.level_start[k - 1] if k else 0)
            current, place = current[gone:], place[gone:]
            ancestor[place + k] = current
            current = self.parent[current]
        return ancestor

    def _ancestors_by_copying(self) -> Rows:
        """One block copy for each row: itself, then its parent's list, which is already there."""
        ancestor = np.empty(self.n_ancestor_pairs, np.int32)
        ancestor[self.ancestor_start[:-1]] = np.arange(self.n)
        start = self.ancestor_start.tolist()
        for i, p in enumerate(self.parent.tolist()):
            if p >= 0:
                ancestor[start[i] + 1 : start[i + 1]] = ancestor[start[p] : start[p + 1]]
        return ancestor


# -- sums over ancestors and descendants -----------------------------------------------------------------------------


def ancestor_sum(parent: NDArray, values: NDArray) -> NDArray[np.int64]:
    """For each row the sum of `values` over itself and its ancestors.

    Work O(n log height), log2(height) rounds: after round k each row holds the sum over 2**k generations.
    """
    n = len(parent)
    ancestor = _with_base(parent, n)
    total = np.append(values, 0).astype(np.int64)
    while (ancestor != n).any():
        total += total[ancestor]
        ancestor = ancestor[ancestor]
    return total[:n]


def descendant_count(parent: NDArray) -> NDArray[np.int64]:
    """For each row the number of rows in its subtree, itself included.

    Work O(n log height): rows 2**k to 2**(k+1) generations down are within 2**k of one exactly 2**k down.
    """
    n = len(parent)
    ancestor = _with_base(parent, n)
    count = np.ones(n + 1)  # float64 counts are exact, and what bincount adds
    while (ancestor != n).any():
        count += np.bincount(ancestor, weights=count, minlength=n + 1)
        count[n] = 0  # the base does not count, nor overflow
        ancestor = ancestor[ancestor]
    return count[:n].astype(np.int64)


def _with_base(parent: NDArray, n: int) -> NDArray[np.intp]:
    """Parents with the base as row n, which is its own parent, so that doubling needs no test."""
    return np.append(np.where(parent < 0, n, parent), n).astype(np.intp)


# -- checks and small helpers ----------------------------------------------------------------------------------------


def _as_parents(parent: ArrayLike) -> NDArray:
    """A one-dimensional integer array with entries from -1 to n - 1, or a ValueError that says what is wrong."""
    array = np.asarray(parent)
    if array.ndim != 1:
        raise ValueError(f"parent must be one-dimensional, got shape {array.shape}")
    if array.size == 0:
        return np.empty(0, np.int32)
    if array.dtype.kind not in "iu":
        raise ValueError(f"parent must hold integers, got dtype {array.dtype}")
    n = len(array)
    if n > MAX_TREE_ROWS:
        raise ValueError(f"a tree has at most {MAX_TREE_ROWS} rows, got {n}")
    wrong = (array < -1) | (array >= n)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ValueError(f"parent[{i}] = {array[i]} is out of range: it must be -1 (the base) or a row below {n}")
    return array.astype(np.int32)


def _check_order(parent: NDArray) -> None:
    wrong = parent >= np.arange(len(parent))
    if not wrong.any():
        return
    i = int(np.argmax(wrong))
    if parent[i] == i:
        raise ValueError(f"parent[{i}] = {i}: a row can not be its own parent")
    raise ValueError(f"parent[{i}] = {parent[i]} comes after its child: parents must come first")


def _stable_argsort(keys: NDArray) -> NDArray[np.int64]:
    """Stable order of non-negative keys. NumPy sorts 16-bit keys by radix, several times faster."""
    if len(keys) and keys.max() < 2**16:
        keys = keys.astype(np.uint16)
    return np.argsort(keys, kind="stable")


def _starts(counts: NDArray) -> Rows:
    return _frozen(np.concatenate([[0], np.cumsum(counts)]))


def _frozen(array: NDArray) -> Rows:
    rows = np.ascontiguousarray(array, dtype=np.int32)
    rows.flags.writeable = False
    return rows

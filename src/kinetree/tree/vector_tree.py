"""Blelloch's vector tree: a forest as the two steps of its Euler tour at which each vertex is entered and left.

Structure is NumPy; data is a pytree of arrays with one entry to a vertex along axis 0, carried beside. The trees of a
forest stand one after another in the tour, so every operation serves forests as well.

What rootfix and leaffix ask of the operator, here where they go by inverses:
    rootfix     a group. It need not commute: a subtree that was walked through cancels from the inside out.
    leaffix     a commutative group. Of one that does not commute it gives the product in preorder, in which siblings
                act on one another: no recursion over the tree. It can not tell the two apart; the caller must.
Prefixes cancel, in float32 badly. Operators without an inverse (maxima, articulated inertias) need another schedule.

After Blelloch, Vector Models for Data-Parallel Computing (1990), and Lynghus (2026), section 4.6. W is work and D span,
in applications of the operator; sorting counts as W = n log n, D = log n.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from .picked import pick
from .scans import Combine, scan
from .topology import Tree, ancestor_sum

Data = Any
Rows = NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class VectorTree:
    """A forest of n vertices, in any numbering.

    Requires: `lp` and `rp` together are the steps 0 to 2n - 1, `lp[i] < rp[i]`, and two intervals [lp, rp] are nested
    or disjoint; a ValueError says which of these fails. A vertex is an ancestor of those whose intervals it holds.
    """

    lp: Rows
    rp: Rows

    def __post_init__(self):
        lp, rp = (_integers(name, getattr(self, name)) for name in ("lp", "rp"))
        if len(lp) != len(rp):
            raise ValueError(f"lp and rp must have one length, got {len(lp)} and {len(rp)}")
        steps = np.concatenate([lp, rp])
        if len(steps) and (steps.min() < 0 or steps.max() >= len(steps) or np.bincount(steps).max() > 1):
            raise ValueError(f"lp and rp together must be the steps 0 to {len(steps) - 1}, each once")
        wrong = lp >= rp
        if wrong.any():
            i = int(np.argmax(wrong))
            raise ValueError(f"vertex {i} is left at step {rp[i]}, before it is entered at step {lp[i]}")
        wrong = _matching_close(lp) != rp
        if wrong.any():
            i = int(np.argmax(wrong))
            raise ValueError(f"the interval {lp[i]} to {rp[i]} of vertex {i} overlaps another without nesting")
        for name, value in (("lp", lp), ("rp", rp)):
            value = value.astype(np.int32)
            value.flags.writeable = False
            object.__setattr__(self, name, value)

    # -- construction ------------------------------------------------------------------------------------------------

    @classmethod
    def from_parents(cls, parent: ArrayLike) -> VectorTree:
        """Parents, in any order and -1 for roots, to the vector tree of the same vertices.

        Requires: no cycles. Ensures: siblings, and roots, are visited in ascending order; so where vertices are
        numbered in preorder, `lp` ascends. W = n log n, D = log n log(height).
        """
        tree, order = Tree.from_parents_any_order(parent)
        preorder_index = ancestor_sum(tree.parent, tree.earlier_siblings + (tree.parent >= 0))
        lp, rp = np.empty(tree.n, np.int64), np.empty(tree.n, np.int64)
        lp[order] = 2 * preorder_index - tree.depth
        rp[order] = lp[order] + 2 * tree.subtree_size - 1
        return cls(lp, rp)

    @classmethod
    def from_preorder(cls, parent: ArrayLike) -> VectorTree:
        """Parents of vertices numbered in preorder to the vector tree.

        Requires: the numbering is a preorder, else ValueError. Ensures: `lp` ascends. W and D as `from_parents`.
        """
        tree = cls.from_parents(Tree(parent).parent)
        if (np.diff(tree.lp) < 0).any():
            i = int(np.argmax(np.diff(tree.lp) < 0)) + 1
            raise ValueError(f"the vertices are not numbered in preorder: {i} comes before {i - 1} in the tour")
        return tree

    @classmethod
    def from_preorder_depths(cls, depth: ArrayLike) -> VectorTree:
        """Depths of vertices listed in preorder (an outline's indents) to the vector tree.

        Requires: `depth[0] == 0` and `0 <= depth[i] <= depth[i - 1] + 1`. Ensures: `lp` ascends. W = n log n,
        D = log n.
        """
        depth = _integers("depth", depth)
        wrong = (depth < 0) | (np.diff(depth, prepend=-1) > 1)
        if wrong.any():
            i = int(np.argmax(wrong))
            raise ValueError(f"depth[{i}] = {depth[i]} must be between 0 and one more than the depth before it")
        lp = 2 * np.arange(len(depth)) - depth
        return cls(lp, _matching_close(lp))

    # -- facts -------------------------------------------------------------------------------------------------------

    @property
    def n(self) -> int:
        """Number of vertices."""
        return len(self.lp)

    def depth(self) -> Rows:
        """Edges between each vertex and its root: a rootfix of ones. W = n, D = log n."""
        return (np.cumsum(self._turns()) - 1)[self.lp].astype(np.int32)

    def subtree_size(self) -> Rows:
        """Vertices in the subtree of each, itself included: a leaffix of ones. W = n, D = 1."""
        return (self.rp - self.lp + 1) // 2

    def preorder(self) -> Rows:
        """Vertices in the order in which the tour enters them. W = n, D = log n."""
        entered = np.full(2 * self.n, -1, np.int32)
        entered[self.lp] = np.arange(self.n, dtype=np.int32)
        return entered[entered >= 0]

    def parents(self) -> Rows:
        """Parent of each vertex, -1 for roots. W = n log n, D = log n."""
        preorder = self.preorder()
        depth = self.depth()[preorder].astype(np.int64)
        # The parent is the last vertex before, in preorder, that is one level up: look it up among (level, position).
        key = np.sort(depth * self.n + np.arange(self.n))
        found = np.searchsorted(key, key - self.n) - 1
        parent = np.full(self.n, -1, np.int32)
        inner = key >= self.n
        parent[preorder[key[inner] % self.n]] = preorder[key[found[inner]] % self.n]
        return parent

    def _turns(self) -> NDArray[np.int64]:
        """+1 at steps that enter a vertex, -1 at steps that leave one."""
        turns = np.full(2 * self.n, -1, np.int64)
        turns[self.lp] = 1
        return turns

    # -- data ----------------------------------------------------------------------------------------------------------

    def rootfix(
        self,
        op: Combine,
        inverse: Callable[[Data], Data],
        identity: Data,
        data: Data,
        *,
        exclusive: bool = False,
        method: str = "blocked",
        block: int = 64,
    ) -> Data:
        """For each vertex the product of `data` from its root down to it (exclusive: down to its parent).

        Requires: `op` a group operation on stacks of elements, with `inverse` and `identity`; it need not commute.
        `method` and `block` are those of `scan`. Inclusive is the thesis's irootfix, exclusive its rootfix.
        W = 2n, D = log n: one scan over the tour, of x on entering a vertex and its inverse on leaving it.
        """
        step = np.empty(2 * self.n, np.int64)
        step[self.lp], step[self.rp] = np.arange(self.n), self.n + np.arange(self.n)
        tour = jax.tree.map(lambda x, y: jnp.concatenate([x, y])[step], data, inverse(data))
        before = scan(op, tour, identity, method=method, block=block, exclusive=exclusive)
        return pick(before, self.lp)

    def leaffix(
        self,
        op: Combine,
        inverse: Callable[[Data], Data],
        identity: Data,
        data: Data,
        *,
        exclusive: bool = False,
        method: str = "blocked",
        block: int = 64,
    ) -> Data:
        """For each vertex the product of `data` over its subtree (exclusive: less the vertex itself).

        Requires: `op` a commutative group operation on stacks of elements, with `inverse` and `identity`.
        Inclusive is the thesis's ileaffix, exclusive its leaffix.
        W = 2n, D = log n: a scan in preorder, where a subtree is an interval, and the quotient of its two ends.
        """
        preorder, size = self.preorder(), self.subtree_size()
        first = np.empty(self.n, np.int64)
        first[preorder] = np.arange(self.n)
        prefix = scan(op, jax.tree.map(lambda x: jnp.asarray(x)[preorder], data), identity, method=method, block=block)
        # Row k of `prefix` is the product of the first k vertices.
        prefix = jax.tree.map(lambda e, x: jnp.concatenate([jnp.asarray(e, x.dtype)[None], x]), identity, prefix)
        start = pick(prefix, first + exclusive)
        return op(inverse(start), pick(prefix, first + size))


# -- surgery ---------------------------------------------------------------------------------------------------------


class Split(NamedTuple):
    """Trees cut out of a forest, and the rest. `cut_rows` and `rest_rows` give each vertex its old number.

    The k-th tree of `cut` is the vertices `cut_start[k]:cut_start[k + 1]` and twice as many steps from 2 cut_start[k].
    """

    cut: VectorTree
    cut_data: Data
    cut_start: Rows
    cut_rows: Rows
    rest: VectorTree
    rest_data: Data
    rest_rows: Rows


def split(tree: VectorTree, data: Data, flags: ArrayLike) -> Split:
    """Cuts the edge above every flagged vertex.

    Requires: `flags` booleans, one to a vertex; flagged vertices may lie below one another, and roots may be flagged.
    Ensures: each flagged vertex becomes the root of a tree of its own, with its descendants down to the next flagged
        ones; cut trees follow one another as the tour met their roots, and vertices are numbered in preorder within
        each. Vertices not at or below a flag are `rest`, in their old order. All keep their data, and their parent
        where that was not cut off. W = n log n, D = log n.
    """
    flags = _flags(tree, flags)
    owner = _nearest_flagged(tree, flags)
    rest_rows = np.flatnonzero(owner < 0)
    preorder = tree.preorder()
    # By the step at which the owner is entered, then in preorder.
    inside = preorder[owner[preorder] >= 0]
    key = tree.lp[owner[inside]]
    cut_rows = inside[np.argsort(key, kind="stable")]
    cut_start = np.append(np.flatnonzero(flags[cut_rows]), len(cut_rows)).astype(np.int32)
    return Split(
        VectorTree(*_renumber(tree, cut_rows, tree.lp[owner[cut_rows]])),
        pick(data, cut_rows),
        cut_start,
        cut_rows.astype(np.int32),
        VectorTree(*_renumber(tree, rest_rows)),
        pick(data, rest_rows),
        rest_rows.astype(np.int32),
    )


def merge(
    tree: VectorTree, data: Data, branches: VectorTree, branch_data: Data, at: ArrayLike
) -> tuple[VectorTree, Data]:
    """Hangs the trees of the forest `branches` below vertices of `tree`.

    Requires: `at` has one vertex of `tree` for each root of `branches`, in the order of the tour; -1 makes it a root.
    Ensures: vertices of `tree` keep their numbers, those of `branches` follow, shifted by `tree.n`; each hung tree
        comes after the children that `at` had, several at one vertex in their order. All other parents are as before.
        It undoes a `split` of flags of which none lies below another, but for numbering and the order of siblings.
        W = n log n, D = log n.
    """
    at = _integers("at", at)
    roots = branches.preorder()
    roots = roots[branches.depth()[roots] == 0]
    if len(at) != len(roots):
        raise ValueError(f"at must name a vertex for each of the {len(roots)} roots of the branches, got {len(at)}")
    if len(at) and (at.min() < -1 or at.max() >= tree.n):
        raise ValueError(f"at must hold vertices below {tree.n}, or -1")
    # A hung tree goes in just before the step that leaves its new parent; roots go to the end.
    slot = np.append(tree.rp, 2 * tree.n)[at]
    length = 2 * branches.subtree_size()[roots].astype(np.int64)
    order = np.argsort(slot, kind="stable")
    before = np.empty(len(at), np.int64)
    before[order] = np.cumsum(length[order]) - length[order]
    added = np.cumsum(np.bincount(slot, weights=length, minlength=2 * tree.n + 1)).astype(np.int64)
    shift = slot + before - branches.lp[roots]
    which = np.searchsorted(branches.lp[roots], branches.lp, side="right") - 1
    lp = np.concatenate([tree.lp + added[tree.lp], branches.lp + shift[which]])
    rp = np.concatenate([tree.rp + added[tree.rp], branches.rp + shift[which]])
    joined = jax.tree.map(lambda x, y: _numpy_or_jax(x, y).concatenate([x, y]), data, branch_data)
    return VectorTree(lp, rp), joined


def delete(tree: VectorTree, data: Data, flags: ArrayLike) -> tuple[VectorTree, Data]:
    """Removes the flagged vertices; their children pass to the nearest ancestor that stays.

    Requires: `flags` booleans, one to a vertex. Ensures: vertices that stay keep their order, their data and their
        ancestors among one another; children of a removed root become roots. W = n, D = log n.
    """
    rows = np.flatnonzero(~_flags(tree, flags))
    return VectorTree(*_renumber(tree, rows)), pick(data, rows)


# -- helpers -----------------------------------------------------------------------------------------------------------


def _renumber(tree: VectorTree, rows: NDArray, key: NDArray | None = None) -> tuple[NDArray, NDArray]:
    """lp and rp of `rows`, with their steps closed up; sorted by `key` first where there is one."""
    steps = np.concatenate([tree.lp[rows], tree.rp[rows]])
    new = np.empty(len(steps), np.int64)
    order = np.argsort(steps) if key is None else np.lexsort([steps, np.concatenate([key, key])])
    new[order] = np.arange(len(steps))
    return new[: len(rows)], new[len(rows) :]


def _nearest_flagged(tree: VectorTree, flags: NDArray) -> NDArray[np.int64]:
    """The nearest flagged ancestor of each vertex, itself included, or -1."""
    flagged = np.flatnonzero(flags)
    above = VectorTree(*_renumber(tree, flagged)).parents()
    # After entering a flagged vertex we are in it; after leaving it, in the flagged one above.
    now_in = np.full(2 * tree.n + 1, -1, np.int64)
    now_in[tree.lp[flagged] + 1] = flagged
    now_in[tree.rp[flagged] + 1] = np.append(flagged, -1)[above]
    last = np.zeros(2 * tree.n + 1, np.int64)
    changed = np.concatenate([tree.lp[flagged], tree.rp[flagged]]) + 1
    last[changed] = changed
    return now_in[np.maximum.accumulate(last)][tree.lp + 1]


def _matching_close(lp: NDArray) -> NDArray[np.int64]:
    """The step that closes each open step, all other steps being closes; -1 where they do not balance."""
    turns = np.full(2 * len(lp), -1, np.int64)
    turns[lp] = 1
    level = np.cumsum(turns) + (turns < 0)
    if len(lp) and (level.min() < 1 or turns.sum()):
        return np.full(len(lp), -1)
    # Within one level opens and closes take turns, so a stable sort puts each close right after its open.
    order = np.argsort(level, kind="stable")
    close = np.empty(2 * len(lp), np.int64)
    close[order[::2]] = order[1::2]
    return close[lp]


def _integers(name: str, values: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"{name} must be a one-dimensional array of integers, got {array.dtype} {array.shape}")
    return array.astype(np.int64)


def _flags(tree: VectorTree, flags: ArrayLike) -> NDArray[np.bool_]:
    array = np.asarray(flags)
    if array.shape != (tree.n,) or (array.size and array.dtype != bool):
        raise ValueError(f"flags must be {tree.n} booleans, got {array.dtype} {array.shape}")
    return array.astype(bool)


def _numpy_or_jax(*arrays: Any):
    return np if all(isinstance(x, np.ndarray) for x in arrays) else jnp

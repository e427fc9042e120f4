"""Symmetric matrices with the sparsity of a tree: only the pairs (row, ancestor) have numbers, n · depth in all.

The pairs stand in the order of `Tree.ancestor_pairs`: row by row, each from itself to its root. So the entries of a
row are consecutive, and the entry for the ancestor at depth δ of a row at depth d stands d − δ places after the row's
first.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._types import AnyArray, Array, Float
from kinetree.model.arguments import evaluate
from kinetree.model.memory import require_matrices
from kinetree.tree import Tree


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class PackedMatrix:
    """A symmetric matrix on the ancestor pairs of a tree: `values` is (..., pairs)."""

    values: Float[AnyArray, "... pairs"]
    tree: Tree = field(metadata={"static": True})

    def matvec(self, x: Float[Array, "... nv"]) -> Float[Array, "... nv"]:
        """The matrix times x, (..., n). O(pairs)."""
        return evaluate(
            lambda values, x: _matvec(values, x, self.tree.ancestor_pairs),
            values=(self.values, (self.tree.n_ancestor_pairs,)),
            x=(x, (self.tree.n,)),
        )

    def dense(self) -> Float[AnyArray, "... nv nv"]:
        """(..., n, n)."""
        return evaluate(partial(unpack, self.tree), values=(self.values, (self.tree.n_ancestor_pairs,)))


@jax.jit
def _matvec(values: Any, x: Any, pairs: Any) -> Any:
    i, j = pairs
    y = lower_times(values, x, pairs)
    strict = jnp.where(i == j, jnp.zeros_like(values), values)
    return y + lower_transpose_times(strict, x, pairs)


def lower_times(values: Any, x: Any, pairs: Any) -> Any:
    """y_i = Σ_j values_ij x_j over the pairs; (batch, pairs) and (batch, n)."""
    i, j = pairs
    return jax.ops.segment_sum((values * x[:, j]).T, i, x.shape[1], indices_are_sorted=True).T


def lower_transpose_times(values: Any, x: Any, pairs: Any) -> Any:
    """y_j = Σ_i values_ij x_i over the pairs."""
    i, j = pairs
    return jax.ops.segment_sum((values * x[:, i]).T, j, x.shape[1]).T


def unpack(tree: Tree, values: Any) -> Any:
    """(batch, n, n) from (batch, pairs)."""
    require_matrices("the dense matrix", values, tree.n, tree.n, copies=1, instead=".matvec, for products with it")
    i, j = tree.ancestor_pairs
    if not isinstance(values, np.ndarray):
        return _scattered(values, tree.n, i, j)
    H = np.zeros((values.shape[0], tree.n, tree.n), values.dtype)
    H[:, i, j] = H[:, j, i] = values
    return H


@partial(jax.jit, static_argnums=1)
def _scattered(values: Any, n: int, i: Any, j: Any) -> Any:
    return jnp.zeros((values.shape[0], n, n), values.dtype).at[:, i, j].set(values).at[:, j, i].set(values)


def pack(tree: Tree, H: Any) -> Any:
    """(batch, pairs) from a dense matrix, (batch, n, n). Entries outside the pairs are not read."""
    i, j = tree.ancestor_pairs
    return H[:, i, j]


def by_depth(tree: Tree, values: Any) -> Any:
    """(batch, pairs) as (n, height, batch): each row's entry for its ancestor at each depth; zero below the row."""
    depth = tree.depth[:, None]
    column = np.arange(tree.height)
    place = tree.ancestor_start[:-1, None] + np.maximum(depth - column, 0)
    return jnp.where((column <= depth)[:, :, None], values.T[place], jnp.zeros((), values.dtype))


def from_depth(tree: Tree, rows: Any) -> Any:
    """The inverse of `by_depth`: (batch, pairs)."""
    i, j = tree.ancestor_pairs
    return rows[i, tree.depth[j]].T

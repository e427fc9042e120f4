"""LᵀDL and its solves as recursions over the tree, all rows of a level at once.

The Schur complement of row k on its ancestors is a matrix over their depths, 0 to d_k − 1. These are also the depths of
its parent and the parent's ancestors. So complements of children can be added, and the factorization is a leaffix with
complements as the state. The two triangular solves are a leaffix and a rootfix, with vectors over the depths as states.
The work is n · height², in `height` steps; the complements take n · height² numbers of memory.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

from kinetree.tree import InwardRecursion, Layout, OutwardRecursion, Tree, arrange, inward, outward, restore

from .packed import by_depth, from_depth


class FactorRow(NamedTuple):
    """A row of H (or of L) by the depth of the ancestor, (height, batch), and the row's own depth."""

    entries: Any
    depth: Any


def _at_depth(row: FactorRow, x: Any) -> Any:
    """The entry of x at each row's own depth; the first axis of x after the rows is a depth."""
    index = row.depth.reshape(-1, *(1,) * (x.ndim - 1))
    return jnp.take_along_axis(x, index, axis=1)[:, 0]


def _inside(row: FactorRow, x: Any) -> Any:
    """x with zeros at the row's own depth and beyond; its axis 1 is a depth."""
    inside = jnp.arange(x.shape[1], dtype=row.depth.dtype) < row.depth.reshape(-1, 1)
    return jnp.where(inside.reshape(*inside.shape, *(1,) * (x.ndim - 2)), x, jnp.zeros_like(x))


def _pivot_row(row: FactorRow, received: Any) -> tuple[Any, Any]:
    """Row k of the matrix before its elimination: H_kj for all ancestors j, and the pivot H_kk."""
    h = row.entries + _at_depth(row, received)
    return h, _at_depth(row, h)[:, None]


def _complement(row: FactorRow, received: Any) -> Any:
    """H_ij − H_ki H_kj / H_kk for all ancestors i and j of k."""
    h, pivot = _pivot_row(row, received)
    h = _inside(row, h)
    left = _inside(row, jnp.swapaxes(_inside(row, received), 1, 2))
    return left - h[:, :, None] * (h / pivot)[:, None, :]


COMPLEMENT = InwardRecursion(step=_complement, name="Schur complement")


def factor_rows(tree: Tree, values: Any) -> FactorRow:
    """Rows for the recursions below, from packed values, (batch, pairs)."""
    return FactorRow(by_depth(tree, values), jnp.asarray(tree.depth))


def factorize_levels(laid: Layout, tree: Tree, H: Any) -> Any:
    """L below the diagonal and D on it, packed, from H packed, (batch, pairs)."""
    rows = arrange(laid, factor_rows(tree, H))
    nothing = jnp.zeros((tree.height, tree.height, H.shape[0]), H.dtype)
    h, pivot = _pivot_row(rows, inward(COMPLEMENT, laid, rows, nothing))
    own = jnp.arange(tree.height, dtype=rows.depth.dtype) == rows.depth[:, None]
    return from_depth(tree, restore(laid, jnp.where(own[:, :, None], h, h / pivot)))


class SolveRow(NamedTuple):
    """A row of L and its right-hand side, (batch,)."""

    L: FactorRow
    b: Any


def _lt_known(row: SolveRow, received: Any) -> Any:
    return row.b - _at_depth(row.L, received)


def _lt_pass(row: SolveRow, received: Any) -> Any:
    return _inside(row.L, received + row.L.entries * _lt_known(row, received)[:, None])


def _l_extend(row: SolveRow, path: Any) -> Any:
    """The solution on a row's ancestors and, at its own depth, on the row."""
    x = row.b - (_inside(row.L, row.L.entries) * path).sum(1)
    own = jnp.arange(path.shape[1], dtype=row.L.depth.dtype) == row.L.depth[:, None]
    return jnp.where(own[:, :, None], x[:, None], path)


LT_SOLVE = InwardRecursion(step=_lt_pass, name="solve with L transposed")
L_SOLVE = OutwardRecursion(step=_l_extend, name="solve with L")


def _right_hand_side(laid: Layout, rows: FactorRow, b: Any) -> tuple[SolveRow, Any]:
    given = arrange(laid, SolveRow(rows, b.T))
    return given, jnp.zeros((rows.entries.shape[1], b.shape[0]), b.dtype)


def lt_solve_levels(laid: Layout, rows: FactorRow, b: Any) -> Any:
    """L⁻ᵀ b, (batch, n): x_j = b_j − Σ_{k below j} L_kj x_k."""
    given, nothing = _right_hand_side(laid, rows, b)
    return restore(laid, _lt_known(given, inward(LT_SOLVE, laid, given, nothing))).T


def l_solve_levels(laid: Layout, rows: FactorRow, b: Any) -> Any:
    """L⁻¹ b, (batch, n): x_i = b_i − Σ_{j above i} L_ij x_j."""
    given, nothing = _right_hand_side(laid, rows, b)
    path = outward(L_SOLVE, laid, given, nothing)
    return restore(laid, _at_depth(given.L, path)).T

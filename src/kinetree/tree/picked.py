"""Rows of arrays by their numbers, as one operation.

In JAX `x[index]` is five operations, since numbers may be negative, and takes three times as long to trace: that was a
seventh of the time of first calls.
"""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def pick(tree: Any, index: Any, axis: int = 0) -> Any:
    """`x[index]` along an axis, for every leaf.

    `index` is an array of numbers within bounds, a slice, or a number. Those of an array of JAX's count from the start.
    """
    plain = isinstance(index, slice | int | np.integer)
    place = (slice(None),) * axis + (index,)
    column = cache(lambda size: _column(index, size))  # all leaves share one constant

    def of(x: Any) -> Any:
        if plain or not (isinstance(x, jax.Array) or isinstance(index, jax.Array)):  # known numbers stay known
            return x[place]
        x = jnp.asarray(x)
        return _gather(x, column(x.shape[axis]), axis)

    return jax.tree.map(of, tree)


def _column(index: Any, size: int) -> Any:
    """Numbers from the start, with a last axis of one."""
    if isinstance(index, np.ndarray):
        if index.dtype == bool:
            index = np.flatnonzero(index)
        if (index < 0).any():
            index = np.where(index < 0, index + size, index)
        index = index.astype(np.int32 if size < 2**31 else np.int64)
    return index[..., None]


def _gather(x: Any, column: Any, axis: int) -> Any:
    before, after, form = x.shape[:axis], x.shape[axis + 1 :], column.shape[:-1]
    if 0 in form or 0 in before or 0 in after:
        return jnp.zeros((*before, *form, *after), x.dtype)
    kept = (*range(axis), *range(axis + len(form), x.ndim - 1 + len(form)))
    numbers = lax.GatherDimensionNumbers(offset_dims=kept, collapsed_slice_dims=(axis,), start_index_map=(axis,))
    return lax.gather(x, column, numbers, (*before, 1, *after), mode="promise_in_bounds")

"""Arrays that may be NumPy's or JAX's: which library computes with them, and their shapes and types."""

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def library(*values: Any) -> Any:
    """JAX's where one of the arrays in these trees is JAX's own, traced or not; else NumPy's."""
    return jnp if any(isinstance(x, jax.Array) for x in jax.tree.leaves(values)) else np


def flattened(x: Any) -> Any:
    """(batch, all other numbers). `reshape(len(x), -1)` can not tell how many those are where a batch is empty."""
    return x.reshape(len(x), math.prod(x.shape[1:]))


def dtype_of(x: Any) -> np.dtype:
    """The type of an array, or of the array that a list would make; float64 if it has no real numbers."""
    try:
        found = x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype
    except ValueError:  # rows that differ in length
        return np.dtype(float)
    return found if isinstance(found, np.dtype) and jnp.issubdtype(found, jnp.floating) else np.dtype(float)


def in_bits_of(dtype: Any) -> AbstractContextManager[Any]:
    """A context in which JAX computes in 64 bits, if the type has 64 bits."""
    narrow = dtype == np.float64 and not jax.config.jax_enable_x64  # type: ignore[attr-defined]
    return jax.enable_x64(True) if narrow else nullcontext()

"""Small dense equations, many at a time, in elementwise operations: XLA's batched solvers can hang on a few cores."""

from typing import Any

import jax.numpy as jnp


def cross_matrix(v: Any) -> Any:
    """v×, (..., 3, 3), from (..., 3)."""
    x, y, z = v[..., 0], v[..., 1], v[..., 2]
    zero = jnp.zeros_like(x)
    rows = [jnp.stack(r, -1) for r in ((zero, -z, y), (z, zero, -x), (-y, x, zero))]
    return jnp.stack(rows, -2)


def solve(A: Any, b: Any) -> Any:
    """A⁻¹ b of matrices (batch, n, n) and vectors (batch, n): Gauss's elimination with row pivots."""
    n = A.shape[-1]
    rows = jnp.concatenate([A, b[..., None]], -1)
    for k in range(n):
        best = k + jnp.argmax(jnp.abs(rows[:, k:, k]), -1)
        chosen = jnp.take_along_axis(rows, best[:, None, None], 1)[:, 0]
        rows = jnp.where((jnp.arange(n) == best[:, None])[..., None], rows[:, k, None], rows).at[:, k].set(chosen)
        factor = rows[:, :, k] / chosen[:, None, k]
        factor = jnp.where(jnp.arange(n) == k, jnp.zeros_like(factor), factor)
        rows = rows - factor[..., None] * chosen[:, None]
    return rows[:, :, n] / jnp.diagonal(rows, axis1=1, axis2=2)

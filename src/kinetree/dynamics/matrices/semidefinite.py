"""K⁺ r for a symmetric positive semidefinite K: redundant rows are found, and share the load.

The sweep operator with diagonal pivots, elementwise over the batch, eliminates the row with the largest pivot until the
rest is rounding error. Then rows in S are kept, and rows in D depend on them, G_D = T G_S. The matrix has the blocks
−K_SS⁻¹, Tᵀ, T and zero. With B = K_SS⁻¹ (zero elsewhere) and Π the projector onto the range of K, K⁺ = Π B Π. The null
space is spanned by (−Tᵀ; 1), so Π needs one more solve, with 1 + T Tᵀ.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from kinetree._varying import fori_loop

from .dense import solve_spd, times, transpose

RANK_EPS = 64.0  # machine epsilons, times the size of a matrix; a pivot below this share of its scale is zero


class SemidefiniteFactors(NamedTuple):
    """The matrix after the sweeps, (batch, m, m), and which rows are kept, (batch, m)."""

    inverse: Any  # K_SS⁻¹
    depend: Any  # T: how rows in D depend on those in S
    share: Any  # (1 + T Tᵀ)⁻¹
    kept: Any


def factor(K: Any, scale: Any) -> SemidefiniteFactors:
    """The factors of K, (batch, m, m); `scale`, (batch, m), is the diagonal entry of a row that moves freely."""
    m = K.shape[-1]
    place = jnp.arange(m)
    tiny = RANK_EPS * m * jnp.finfo(K.dtype).eps
    safe = jnp.where(scale > 0, scale, jnp.ones_like(scale))

    def sweep(_: Any, state: Any) -> Any:
        A, kept = state
        size = jnp.where(kept, -jnp.inf, jnp.diagonal(A, axis1=-2, axis2=-1) / safe)
        k = jnp.argmax(size, -1, keepdims=True)
        good = jnp.take_along_axis(size, k, -1) > tiny
        own = place == k
        row = jnp.take_along_axis(A, k[..., None], -2)[..., 0, :]
        pivot = jnp.take_along_axis(row, k, -1)
        scaled = row / jnp.where(good, pivot, jnp.ones_like(pivot))
        swept = A - row[..., :, None] * scaled[..., None, :]
        swept = jnp.where(own[..., :, None], scaled[..., None, :], swept)
        swept = jnp.where(own[..., None, :], scaled[..., :, None], swept)
        corner = own[..., :, None] & own[..., None, :]
        swept = jnp.where(corner, -1 / jnp.where(good, pivot, jnp.ones_like(pivot))[..., None], swept)
        return jnp.where(good[..., None], swept, A), kept | (own & good)

    A, kept = fori_loop(0, m, sweep, (K, jnp.zeros(K.shape[:-1], bool)))
    both = kept[..., :, None] & kept[..., None, :]
    zero = jnp.zeros((), K.dtype)
    T = jnp.where(~kept[..., :, None] & kept[..., None, :], A, zero)
    one = jnp.broadcast_to(jnp.eye(m, dtype=K.dtype), K.shape)
    return SemidefiniteFactors(jnp.where(both, -A, zero), T, solve_spd(one + T @ transpose(T), one), kept)


def projected(f: SemidefiniteFactors, v: Any) -> Any:
    """Π v, the part of v in the range of K."""
    zero = jnp.zeros((), v.dtype)
    along = times(f.share, jnp.where(f.kept, zero, v) - times(f.depend, v))
    return v + times(transpose(f.depend), along) - jnp.where(f.kept, zero, along)


def solve_factored(K: Any, f: SemidefiniteFactors, r: Any) -> Any:
    """K⁺ r, with one step of refinement."""
    r = projected(f, r)
    x = times(f.inverse, r)
    x = x + times(f.inverse, r - times(K, x))
    return projected(f, x)


def solver_of(K: Any, scale: Any) -> Callable[[Any], Any]:
    """A function from r to K⁺ r, (batch, m), factored once. Its derivatives are solves with the same K."""
    known = lax.stop_gradient(K)
    f = factor(known, lax.stop_gradient(scale))

    def solve(_: Any, r: Any) -> Any:
        return solve_factored(known, f, r)

    return lambda r: lax.custom_linear_solve(lambda x: times(K, x), r, solve, symmetric=True)


def scale_of(K: Any, classes: np.ndarray) -> Any:
    """(batch, m): for each row the largest diagonal entry of its class, such as all rows that hold a rotation."""
    diagonal = jnp.diagonal(K, axis1=-2, axis2=-1)
    same = classes[:, None] == classes[None, :]
    return jnp.where(same, diagonal[..., None, :], jnp.zeros((), K.dtype)).max(-1)

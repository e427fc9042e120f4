"""Dense solves that never call LAPACK on a CPU.

jaxlib 0.10 divides the batch of a LAPACK call among XLA's worker threads, and waits for them inside one of those
threads. If two such calls run at the same time on two cores, they wait forever. So on a CPU these methods are used:

    positive definite, few rows      the lane program of LᵀDL: a dense matrix is that of a chain
    positive definite, many rows     Cholesky's method in blocks, with XLA's matrix products
    stacks of small matrices         Gauss and Jordan's method, elementwise over the stack

Other devices use their own libraries. This is the only file that may name `linalg` of JAX. Derivatives of a solve are
solves with the same matrix, forward and in reverse.
"""

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as linalg
import numpy as np
from jax import lax

from kinetree._arrays import library
from kinetree._varying import fori_loop
from kinetree.tree import Tree

from ..schedules import tuning
from .ltdl_lanes import FACTORIZE, SOLVE


def times(A: Any, v: Any) -> Any:
    """Stacks of matrices on stacks of vectors."""
    return (A @ v[..., None])[..., 0]


def transpose(A: Any) -> Any:
    """Stacks of matrices, each transposed."""
    return jnp.swapaxes(A, -1, -2)


# -- one positive definite matrix to a state --------------------------------------------------------------------------


def solve_positive(A: Any, b: Any) -> Any:
    """A⁻¹ b, (batch, n), for symmetric A, (batch, n, n); NaN if A is not positive definite."""
    if isinstance(A, np.ndarray) and isinstance(b, np.ndarray) and A.shape[-1] <= tuning.DENSE_LANES_MAX_ROWS:
        return _lane_solve(_lane_factors(A), b)
    return _solve_positive(A, b)


@jax.jit
def _solve_positive(A: Any, b: Any) -> Any:
    few = A.shape[-1] <= tuning.DENSE_LANES_MAX_ROWS
    known = lax.stop_gradient(A)  # the rule below differentiates the product, not the factors
    factors = lax.platform_dependent(
        known,
        cpu=lambda A: _embedded(_lane_factors(A), A) if few else _blocked_cholesky(A),
        default=jnp.linalg.cholesky,
    )

    def solve(_: Any, b: Any) -> Any:
        return lax.platform_dependent(
            factors,
            b,
            cpu=lambda F, b: _lane_solve(_taken(F), b) if few else _cholesky_solve(F, b),
            default=lambda F, b: linalg.cho_solve((F, True), b[..., None])[..., 0],
        )

    return lax.custom_linear_solve(lambda x: times(A, x), b, solve, symmetric=True)


@lru_cache(maxsize=tuning.DENSE_LANES_MAX_ROWS + 1)
def _chain(n: int) -> Tree:
    """The tree of a dense matrix: the ancestors of a row are all rows before it."""
    return Tree(np.arange(n) - 1)


def _lane_factors(A: Any) -> Any:
    """Packed LᵀDL, (batch, pairs)."""
    chain = _chain(A.shape[-1])
    i, j = chain.ancestor_pairs
    return FACTORIZE(chain, A[:, i, j])


def _embedded(factors: Any, A: Any) -> Any:
    """Packed factors in a matrix, with the shape of a Cholesky factor."""
    i, j = _chain(A.shape[-1]).ancestor_pairs
    return jnp.zeros_like(A).at[:, i, j].set(factors)


def _taken(F: Any) -> Any:
    i, j = _chain(F.shape[-1]).ancestor_pairs
    return F[:, i, j]


def _lane_solve(factors: Any, b: Any) -> Any:
    chain = _chain(b.shape[-1])
    xp = library(factors)
    positive = (factors[:, chain.ancestor_start[:-1]] > 0).all(-1, keepdims=True)
    return xp.where(positive, SOLVE(chain, factors, b), xp.asarray(np.nan, b.dtype))


def pivots(A: Any) -> Any:
    """The pivots of an elimination of A, (batch, n); NaN if a large A is not positive definite."""
    A, n = lax.stop_gradient(A), A.shape[-1]
    if n <= tuning.DENSE_LANES_MAX_ROWS:
        return _lane_factors(A)[:, _chain(n).ancestor_start[:-1]]
    return jnp.square(jnp.diagonal(cholesky(A), axis1=1, axis2=2))


def cholesky(A: Any) -> Any:
    """The lower triangular G of A = G Gᵀ, (batch, n, n); NaN where A is not positive definite."""
    return lax.platform_dependent(A, cpu=_blocked_cholesky, default=jnp.linalg.cholesky)


def _blocked_cholesky(A: Any) -> Any:
    batch, n = A.shape[:2]
    size = -(-n // tuning.DENSE_BLOCK_ROWS) * tuning.DENSE_BLOCK_ROWS
    width = -(-size // tuning.DENSE_PANELS // tuning.DENSE_BLOCK_ROWS) * tuning.DENSE_BLOCK_ROWS
    whole = jnp.zeros((batch, size, size), A.dtype).at[:, :n, :n].set(A)
    whole = whole + jnp.diag(jnp.asarray(np.arange(size) >= n, A.dtype))  # pads the last block with a unit matrix
    panels: list[Any] = []  # of columns, from their diagonal down
    for first in range(0, size, width):
        here = whole[:, first:, first : first + width]
        for k, panel in enumerate(panels):
            rows = panel[:, first - k * width :]
            here = here - rows @ transpose(rows[:, : here.shape[2]])
        panels.append(_panel(here))
    columns = [jnp.pad(p, ((0, 0), (k * width, 0), (0, 0))) for k, p in enumerate(panels)]
    return jnp.concatenate(columns, -1)[:, :n, :n]


def _panel(A: Any) -> Any:
    """The first columns of a Cholesky factor from those of its matrix, (batch, m, w), block by block."""
    _, m, w = A.shape
    row = jnp.arange(m)[:, None]

    def block(k: Any, G: Any) -> Any:
        at = k * tuning.DENSE_BLOCK_ROWS
        own = lax.dynamic_slice_in_dim(G, at, tuning.DENSE_BLOCK_ROWS, 1)  # zero from the block's own columns on
        column = lax.dynamic_slice_in_dim(A, at, tuning.DENSE_BLOCK_ROWS, 2) - G @ transpose(own)
        factor, inverse = _factored(lax.dynamic_slice_in_dim(column, at, tuning.DENSE_BLOCK_ROWS, 1))
        below = jnp.where(row >= at + tuning.DENSE_BLOCK_ROWS, column @ transpose(inverse), jnp.zeros((), A.dtype))
        below = lax.dynamic_update_slice_in_dim(below, factor, at, 1)
        return lax.dynamic_update_slice_in_dim(G, below, at, 2)

    return fori_loop(0, w // tuning.DENSE_BLOCK_ROWS, block, jnp.zeros_like(A))


def _factored(D: Any) -> tuple[Any, Any]:
    """G and G⁻¹ of one block: elimination takes (D | 1) to (Gᵀ | G⁻¹)."""
    n = D.shape[-1]
    row = jnp.arange(n)[:, None]

    def eliminate(k: Any, M: Any) -> Any:
        pivot = lax.dynamic_index_in_dim(M, k, -2)
        root = jnp.sqrt(lax.dynamic_index_in_dim(pivot, k, -1))
        pivot = pivot / root
        left = M - lax.dynamic_index_in_dim(M, k, -1) / root * pivot
        return jnp.where(row == k, pivot, jnp.where(row > k, left, M))

    one = jnp.broadcast_to(jnp.eye(n, dtype=D.dtype), D.shape)
    M = fori_loop(0, n, eliminate, jnp.concatenate([D, one], -1))
    return jnp.tril(transpose(M[..., :n])), jnp.tril(M[..., n:])


def _cholesky_solve(G: Any, b: Any) -> Any:
    """(G Gᵀ)⁻¹ b: both sweeps row by row; the second uses Gᵀ with reversed order."""
    y = _substituted(G, b)
    return _substituted(transpose(G)[:, ::-1, ::-1], y[:, ::-1])[:, ::-1]


def _substituted(G: Any, b: Any) -> Any:
    place = jnp.arange(b.shape[-1])

    def row(k: Any, x: Any) -> Any:
        of_row = lax.dynamic_index_in_dim(G, k, 1, keepdims=False)
        known = (jnp.where(place < k, of_row, jnp.zeros((), G.dtype)) * x).sum(-1)
        pivot = lax.dynamic_index_in_dim(of_row, k, 1, keepdims=False)
        value = (lax.dynamic_index_in_dim(b, k, 1, keepdims=False) - known) / pivot
        return lax.dynamic_update_slice_in_dim(x, value[:, None], k, 1)

    return fori_loop(0, b.shape[-1], row, jnp.zeros_like(b))


# -- stacks of small matrices -----------------------------------------------------------------------------------------


def solve_spd(A: Any, B: Any) -> Any:
    """A⁻¹ B for stacks of symmetric positive definite A, (..., k, k), which need no pivoting; B is (..., k, m)."""

    def solve(_: Any, B: Any) -> Any:
        return _gauss_jordan(A, B, pivoting=False)

    return lax.custom_linear_solve(lambda X: A @ X, B, solve, symmetric=True)


def solve_general(A: Any, B: Any) -> Any:
    """A⁻¹ B for stacks of regular A, (..., k, k), with row pivoting; B is (..., k, m)."""

    def solve(_: Any, B: Any) -> Any:
        return _gauss_jordan(A, B, pivoting=True)

    def transposed(_: Any, B: Any) -> Any:
        return _gauss_jordan(transpose(A), B, pivoting=True)

    return lax.custom_linear_solve(lambda X: A @ X, B, solve, transposed)


def _gauss_jordan(A: Any, B: Any, pivoting: bool) -> Any:
    k = A.shape[-1]
    if k == 0:
        return B
    place = jnp.arange(k)[:, None]

    def swapped(i: Any, M: Any) -> Any:
        """Swap row i with the row, from i on, that has the largest entry in column i."""
        size = jnp.abs(lax.dynamic_index_in_dim(M, i, -1))
        size = jnp.where(place >= i, size, jnp.asarray(-1, M.dtype))
        chosen = place == jnp.argmax(size, -2, keepdims=True)
        row = jnp.where(chosen, M, jnp.zeros((), M.dtype)).sum(-2, keepdims=True)
        return jnp.where(place == i, row, jnp.where(chosen, lax.dynamic_index_in_dim(M, i, -2), M))

    def eliminate(i: Any, M: Any) -> Any:
        M = swapped(i, M) if pivoting else M
        row = lax.dynamic_index_in_dim(M, i, -2)
        row = row / lax.dynamic_index_in_dim(row, i, -1)
        return jnp.where(place == i, row, M - lax.dynamic_index_in_dim(M, i, -1) * row)

    return fori_loop(0, k, eliminate, jnp.concatenate([A, B], -1))[..., k:]


def orthonormal_basis(P: Any) -> Any:
    """Q, (..., m, m), orthogonal, whose first columns span those of P, (..., m, k), by Householder's reflections.

    Columns of zeros must be the last ones of P; they change nothing.
    """
    m, k = P.shape[-2:]
    place = np.arange(m)
    Q = jnp.broadcast_to(jnp.eye(m, dtype=P.dtype), (*P.shape[:-2], m, m))
    zero, one = jnp.zeros((), P.dtype), jnp.ones((), P.dtype)
    for i in range(k):  # at most six motions of a joint
        x = jnp.where(place >= i, P[..., i], zero)
        square = (x * x).sum(-1, keepdims=True)
        length = jnp.sqrt(jnp.where(square > 0, square, one))  # the derivative of sqrt at 0 is infinite
        v = x + jnp.where(place == i, jnp.where(x[..., i : i + 1] < 0, -length, length), zero)
        v = jnp.where(square > 0, v, zero)
        norm = (v * v).sum(-1, keepdims=True)[..., None]
        reflect = jnp.where(norm > 0, 2 / jnp.where(norm > 0, norm, one), zero) * v[..., :, None] * v[..., None, :]
        P, Q = P - reflect @ P, Q - Q @ reflect
    return Q

"""JSIIA for closed loops: the inertia matrix is projected onto independent joints (Yang, Wu and Pan 2017 §VI).

Rows of loops, G qdd = γ, are solved for some joints, one for each independent row: qdd = T u + s, with u the
accelerations of all other joints. Elimination with complete pivoting chooses the joints. Then (Tᵀ H T) u = Tᵀ (τ − C −
H s), the same system as for trees (eq. 4).
"""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree._varying import fori_loop
from kinetree.model import Loops, Model
from kinetree.model.arguments import evaluate_for
from kinetree.model.memory import require_matrices
from kinetree.tree import layout

from ..inverse_dynamics import inverse_dynamics, zero_rates
from ..loops.forward import rows_of_state
from ..loops.rows import LoopRows, wanted
from ..mass_matrix import mass_matrix
from ..matrices.dense import solve_positive, times, transpose
from ..matrices.semidefinite import RANK_EPS
from ..positive import without_singular
from .jsiia import inertia_columns


def independent(G: Any, right: Any) -> tuple[Any, Any]:
    """T, (batch, nv, nv), with columns of zeros for joints that depend on others, and s, (batch, nv)."""
    batch, m, nv = G.shape
    row, column = jnp.arange(m), jnp.arange(nv)
    whole = jnp.concatenate([G, right[..., None]], -1)
    size = jnp.abs(G).max((1, 2), keepdims=True)
    least = RANK_EPS * nv * jnp.finfo(G.dtype).eps * size
    zero = jnp.zeros((), G.dtype)

    def eliminate(_: Any, state: Any) -> Any:
        A, used, of_column = state
        open_entries = jnp.where(used[:, :, None] | (of_column >= 0)[:, None, :], zero, jnp.abs(A[..., :nv]))
        place = jnp.argmax(open_entries.reshape(batch, -1), -1)
        i, j = place // nv, place % nv
        good = open_entries.max((1, 2), keepdims=True) > least
        pivot_row = jnp.take_along_axis(A, i[:, None, None], 1)
        pivot = jnp.take_along_axis(pivot_row, j[:, None, None], 2)
        pivot_row = pivot_row / jnp.where(good, pivot, jnp.ones_like(pivot))
        own = (row == i[:, None])[..., None]
        others = A - jnp.take_along_axis(A, j[:, None, None], 2) * pivot_row
        A = jnp.where(good, jnp.where(own, pivot_row, others), A)
        used = used | (own[..., 0] & good[..., 0])
        found = (column == j[:, None]) & good[:, 0]
        return A, used, jnp.where(found, i[:, None], of_column)

    start = whole, jnp.zeros((batch, m), bool), jnp.full((batch, nv), -1)
    A, _, of_column = fori_loop(0, min(m, nv), eliminate, start)
    depends = of_column >= 0
    rows = jnp.take_along_axis(A, jnp.maximum(of_column, 0)[..., None], 1)  # (batch, nv, nv + 1)
    rows = jnp.where(depends[..., None], rows, zero)
    s = rows[..., nv]
    T = jnp.where(depends[:, None, :], zero, jnp.eye(nv, dtype=G.dtype) - rows[..., :nv])
    return T, s


@jax.jit
def _solved(loops: Loops, rows: LoopRows, H: Any, force: Any) -> Any:
    T, s = independent(rows.G, wanted(loops, rows))
    empty = (jnp.diagonal(T, axis1=1, axis2=2) == 0).astype(H.dtype)
    reduced = transpose(T) @ H @ T + empty[..., None] * jnp.eye(H.shape[-1], dtype=H.dtype)
    return times(T, solve_positive(reduced, times(transpose(T), force - times(H, s)))) + s


def projected_forward_dynamics(model: Model, q: Any, qd: Any, tau: Any, f_ext: Any) -> Any:
    """Accelerations, (..., nv), of a model with loops."""
    loops, tree = model.loops, model.without_loops
    assert loops is not None

    def compute(q: Any, qd: Any, tau: Any, f_ext: Any) -> Any:
        require_matrices("method 'jsiia'", q, model.nv, model.nv, copies=20, instead="method 'aba'")
        rows = rows_of_state(model, q, qd)
        if model.coupling is None:
            H = inertia_columns(layout(model.tree, "paths"), tree, q)
        else:
            H = jnp.asarray(mass_matrix(tree, q))
        qdd = _solved(loops, rows, H, tau - inverse_dynamics(tree, q, qd, zero_rates(tree, qd), f_ext))
        return qdd if model.coupling is not None else without_singular(tree, q, qdd)

    return evaluate_for(model, compute, q=q, qd=qd, tau=tau, f_ext=f_ext)

"""JSIIA, the joint-space inertia inversion algorithm: H from columns of inverse dynamics, then a dense solve.

Column i of H is the force that gives joint i a unit acceleration and the others none, in a mechanism at rest and
without gravity (Yang, Wu and Pan 2017 §II-B; Walker and Orin 1982, method 1). The columns are independent, so they are
one batch. Then q̈ = H⁻¹ (τ − C) (eq. 4) by a dense factorization. The cost is O(n²) for H in O(log n) steps, and O(n³)
for the solve.

H x is computed without H, as inverse dynamics at rest without gravity, in two passes. At rest a spatial acceleration
has the recursion of a velocity, a = X a_parent + S x, and f = I a. So H x is both the force that accelerates by x and
the generalised momentum at the rates x.
"""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree.model import Model
from kinetree.model.memory import require_matrices
from kinetree.spatial import Force, Motion
from kinetree.tree import Layout, inward, layout, outward, restore

from ..algorithms.rnea import WRENCH, pass_on
from ..inverse_dynamics import bias_force
from ..matrices.dense import solve_positive
from ..positive import without_singular
from ..recursion import Inward, Row
from ..schedules.arranged import VELOCITIES, Arranged, arranged, by_position
from ..schedules.operators import inward_operator

WRENCHES = inward_operator(Inward("force", pass_on, stretch=WRENCH))


def inertia_times(laid: Layout, at: Arranged, x: Any) -> Any:
    """H x for x by position, (positions, ..., batch). The middle axes are free, for all columns of H at once."""
    axes = (slice(None), *(None,) * (x.ndim - 2))
    rows, placed = jax.tree.map(lambda c: c[axes], (at.rows, at.placed))
    still = jnp.zeros(x.shape[1:], x.dtype)
    a = outward(VELOCITIES, laid, Row(at=placed, axis=rows.axis, qd=x), Motion.zero_like(still))
    f = rows.inertia @ a
    received = inward(WRENCHES, laid, Row(at=placed, own=f), Force.zero_like(still))
    return rows.axis.dot(f + received) + rows.armature * x


@jax.jit
def inertia_columns(laid: Layout, model: Model, q: Any) -> Any:
    """H, (batch, nv, nv), by columns."""
    at = arranged(laid, model, q)
    unit = by_position(laid, jnp.eye(model.nv, dtype=q.dtype))[:, :, None]  # (positions, columns, 1)
    columns = inertia_times(laid, at, jnp.broadcast_to(unit, (*unit.shape[:2], q.shape[0])))
    return jnp.transpose(restore(laid, columns), (2, 0, 1))


def forward_dynamics_jsiia(model: Model, q: Any, qd: Any, tau: Any, f_ext: Any) -> Any:
    """Accelerations, (batch, nv)."""
    require_matrices("method 'jsiia'", q, model.nv, model.nv, copies=20, instead="method 'aba'")
    H = inertia_columns(layout(model.tree, "paths"), model, q)
    return without_singular(model, q, solve_positive(H, tau - bias_force(model, q, qd, f_ext)))

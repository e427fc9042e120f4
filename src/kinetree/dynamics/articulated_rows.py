"""What the inward pass of the articulated-body algorithm knows of every row: for methods that go their own way."""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree.model import Model
from kinetree.tree import Layout
from kinetree.tree.fix import outward_visits

from .aba import shifted
from .algorithms.aba import ABA, own_body
from .elements.articulated import Articulated, base_acceleration, pivot
from .recursion import Row
from .schedules.arranged import Arranged, applied_forces, by_position, row_poses, row_velocities
from .schedules.operators import outward_operator


def articulated_rows(laid: Layout, model: Model, at: Arranged, qd: Any, tau: Any, f_ext: Any) -> Row:
    """`at`, `axis`, `armature`, `v`, `qd`, `tau` and `own`, (positions, batch)."""
    tau = by_position(laid, shifted(model, tau, qd))
    qd = by_position(laid, qd)
    v = row_velocities(laid, at, qd)
    own = own_body(Row(inertia=at.rows.inertia, v=v))
    if f_ext is not None:
        own = own._replace(bias=own.bias - applied_forces(laid, model, row_poses(laid, at), f_ext))
    row = Row(at=at.placed.transform, axis=at.rows.axis, armature=at.rows.armature, v=v, qd=qd, tau=tau, own=own)
    row["mass"] = at.rows.inertia.mass
    return jax.tree.map(lambda x: jnp.broadcast_to(x, qd.shape), row)


def accelerations(laid: Layout, at: Arranged, rows: Row, whole: Articulated) -> tuple[Any, Any]:
    """Accelerations of every position and of its joint, given its articulated body; the last pass."""
    row = Row({**rows, "joint": pivot(rows.axis, rows.armature, rows.tau, whole)})
    a, found = outward_visits(outward_operator(ABA.passes[2]), laid, row, base_acceleration(at.gravity))
    return a, found["qdd"]

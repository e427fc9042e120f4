"""Bodies and joints as 6 by 6 arrays, for the methods that use single bodies: DCA, DCAe and CFA.

The rows of one joint become one body with a joint of several degrees of freedom. These methods divide by the inertia of
a single body, so bodies without inertia are refused.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.model import Model, Structure
from kinetree.model.arguments import is_traced
from kinetree.model.coordinates import velocity_product_shift
from kinetree.spatial import Transform
from kinetree.tree import Layout, restore

from ..algorithms.aba import own_body
from ..elements.articulated import velocity_product
from ..firmness import joint_tree, resists
from ..joint_terms import row_force
from ..matrices.dense import times
from ..recursion import Row
from ..schedules.arranged import Arranged, applied_forces, arranged, by_position, row_poses, row_velocities


class JointedBodies(NamedTuple):
    """Arrays over (joints, batch); joints with fewer than k degrees of freedom have columns of zeros in P."""

    X: Any  # (6, 6): from the parent's coordinates
    P: Any  # (6, k): the joint's motions
    c: Any  # (6,): velocity products
    I: Any  # (6, 6)
    p: Any  # (6,): bias force
    tau: Any  # (k,)
    armature: Any  # (k,); 1 where there is no degree of freedom, so that nothing is singular
    gravity: Any  # (batch, 6): acceleration of the base


def plucker_matrix(X: Transform) -> Any:
    """(..., 6, 6)."""
    E = X.E.array()
    x, y, z = X.r
    zero = jnp.zeros_like(x)
    rx = jnp.stack([zero, -z, y, z, zero, -x, -y, x, zero], -1).reshape(*x.shape, 3, 3)
    upper = jnp.concatenate([E, jnp.zeros_like(E)], -1)
    return jnp.concatenate([upper, jnp.concatenate([-(E @ rx), E], -1)], -2)


def plucker_inverse(X: Any) -> Any:
    """The inverse of (..., 6, 6): its 3 by 3 blocks, each transposed."""
    blocks = X.reshape(*X.shape[:-2], 2, 3, 2, 3)
    return jnp.swapaxes(blocks, -3, -1).reshape(X.shape)


def moving_rows(laid: Layout, model: Model, at: Arranged, qd: Any, tau: Any, f_ext: Any) -> Row:
    """Fields of all rows for articulated bodies: `at`, `axis`, `armature`, `v`, `qd`, `tau`, `own`, (rows, batch)."""
    armature, slide = (jnp.asarray(x, tau.dtype) for x in (model.rows.armature, model.rows.slide))
    shift = velocity_product_shift(model.structure, qd.T).T
    tau = by_position(laid, row_force(tau, armature, slide, shift))
    qd = by_position(laid, qd)
    v = row_velocities(laid, at, qd)
    own = own_body(Row(inertia=at.rows.inertia, v=v))
    if f_ext is not None:
        own = own._replace(bias=own.bias - applied_forces(laid, model, row_poses(laid, at), f_ext))
    row = Row(at=at.placed.transform, axis=at.rows.axis, armature=at.rows.armature, v=v, qd=qd, tau=tau, own=own)
    return restore(laid, jax.tree.map(lambda x: jnp.broadcast_to(x, qd.shape), row))


def jointed_bodies(laid: Layout, model: Model, q: Any, qd: Any, tau: Any, f_ext: Any) -> JointedBodies:
    """From a state, (batch, ...)."""
    at = arranged(laid, model, q)
    rows = moving_rows(laid, model, at, qd, tau, f_ext)
    joints = joint_tree(model.structure)
    widest = int(joints.count.max(initial=1))
    X_row, c_row = plucker_matrix(rows.at), velocity_product(rows.v, rows.axis, rows.qd).array()
    S_row = rows.axis.times(jnp.ones_like(rows.tau)).array()
    shape = (len(joints.first), q.shape[0])
    X = jnp.broadcast_to(jnp.eye(6, dtype=q.dtype), (*shape, 6, 6))
    P, c = jnp.zeros((*shape, 6, widest), q.dtype), jnp.zeros((*shape, 6), q.dtype)
    for k in range(widest):  # at most six rows to a joint
        has = joints.count > k
        row = np.where(has, joints.first + k, joints.last)
        step = jnp.where(has[:, None, None, None], X_row[row], jnp.eye(6, dtype=q.dtype))
        mask = jnp.asarray(has[:, None, None], q.dtype)
        X, P = step @ X, (step @ P).at[..., k].set(S_row[row] * mask)
        c = times(step, c) + c_row[row] * mask
    used = np.arange(widest) < joints.count[:, None]
    by_joint = np.where(used, joints.first[:, None] + np.arange(widest), 0)

    def spread(x: Any, empty: float) -> Any:  # (rows, batch) to (joints, batch, widest)
        return jnp.where(used[:, None, :], jnp.moveaxis(x[by_joint], 1, 2), jnp.asarray(empty, x.dtype))

    I, p = rows.own.inertia.array()[joints.last], rows.own.bias.array()[joints.last]
    g = at.gravity
    base = jnp.concatenate([jnp.zeros((q.shape[0], 3), q.dtype), (-g).array()], -1)
    return JointedBodies(X, P, c, I, p, spread(rows.tau, 0.0), spread(rows.armature, 1.0), base)


def by_dof(structure: Structure, u: Any) -> Any:
    """(joints, batch, k) as (batch, nv)."""
    joints = joint_tree(structure)
    joint = np.repeat(np.arange(len(joints.first)), joints.count)
    number = np.arange(len(joint)) - joints.first[joint]
    return u[joint, :, number].T


def require_inertias(model: Model, method: str) -> None:
    """Refuse models with a body that does not resist every motion. Traced models are not checked."""
    inertia = model.rows.inertia
    if is_traced(inertia):
        return
    last = joint_tree(model.structure).last
    own = jax.tree.map(lambda x: np.asarray(x)[last], inertia)
    weak = (own.mass <= 0) | ~resists(own, 1e-12 * (own.I.xx + own.I.yy + own.I.zz))
    if weak.any():
        row = int(last[int(np.argmax(weak))])
        body = int(np.argmax(model.structure.v_start[1:] > row))
        name = model.structure.names[body]
        raise ValueError(
            f"method {method!r} divides by each body's inertia, and {name!r} does not resist every motion: choose 'aba'"
        )

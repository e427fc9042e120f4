"""VNEB: the variant of the Newton-Euler based algorithm of Fijany and Bejczy (1989), and its forward dynamics.

A unit acceleration of joint i, with the others at rest, moves only the links outside it. Let all vectors be in one
frame, Z(i) the axis of joint i, P(j, i) the vector from its origin to that of link j, and M(j), H(j), K(j) the moments
of mass of link j about its origin. Then the forces of column i of the inertia matrix are (eq. 7-13, here for screws:
turn 1 for a hinge, slide 1 for a slider)
    ω̇(j, i) = turn Z(i)                        V̇(j, i) = slide Z(i) + ω̇(j, i) × P(j, i)
    F(j, i) = M(j) V̇(j, i) + ω̇(j, i) × H(j)   N(j, i) = K(j) ω̇(j, i) + H(j) × V̇(j, i)
and a_ji = Z(j) · (their sum over the links outside j, moments about j's origin). All n² terms are one map. The products
of rotations (eq. 17), the positions (eq. 24) and the sums (eq. 28, 29) are recurrences in log n steps: here scans of
the tree, which also serve branches. The frame is that of the root row; the paper takes that of the end effector, but a
tree has many of these. A Cholesky factorization and two triangular solves follow (§IV).
"""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree.model import Model, Placement
from kinetree.model.memory import require_matrices
from kinetree.spatial import Force, Inertia, Quaternion, Rates, Vec3
from kinetree.tree import Layout, Tree, inward, layout, restore

from ..algorithms.rnea import body_force
from ..inverse_dynamics import bias_force
from ..matrices.crba import ancestor_mask, poses_in_tree
from ..matrices.dense import solve_positive
from ..positive import without_singular
from ..recursion import Row
from ..schedules.arranged import arranged
from .jsiia import WRENCHES


def _in_one_frame(laid: Layout, model: Model, q: Any) -> tuple:
    """Step 1, eq. 16-22: axes Z, positions P and inertias (M, H, K) of all links in the frame of the root row."""
    at = arranged(laid, model, q)
    pose = poses_in_tree(laid, model.tree, at)  # eq. 17 and 24: one scan gives rotations and positions
    E = pose.orientation.rotation()
    I = at.rows.inertia
    turned = Inertia(jnp.broadcast_to(I.mass, pose.position.x.shape), E.t_mul(I.h), I.I.turned_back(E))  # eq. 21, 22
    return at.rows, E.rows[2], pose.position, turned  # the rows of E are the axes of the link; Z is the third (eq. 19)


@jax.jit
def inertia_matrix(laid: Layout, model: Model, q: Any) -> Any:
    """H, (batch, nv, nv), all columns at once."""
    rows, Z, P, links = _in_one_frame(laid, model, q)

    def column(x: Any) -> Any:
        """Data by row as (1, columns, batch), for the joint that moves."""
        return jax.tree.map(lambda c: c[None], restore(laid, x))

    def link(x: Any) -> Any:
        return jax.tree.map(lambda c: c[:, None], x)

    moved = _outside(laid, model.tree, q.dtype)[:, :, None]
    omega_dot = column(Z) * (column(rows.turn) * moved)  # eq. 7, 23
    V_dot = column(Z) * (column(rows.slide) * moved) + omega_dot.cross(link(P) - column(P))  # eq. 8, 25
    own = body_force(link(links).moments(), Rates(Vec3.zero_like(V_dot.x), omega_dot, V_dot))  # eq. 9, 10, 26, 27
    inner = link(P - _inner_origin(laid, model.tree, P))  # eq. 20
    still = jnp.zeros(V_dot.x.shape[1:], q.dtype)
    shift = Placement(Quaternion.identity_like(inner.x), inner)
    outer = inward(WRENCHES, laid, Row(at=shift, own=own), Force.zero_like(still))  # eq. 11, 12, 28, 29
    whole = own + outer
    a = link(Z).dot(whole.angular) * link(rows.turn) + link(Z).dot(whole.linear) * link(rows.slide)  # eq. 13, 30
    lower = jnp.transpose(restore(laid, a), (2, 0, 1))
    below = ancestor_mask(model.tree)
    H = jnp.where(below, lower, jnp.where(below.T, jnp.swapaxes(lower, 1, 2), jnp.zeros_like(lower)))
    return H + jnp.diag(jnp.asarray(model.rows.armature, q.dtype))


def _outside(laid: Layout, tree: Tree, dtype: Any) -> Any:
    """(positions, columns): 1 where the row at a position moves with the column's joint."""
    return ancestor_mask(tree)[jnp.asarray(laid.row_at)].astype(dtype)


def _inner_origin(laid: Layout, tree: Tree, P: Vec3) -> Vec3:
    """Position of the parent of each position's row; for root rows, which are at the origin, the origin."""
    parent = jnp.asarray(tree.parent)[laid.row_at]
    above = jnp.where(parent >= 0, jnp.asarray(laid.position_of)[parent], 0)
    return jax.tree.map(lambda c: c[above], P)


def forward_dynamics_vneb(model: Model, q: Any, qd: Any, tau: Any, f_ext: Any) -> Any:
    """Accelerations, (batch, nv): the inertia matrix, the bias vector b, and A q̈ = τ − b (eq. 3)."""
    require_matrices("method 'vneb'", q, model.nv, model.nv, copies=20, instead="method 'aba'")
    A = inertia_matrix(layout(model.tree, "paths"), model, q)
    b = bias_force(model, q, qd, f_ext)
    return without_singular(model, q, solve_positive(A, tau - b))

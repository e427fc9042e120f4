"""The composite-rigid-body algorithm: the mass matrix from the inertias of subtrees.

    Iᶜ_i = I_i + Σ_{j child of i} X_jᵀ Iᶜ_j X_j       an inward recursion over 10 numbers (Lynghus 2026 eq. 76)
    F_i  = Iᶜ_i S_i                                   (eq. 78)
    H_ij = F_i · S_j = H_ji for j on the way from the base to i, 0 where neither supports the other    (eq. 77)

Lynghus takes F_i to the base and from there to j, for every pair. Taking S_j to the base as well leaves a product of
two (n, 6) factors under the mask of ancestors: nothing but H itself is as large as H. "The base" is here the root row
of each tree, which spares a floating robot the rounding errors of its distance from the world origin. What is left is
an absolute error of about ε |r| |F_i| in row i, r being the distance from the root: below 1e-14 of the largest entry
for chains of up to 1 000 bodies (benchmarks/NOTES.md). The diagonal is taken in each row's own frame. The lane
program (crba_lanes.py), which walks from row to row, has no such term.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from kinetree.lanes import native_enabled
from kinetree.model import Model, Placement
from kinetree.spatial import Force, Inertia, Motion, Transform
from kinetree.tree import Inward, Layout, Tree, arrange, inward, layout, outward, restore

from .arranged import Arranged, arranged
from .crba_lanes import crba_lanes
from .poses import POSE, identity_pose
from .schedule import IN_ORDER, resolve_schedule


class HeavyRow(NamedTuple):
    """What the recursion knows of a row, and of a stretch of rows: where it stands, and its inertia."""

    X: Transform
    inertia: Inertia


def _passed_on(row: HeavyRow, outer: Inertia) -> Inertia:
    return row.X.inertia_to_parent(row.inertia + outer)


COMPOSITE = Inward(
    step=_passed_on,
    element=lambda row, branches: HeavyRow(row.X, _passed_on(row, branches)),
    combine=lambda inner, outer: HeavyRow(outer.X @ inner.X, inner.inertia + inner.X.inertia_to_parent(outer.inertia)),
    act=lambda e, outer: e.inertia + e.X.inertia_to_parent(outer),
    identity=lambda e: HeavyRow(Transform.identity_like(e.X.r.x), Inertia.zero_like(e.X.r.x)),
    name="composite inertia",
)


def composite_momenta(laid: Layout, at: Arranged) -> Force:
    """F = Iᶜ S of every position, in its own coordinates: the momentum of its subtree at unit rate."""
    outer = inward(COMPOSITE, laid, HeavyRow(at.placed.transform, at.rows.inertia), Inertia.zero_like(at.gravity.x))
    return (at.rows.inertia + outer) @ at.rows.axis.times(jnp.ones_like(outer.mass))


def mass_diagonal(laid: Layout, at: Arranged) -> Any:
    """S · Iᶜ S and the armature, by position: the diagonal of H."""
    return at.rows.axis.dot(composite_momenta(laid, at)) + at.rows.armature


def poses_in_tree(laid: Layout, tree: Tree, at: Arranged) -> Placement:
    """Pose of every position in the frame of the root row of its tree."""
    root = arrange(laid, (tree.parent < 0)[:, None])
    here = identity_pose(at.placed.position.x)
    placed = jax.tree.map(lambda still, given: jnp.where(root, still, given), here, at.placed)
    return outward(POSE, laid, placed, identity_pose(at.gravity.x))


class Factors(NamedTuple):
    """H as a product, by row, (rows, batch): H_ij = force_i · axis_j for j a strict ancestor of i."""

    force: Force
    axis: Motion
    diagonal: Any


def factors(laid: Layout, model: Model, q: Any) -> Factors:
    """Composite momenta and joint axes in the frames of the root rows; q is (batch, nq)."""
    at = arranged(laid, model, q)
    F = composite_momenta(laid, at)
    X = poses_in_tree(laid, model.tree, at).transform
    S = at.rows.axis.times(jnp.ones_like(F.linear.x))
    diagonal = at.rows.axis.dot(F) + at.rows.armature
    return restore(laid, Factors(X.force_to_parent(F), X.motion_to_parent(S), diagonal))


def ancestor_mask(tree: Tree) -> Any:
    """(n, n): whether j is i or an ancestor of i, from the intervals of the Euler tour."""
    lp, rp = jnp.asarray(tree.lp), jnp.asarray(tree.rp)
    return (lp[None, :] <= lp[:, None]) & (rp[:, None] <= rp[None, :])


@jax.jit
def _dense_by_factors(laid: Layout, model: Model, q: Any) -> Any:
    """H, (batch, nv, nv)."""
    f = factors(laid, model, q)
    force, axis = (jax.tree.map(jnp.transpose, part) for part in (f.force, f.axis))  # (batch, rows)
    column, row = (lambda x: x[:, :, None]), (lambda x: x[:, None, :])
    lower = jax.tree.map(row, axis).dot(jax.tree.map(column, force))
    upper = jax.tree.map(column, axis).dot(jax.tree.map(row, force))
    below = ancestor_mask(model.tree)
    off_diagonal = jnp.where(below, lower, jnp.where(below.T, upper, jnp.zeros_like(lower)))
    return jnp.where(jnp.eye(model.nv, dtype=bool), column(f.diagonal.T), off_diagonal)


@jax.jit
def _packed_by_factors(laid: Layout, model: Model, q: Any, pairs: Any) -> Any:
    """H on the ancestor pairs, (batch, pairs): one map over them."""
    f = factors(laid, model, q)
    i, j = pairs

    def take(part: Any, rows: Any) -> Any:
        return jax.tree.map(lambda x: x.at[rows].get(mode="promise_in_bounds"), part)

    off_diagonal = take(f.axis, j).dot(take(f.force, i))
    return jnp.where((i == j)[:, None], take(f.diagonal, i), off_diagonal).T


SMALL = 64  # rows up to which walking the pairs is the fastest everywhere
PAIRS = 2**18  # that the native lanes walk faster than XLA multiplies factors, for one state (benchmarks/NOTES.md)
SHARE = 16  # states that may share a longer walk


def choose_schedule(tree: Tree, batch: int) -> str:
    """Walk the pairs, or multiply factors."""
    native_cpu = native_enabled() and jax.default_backend() == "cpu"
    walk = tree.n <= SMALL or (native_cpu and tree.n_ancestor_pairs <= PAIRS * min(batch, SHARE))
    return "lanes" if walk else "paths"


def crba(model: Model, q: Any, *, packed: bool = False, schedule: str = "auto") -> Any:
    """H, (batch, nv, nv), or packed, (batch, pairs); `schedule`: "auto", "lanes", "sequential", "levels" or "paths"."""
    tree = model.tree
    chosen = choose_schedule(tree, q.shape[0]) if schedule == "auto" else resolve_schedule(schedule, tree, q.shape[0])
    if chosen in IN_ORDER:
        H = crba_lanes(len(model.structure.quaternion_joints) > 0, packed)(model, q, schedule=chosen)[0]
        return H if packed else H.reshape(-1, tree.n, tree.n)
    laid = layout(tree, chosen)
    if packed:
        return _packed_by_factors(laid, model, q, tree.ancestor_pairs)
    return _dense_by_factors(laid, model, q)

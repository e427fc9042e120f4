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

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.lanes import native_enabled
from kinetree.lanes.pairs import all_pairs, each_pair
from kinetree.model import Model, Placement
from kinetree.model.memory import require_matrices
from kinetree.spatial import Force, Inertia
from kinetree.tree import Layout, Tree, arrange, inward, layout, outward, restore
from kinetree.tree.stages import Stages

from .arranged import Arranged, arranged
from .composite import COMPOSITE, ENTRIES, Factors, HeavyRow, intervals, row_factors
from .crba_lanes import crba_lanes
from .crba_stages import factors_over_stages
from .packed import unpack
from .poses import POSE, identity_pose
from .schedule import IN_ORDER, resolve_schedule
from .staged import by_stages, one_at_a_time, row_coordinates, use_stages


def composite_inertias(laid: Layout, at: Arranged) -> Inertia:
    """Iᶜ of every position, in its own coordinates."""
    outer = inward(COMPOSITE, laid, HeavyRow(at.placed.transform, at.rows.inertia), Inertia.zero_like(at.gravity.x))
    return at.rows.inertia + outer


def composite_momenta(laid: Layout, at: Arranged) -> Force:
    """F = Iᶜ S of every position, in its own coordinates: the momentum of its subtree at unit rate."""
    composite = composite_inertias(laid, at)
    return composite @ at.rows.axis.times(jnp.ones_like(composite.mass))


def mass_diagonal(laid: Layout, at: Arranged) -> Any:
    """S · Iᶜ S and the armature, by position: the diagonal of H."""
    return at.rows.axis.dot(composite_momenta(laid, at)) + at.rows.armature


def poses_in_tree(laid: Layout, tree: Tree, at: Arranged) -> Placement:
    """Pose of every position in the frame of the root row of its tree."""
    root = arrange(laid, (tree.parent < 0)[:, None])
    here = identity_pose(at.placed.position.x)
    placed = jax.tree.map(lambda still, given: jnp.where(root, still, given), here, at.placed)
    return outward(POSE, laid, placed, identity_pose(at.gravity.x))


def factors(laid: Layout, model: Model, q: Any) -> Factors:
    """Composite momenta and joint axes in the frames of the root rows; q is (batch, nq)."""
    at = arranged(laid, model, q)
    X = poses_in_tree(laid, model.tree, at).transform
    return restore(laid, row_factors(at.rows.axis, at.rows.armature, composite_inertias(laid, at), X))


def ancestor_mask(tree: Tree) -> Any:
    """(n, n): whether j is i or an ancestor of i, from the intervals of the Euler tour."""
    lp, rp = jnp.asarray(tree.lp), jnp.asarray(tree.rp)
    return (lp[None, :] <= lp[:, None]) & (rp[:, None] <= rp[None, :])


@jax.jit
def _dense_by_factors(laid: Layout, model: Model, q: Any) -> Any:
    """H, (batch, nv, nv)."""
    by_state, rows = jax.tree.map(jnp.transpose, factors(laid, model, q)), intervals(model.tree)
    if q.shape[0] == 1:
        return all_pairs(ENTRIES, jax.tree.map(lambda x: x[0], by_state), rows)[None]
    return jax.vmap(lambda f: each_pair(ENTRIES, f, rows))(by_state)


@jax.jit
def _packed_by_factors(laid: Layout, model: Model, q: Any, pairs: Any) -> Any:
    """H on the ancestor pairs, (batch, pairs): one map over them."""
    f = factors(laid, model, q)
    i, j = pairs

    def take(part: Any, rows: Any) -> Any:
        return jax.tree.map(lambda x: x.at[rows].get(mode="promise_in_bounds"), part)

    off_diagonal = take(f.axis, j).dot(take(f.force, i))
    return jnp.where((i == j)[:, None], take(f.diagonal, i), off_diagonal).T


def _native(laid: Stages, constants: tuple, model: Model, q: Any) -> Any:
    constants, own = row_coordinates(laid, constants, model, q)
    roots = jnp.asarray(model.tree.parent < 0, q.dtype)
    return all_pairs(ENTRIES, factors_over_stages(laid, constants, roots, own), intervals(model.tree))


_OVER_STAGES = one_at_a_time(
    _native, lambda model, q: _dense_by_factors(layout(model.tree, "paths"), model, q[None])[0]
)


SMALL = 64  # rows up to which walking the pairs is the fastest everywhere
PAIRS = 2**18  # that the native lanes walk faster than factors are multiplied, for one state (benchmarks/NOTES.md)
SHARE = 16  # states that may share a longer walk
SPARSE = 8  # entries to a pair from which the zeros of one matrix are better written by somebody else
LARGE = 2**25  # bytes of a matrix that XLA would fill page by page: native pairs ask for large pages


def choose_schedule(tree: Tree, q: Any, packed: bool) -> str:
    """Walk the pairs, or multiply factors."""
    native_cpu = native_enabled() and jax.default_backend() == "cpu"
    walk = tree.n <= SMALL or (native_cpu and tree.n_ancestor_pairs <= PAIRS * min(q.shape[0], SHARE))
    zeros_by_xla = native_cpu and not packed and not isinstance(q, np.ndarray) and tree.n**2 * q.dtype.itemsize >= LARGE
    if zeros_by_xla and use_stages(tree, q.shape[0], None) is not None:
        return "paths"
    return "lanes" if walk else "paths"


INSTEAD = "inverse_dynamics of unit accelerations, a column at a time"


def crba(model: Model, q: Any, *, packed: bool = False, schedule: str = "auto") -> Any:
    """H, (batch, nv, nv), or packed, (batch, pairs); `schedule`: "auto", "lanes", "sequential", "levels" or "paths"."""
    tree = model.tree
    size = (tree.n_ancestor_pairs, 1) if packed else (tree.n, tree.n)
    require_matrices("the mass matrix", q, *size, copies=1, instead=INSTEAD if packed else f"packed=True, or {INSTEAD}")
    chosen = choose_schedule(tree, q, packed) if schedule == "auto" else resolve_schedule(schedule, tree, q.shape[0])
    if chosen in IN_ORDER:
        only_pairs = packed or (q.shape[0] == 1 and SPARSE * tree.n_ancestor_pairs < tree.n**2)
        H = crba_lanes(model.structure.has_quaternions, only_pairs)(model, q, schedule=chosen)[0]
        if packed:
            return H
        return unpack(tree, H) if only_pairs else H.reshape(-1, tree.n, tree.n)
    if packed:
        return _packed_by_factors(layout(tree, chosen), model, q, tree.ancestor_pairs)
    if chosen == "paths" and (stages := use_stages(tree, q.shape[0], None)) is not None:
        return by_stages(_OVER_STAGES, stages, model, q)
    return _dense_by_factors(layout(tree, chosen), model, q)

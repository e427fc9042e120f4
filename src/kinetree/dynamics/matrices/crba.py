"""The mass matrix by the composite-rigid-body algorithm (algorithms/crba.py), under any schedule.

In lanes each row's momentum is carried up through its ancestors. In the other schedules H is a product of factors under
the mask of ancestors.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.lanes.pairs.pairs import ABOVE, BELOW, ON, Case, Pairs, all_pairs, each_pair
from kinetree.model import Model, Placement
from kinetree.model.memory import require_matrices
from kinetree.tree import Layout, Tree, arrange, layout, outward, pick
from kinetree.tree.stages import Stages

from ..algorithms.crba import CRBA, FACTORS, Factors
from ..recursion import Row
from ..schedules.arranged import Arranged
from ..schedules.choose import IN_ORDER, call_of, choose_mass_matrix, note, walks_all_entries
from ..schedules.lane_algorithm import LaneAlgorithm
from ..schedules.lane_rows import kind_of
from ..schedules.lanes import lane_program_of
from ..schedules.layouts import over_layout, run_passes
from ..schedules.operators import outward_operator
from ..schedules.staged import by_stages, one_at_a_time, row_coordinates, staged
from ..schedules.stages import CellPlan, over_stages
from .packed import unpack


class Interval(NamedTuple):
    """The interval of a row's subtree in the Euler tour."""

    begin: Any
    end: Any


def intervals(tree: Tree) -> Interval:
    """The interval of each row."""
    return Interval(*(jnp.asarray(x) for x in (tree.lp, tree.rp)))


def _supports(j: Interval, i: Interval) -> Any:
    """True if j is an ancestor of i, or i itself."""
    return (j.begin <= i.begin) & (i.begin <= j.end)


ENTRIES = Pairs(  # entries of H, as a function of two rows
    "crba_entries",
    (
        Case(lambda i, j: i.begin == j.begin, lambda i, j: i.diagonal, ON),
        Case(lambda i, j: _supports(j, i), lambda i, j: j.axis.dot(i.force), BELOW),  # parents come before children
        Case(_supports, lambda i, j: i.axis.dot(j.force), ABOVE),
    ),
    jax.tree.structure(FACTORS.outputs["factors"]),
    jax.tree.structure(Interval(0, 0)),
)


DIAGONAL = replace(CRBA, name="crba_diagonal", passes=CRBA.passes[:1])


def mass_diagonal(laid: Layout, at: Arranged) -> Any:
    """S · Iᶜ S and the armature, by position: the diagonal of H."""
    return run_passes(DIAGONAL, laid, None, at, {})["H"]


def _roots(tree: Tree) -> Any:
    return np.asarray(tree.parent < 0, float)


def poses_in_tree(laid: Layout, tree: Tree, at: Arranged) -> Placement:
    """Pose of every position in the frame of the root row of its tree."""
    root = arrange(laid, jnp.asarray(_roots(tree), at.gravity.x.dtype)[:, None])
    row = Row(at=at.placed, root=root)
    return outward(outward_operator(FACTORS.passes[0]), laid, row, Placement.identity_like(at.gravity.x))


def factors(laid: Layout, model: Model, q: Any) -> Factors:
    """Composite momenta and joint axes in the frames of the root rows, (batch, rows); q is (batch, nq)."""
    root = jnp.broadcast_to(jnp.asarray(_roots(model.tree), q.dtype), (q.shape[0], model.tree.n))
    return over_layout(FACTORS, laid, model, {"q": q, "root": root})["factors"]


def ancestor_mask(tree: Tree) -> Any:
    """(n, n): whether j is i or an ancestor of i, from the intervals of the Euler tour."""
    lp, rp = jnp.asarray(tree.lp), jnp.asarray(tree.rp)
    return (lp[None, :] <= lp[:, None]) & (rp[:, None] <= rp[None, :])


@jax.jit
def _dense_by_factors(laid: Layout, model: Model, q: Any) -> Any:
    """H, (batch, nv, nv)."""
    by_state, rows = factors(laid, model, q), intervals(model.tree)
    if q.shape[0] == 1:
        return all_pairs(ENTRIES, jax.tree.map(lambda x: x[0], by_state), rows)[None]
    return jax.vmap(lambda f: each_pair(ENTRIES, f, rows))(by_state)


@jax.jit
def _packed_by_factors(laid: Layout, model: Model, q: Any, pairs: Any) -> Any:
    """H on the ancestor pairs, (batch, pairs): one map over them."""
    f = factors(laid, model, q)
    i, j = pairs

    off_diagonal = pick(f.axis, j, 1).dot(pick(f.force, i, 1))
    return jnp.where(i == j, pick(f.diagonal, i, 1), off_diagonal)


def _native(laid: Stages, constants: tuple, model: Model, q: Any) -> Any:
    constants, own = row_coordinates(laid, constants, model, q)
    given = {"q": own, "root": jnp.asarray(_roots(model.tree), q.dtype)}
    found = over_stages(CellPlan(FACTORS, kind_of(model).hinges), laid, constants, model.gravity, given)["factors"]
    return all_pairs(ENTRIES, found, intervals(model.tree))


_OVER_STAGES = one_at_a_time(
    _native, lambda model, q: _dense_by_factors(layout(model.tree, "paths"), model, q[None])[0]
)


def crba_at_once(model: Model) -> LaneAlgorithm | None:
    """The program of the dense matrix, if for one state it is best to walk all entries; else None."""
    return lane_program_of(CRBA, model) if walks_all_entries(model.tree) else None


INSTEAD = "inverse_dynamics of unit accelerations, a column at a time"


def crba(model: Model, q: Any, *, packed: bool = False, schedule: str = "auto") -> Any:
    """H, (batch, nv, nv), or packed, (batch, pairs); `schedule`: "auto", "lanes", "sequential", "levels" or "paths"."""
    tree = model.tree
    size = (tree.n_ancestor_pairs, 1) if packed else (tree.n, tree.n)
    require_matrices("the mass matrix", q, *size, copies=1, instead=INSTEAD if packed else f"packed=True, or {INSTEAD}")
    choice = choose_mass_matrix(call_of(model, (q,)), schedule, packed)
    chosen, coupling = choice.schedule, model.coupling
    if coupling is not None and (packed or chosen not in IN_ORDER):
        whole = crba(model.uncoupled, coupling.widen_q(q), packed=packed, schedule=schedule)
        return coupling.narrow_matrix(None if packed else whole)
    note("mass matrix", choice)
    if coupling is not None:
        return lane_program_of(CRBA, model)(model, q, schedule=chosen)[0].reshape(-1, model.nv, model.nv)
    if chosen in IN_ORDER:
        only_pairs = choice.program == "pairs"
        H = lane_program_of(CRBA, model, packed=only_pairs)(model, q, schedule=chosen)[0]
        if packed:
            return H
        return unpack(tree, H) if only_pairs else H.reshape(-1, tree.n, tree.n)
    if packed:
        return _packed_by_factors(layout(tree, chosen), model, q, tree.ancestor_pairs)
    if choice.way == "stages" and (stages := staged(tree)) is not None:
        return by_stages(_OVER_STAGES, stages, model, q)
    return _dense_by_factors(layout(tree, chosen), model, q)

"""Composite inertias, and the mass matrix as a function of pairs: what all schedules of crba.py share."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from kinetree.lanes.pairs import ABOVE, BELOW, ON, Case, Pairs
from kinetree.model import Axis
from kinetree.spatial import Force, Inertia, Motion, Transform
from kinetree.tree import Inward, Tree

from .lane_rows import ZERO3


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


class Factors(NamedTuple):
    """H as a product: H_ij = force_i · axis_j for j a strict ancestor of i."""

    force: Force
    axis: Motion
    diagonal: Any


FACTORS = Factors(Force(ZERO3, ZERO3), Motion(ZERO3, ZERO3), 0.0)


def row_factors(axis: Axis, armature: Any, composite: Inertia, X: Transform) -> Factors:
    """Of a row with this composite inertia; X takes coordinates of the root row to the row's."""
    S = axis.times(jnp.ones_like(composite.mass))
    F = composite @ S
    return Factors(X.force_to_parent(F), X.motion_to_parent(S), axis.dot(F) + armature)


class Interval(NamedTuple):
    """A row's place in the Euler tour: its subtree begins and ends with it."""

    begin: Any
    end: Any


def intervals(tree: Tree) -> Interval:
    """Of each row."""
    return Interval(*(jnp.asarray(x) for x in (tree.lp, tree.rp)))


def _supports(j: Interval, i: Interval) -> Any:
    """Whether j is an ancestor of i, or i itself."""
    return (j.begin <= i.begin) & (i.begin <= j.end)


ENTRIES = Pairs(
    "crba_entries",
    (
        Case(lambda i, j: i.begin == j.begin, lambda i, j: i.diagonal, ON),
        Case(lambda i, j: _supports(j, i), lambda i, j: j.axis.dot(i.force), BELOW),  # parents come before children
        Case(_supports, lambda i, j: i.axis.dot(j.force), ABOVE),
    ),
    jax.tree.structure(FACTORS),
    jax.tree.structure(Interval(0, 0)),
)  # of H

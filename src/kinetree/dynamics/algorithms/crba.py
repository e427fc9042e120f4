"""The composite-rigid-body algorithm: the mass matrix from the inertias of subtrees.

    Iᶜ_i = I_i + Σ_{j child of i} X_jᵀ Iᶜ_j X_j       an inward recursion over 10 numbers (Lynghus 2026 eq. 76)
    F_i  = Iᶜ_i S_i,   H_ii = S_i · F_i               (eq. 78)
    H_ij = S_j · F_i, with F_i carried from row to row up to j, its ancestor; H_ij = 0 where neither is the other's

The momentum F of each row's subtree is carried from row to parent on the way to the root. At each row on the way it
gives an entry of H (Featherstone's pseudocode; RBDA table 6.2). No momentum is taken about a far origin.

Lynghus takes F_i to the base and from there to j, for every pair. If S_j is taken to the base as well, H is a product
of two (n, 6) factors under the mask of ancestors, and no other array is as large as H. Here "the base" is the root row
of each tree, so a floating robot has no rounding errors from its distance to the world origin. The remaining absolute
error in row i is about ε |r| |F_i|, with r the distance from the root: below 1e-14 of the largest entry for chains of
up to 1 000 bodies (benchmarks/NOTES.md). The diagonal is computed in each row's own frame.
"""

from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp

from kinetree.dynamics.recursion import Algorithm, Ancestors, Inward, Outward, Row, Share, Stretch
from kinetree.model import Placement
from kinetree.spatial import Force, Inertia, Motion, Scalar, Transform

from .poses import POSE


def compose(row: Row, I: Inertia) -> tuple[Inertia, dict]:
    """Inward: RBDA table 6.2, lines 1 to 8."""
    F = I @ row.axis.times(jnp.ones_like(I.mass))
    return row.at.inertia_to_parent(I), {"F": F, "H": row.axis.dot(F) + row.armature}


def carry(row: Row, F: Force) -> tuple[Force, dict]:
    """Up through the ancestors: lines 9 to 15."""
    F = row.at.force_to_parent(F)
    return F, {"H": row.axis.dot(F)}


COMPOSITE = Stretch(
    element=lambda row, own: (row.at, row.at.inertia_to_parent(own)),
    combine=lambda inner, outer: (outer[0] @ inner[0], inner[1] + inner[0].inertia_to_parent(outer[1])),
    act=lambda e, received: e[1] + e[0].inertia_to_parent(received),
    identity=lambda x: (Transform.identity_like(x), Inertia.zero_like(x)),
    passed=lambda e: e[1],
)

OWN = Share(lambda row: row.inertia, link=("inertia",))

CRBA = Algorithm(
    name="crba",
    inputs=("q",),
    passes=(
        Inward(
            "inertia",
            compose,
            link=("axis", "armature"),
            needs=("at",),
            leaves=("F",),
            outputs=("H",),
            stretch=COMPOSITE,
            own=OWN,
        ),
        Ancestors("F", carry, link=("axis",), needs=("at",), outputs=("H",)),
    ),
    fields={"inertia": Inertia, "F": Force},
    outputs={"H": float},
    accurate=True,
    matrix="H",
    gives={"H": "matrix"},
)


# -- the same as a product of factors ---------------------------------------------------------------------------------


class Factors(NamedTuple):
    """H as a product: H_ij = force_i · axis_j for j a strict ancestor of i."""

    force: Force
    axis: Motion
    diagonal: Scalar


def in_tree(row: Row) -> Placement:
    """The place of a row in its parent; root rows, where `root` is 1, are at the origin of their tree."""
    here = Placement.identity_like(row.at.position.x)
    return jax.tree.map(lambda a, b: jnp.where(row.root > 0, a, b), here, row.at)


def pose_in_tree(row: Row, parent: Placement) -> tuple[Placement, dict]:
    """Outward: the pose of a row in the root row of its tree."""
    return in_tree(row) @ parent, {}


def factors(row: Row, I: Inertia) -> tuple[Inertia, dict]:
    """Inward: composite inertias; from them each row's momentum, and its axis, in the frame of the root row."""
    passed, found = compose(row, I)
    X, S = row.pose.transform, row.axis.times(jnp.ones_like(I.mass))
    return passed, {"factors": Factors(X.force_to_parent(found["F"]), X.motion_to_parent(S), found["H"])}


FACTORS = Algorithm(
    name="crba_factors",
    inputs=("q", "root"),
    passes=(
        Outward(
            "pose", pose_in_tree, given=("root",), link=("axis",), stretch=replace(POSE, element=in_tree), places=True
        ),
        Inward(
            "inertia",
            factors,
            link=("axis", "armature"),
            needs=("at", "pose"),
            outputs=("factors",),
            stretch=COMPOSITE,
            own=OWN,
        ),
    ),
    fields={"pose": Placement, "inertia": Inertia},
    outputs={"factors": Factors},
    accurate=True,
)

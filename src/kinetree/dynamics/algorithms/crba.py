"""The composite-rigid-body algorithm: the mass matrix from the inertias of subtrees.

    Iᶜ_i = I_i + Σ_{j child of i} X_jᵀ Iᶜ_j X_j       an inward recursion over 10 numbers (Lynghus 2026 eq. 76)
    F_i  = Iᶜ_i S_i,   H_ii = S_i · F_i               (eq. 78)
    H_ij = S_j · F_i, with F_i carried from row to row up to j, its ancestor; H_ij = 0 where neither is the other's

The momentum F of each row's subtree is carried from row to parent on the way to the root, and gives an entry of H at
each stop (Featherstone's pseudocode; RBDA table 6.2). Nothing is taken about a far origin.
"""

import jax.numpy as jnp

from kinetree.dynamics.recursion import Algorithm, Ancestors, Inward, Outward, Row, Stretch, zeros
from kinetree.spatial import Force, Inertia, Transform


def stand(row: Row, parent: None) -> tuple[None, dict]:
    """Outward: the row's own inertia."""
    return None, {"inertia": row.inertia}


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
)

CRBA = Algorithm(
    name="crba",
    inputs=("q",),
    passes=(
        Outward("", stand, link=("inertia",), leaves=("inertia",), places=True),
        Inward(
            "inertia",
            compose,
            link=("axis", "armature"),
            needs=("at",),
            leaves=("F",),
            outputs=("H",),
            stretch=COMPOSITE,
        ),
        Ancestors("F", carry, link=("axis",), needs=("at",), outputs=("H",)),
    ),
    fields={"inertia": zeros(Inertia), "F": zeros(Force)},
    base=lambda gravity: {"inertia": Inertia.zero_like(gravity.x)},
    outputs={"H": 0.0},
    accurate=True,
    matrix="H",
)

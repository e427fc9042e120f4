"""The articulated-body algorithm: forward dynamics in three passes (RBDA chapter 7, table 7.1).

A row, with all that hangs from it, answers an acceleration `a` of its frame with the force `f = IA a + pA`. Its joint
moves freely, so with U = IA S, d = Sᵀ U + armature and u = τ − Sᵀ pA

    qdd = (u − Uᵀ a′) / d,   a′ = X a_parent + c,   a = a′ + S qdd              (RBDA eq. 7.44 – 7.46)

and the parent sees   Xᵀ (IA − U Uᵀ/d) X   and   Xᵀ (pA + (IA − U Uᵀ/d) c + U u/d)   (7.47, 7.48).
Accelerations are spatial, and gravity is an acceleration of the base.

Long stretches of tree are taken at once by articulated elements on the way in (articulated_element.py) and by affine
maps of accelerations, a ↦ P X a + g, on the way out (affine.py): O(log n) rounds.
"""

from kinetree.dynamics.articulated import (
    Articulated,
    Pivot,
    base_acceleration,
    own_bias,
    pivot,
    released,
    to_parent,
    velocity_product,
)
from kinetree.dynamics.recursion import Algorithm, Inward, Outward, Row, placed_again, zeros
from kinetree.spatial import Motion

from .poses import velocity


def velocities(row: Row, parent: Motion) -> tuple[Motion, dict]:
    """Outward: table 7.1, lines 1 to 7."""
    v = velocity(row, parent)
    return v, {"body": Articulated(row.inertia.articulated(), own_bias(row.inertia, v))}


def bodies(row: Row, whole: Articulated) -> tuple[Articulated, dict]:
    """Inward: lines 8 to 17."""
    joint = pivot(row.axis, row.armature, row.tau, whole)
    c = velocity_product(row.v, row.axis, row.qd)
    return to_parent(row.at, released(row.axis, row.armature, whole, joint, c)), {"joint": joint}


def accelerations(row: Row, parent: Motion) -> tuple[Motion, dict]:
    """Outward: lines 18 to 22."""
    a = row.at @ parent + velocity_product(row.v, row.axis, row.qd)
    qdd = row.joint.rate(a)
    return a + row.axis.times(qdd), {"qdd": qdd}


ABA = Algorithm(
    name="aba",
    inputs=("q", "qd", "tau"),
    passes=(
        Outward("v", velocities, given=("qd",), link=("axis", "inertia"), leaves=("body",), places=True),
        Inward("body", bodies, given=("qd", "tau"), link=("axis", "armature"), needs=("at", "v"), leaves=("joint",)),
        Outward("a", accelerations, given=("qd",), link=("axis",), needs=("at", "v", "joint"), outputs=("qdd",)),
    ),
    fields={"v": zeros(Motion), "body": zeros(Articulated), "joint": zeros(Pivot), "a": zeros(Motion)},
    base=lambda gravity: {
        "v": Motion.zero_like(gravity.x),
        "body": Articulated.zero_like(gravity.x),
        "a": base_acceleration(gravity),
    },
    outputs={"qdd": 0.0},
    applied=("body", "bias"),
)
ABA_AGAIN = placed_again(ABA)  # For threads without memory to speak of: what the last pass needs is computed again.

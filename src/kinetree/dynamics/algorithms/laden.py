"""The articulated-body algorithm for trees that are laden: each state brings its own bodies, forces and resistances.

Constraints make bodies heavier (RBDA chapter 7 with other inertias): what they add to a row is a symmetric 6 by 6 map
from motion to force, a bias force, a resistance and a force along the joint. All of these are inputs, beside what the
row has by itself. There are no velocities and there is no gravity: x is what the Jacobian of the constraints acts on.

    (Σ Jᵢᵀ Iᵢ Jᵢ + diag(resistance)) x = force − Σ Jᵢᵀ biasᵢ

`LADEN` gives x, and J x: the acceleration that it makes of every row.
"""

from typing import Any

import jax

from kinetree.dynamics.recursion import Algorithm, Inward, Outward, Row, Share, Stretch, zeros
from kinetree.spatial import ArticulatedInertia, Force, Motion

from ..elements.affine import append_row, at_rest, mapped, then
from ..elements.articulated import Articulated, Pivot, pivot, released, to_parent
from ..elements.articulated_element import prepend_row
from .aba import articulated_stretch, unchecked
from .poses import named, placing

BODY = (zeros(ArticulatedInertia), zeros(Force))
BODY_INPUTS = named(BODY, "laden")  # of a row: inertia, then bias
MOVED = named(zeros(Motion), "moved")
PUSH, RESISTANCE = "push", "resistance"
INPUTS = (PUSH, RESISTANCE, *BODY_INPUTS)


def _own(row: Row) -> Articulated:
    """The body that a row is given."""
    inertia, bias = jax.tree.unflatten(jax.tree.structure(BODY), [row[name] for name in BODY_INPUTS])
    return Articulated(inertia, bias, None)


def _driven(row: Row) -> Row:
    """The row as articulated bodies know it."""
    return Row({**row, "tau": row.push, "armature": row.resistance})


def bodies(row: Row, whole: Articulated) -> tuple[Articulated, dict]:
    """Inward: RBDA table 7.1, lines 8 to 17, at rest."""
    joint = pivot(row.axis, row.resistance, row.push, whole)
    free = released(row.axis, row.resistance, None, whole, joint, None)
    return to_parent(row.at, free), {"joint": joint}


def accelerations(row: Row, parent: Motion) -> tuple[Motion, dict]:
    """Outward: lines 18 to 22, at rest."""
    a = row.at @ parent
    x = row.joint.rate(a)
    moved = a + row.axis.times(x)
    return moved, {"x": x, **dict(zip(MOVED, jax.tree.leaves(moved), strict=True))}


def inputs_of(push: Any, resistance: Any, inertia: ArticulatedInertia, bias: Force) -> dict[str, Any]:
    """Inputs by name."""
    return dict(zip(INPUTS, (push, resistance, *jax.tree.leaves((inertia, bias))), strict=True))


ACCELERATIONS = Stretch(
    element=lambda row: append_row(at_rest(row.joint.u), row, None),
    combine=then,
    act=lambda e, a: mapped(e, a) + e.g,
    identity=at_rest,
    extend=lambda e, row: append_row(e, row, None),
)

LADEN = Algorithm(
    name="aba_laden",
    inputs=("q", *INPUTS),
    passes=(
        placing(BODY_INPUTS),
        Inward(
            "body",
            bodies,
            given=INPUTS,
            link=("axis", "inertia"),  # Cuts of long paths stand on the inertia of the link.
            needs=("at",),
            leaves=("joint",),
            stretch=articulated_stretch(unchecked, lambda row, own, e: prepend_row(_driven(row), None, own, e)),
            own=Share(_own),
        ),
        Outward(
            "a",
            accelerations,
            link=("axis",),
            needs=("at", "joint"),
            outputs=("x", *MOVED),
            stretch=ACCELERATIONS,
        ),
    ),
    fields={"begun": float, "body": unchecked(zeros(Articulated)), "joint": Pivot, "a": Motion},
    outputs=dict.fromkeys(("x", *MOVED), float),
)

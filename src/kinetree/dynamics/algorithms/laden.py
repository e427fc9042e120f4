"""The articulated-body algorithm for laden trees: each state has its own additional inertias, forces and resistances.

Constraints make bodies heavier (RBDA chapter 7 with other inertias). They add to a row a symmetric 6 by 6 map from
motion to force, a bias force, and a resistance and a force along the joint. All of these are inputs. There are no
velocities and there is no gravity. The Jacobian of the constraints acts on x:

    (Σ Jᵢᵀ Iᵢ Jᵢ + diag(resistance)) x = force − Σ Jᵢᵀ biasᵢ

`LADEN` gives x, and J x, the acceleration of every row. If many forces act on the same inertias, `FACTORS` first gives
U and 1/d of every row, and `PUSHED` then the answer to each force, in two passes. The passes are those of aba.py, at
rest.
"""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree.dynamics.recursion import Algorithm, Inward, Row, Share, seen_as, zeros
from kinetree.spatial import ArticulatedInertia, Force, Motion

from ..elements.affine import forces_stretch
from ..elements.articulated import Articulated, Pivot, freed_bias, joint_drive
from . import aba
from .poses import named, placing

BODY = (zeros(ArticulatedInertia), zeros(Force))
BODY_INPUTS = named(BODY, "laden")  # of a row: inertia, then bias
MOVED = named(zeros(Motion), "moved")
PUSH, RESISTANCE = "push", "resistance"
INPUTS = (PUSH, RESISTANCE, *BODY_INPUTS)
INERTIA = BODY_INPUTS[: -len(jax.tree.leaves(zeros(Force)))]
BIAS = BODY_INPUTS[len(INERTIA) :]
FACTOR = named((zeros(Force), 0.0), "factor")  # U, 1/d

_, BODIES, ACCELERATIONS = aba.aba_of(firm=True).passes


def _driven(row: Row) -> Row:
    """The row in the form that aba.py expects."""
    return Row({**row, "tau": row.push, "armature": row.resistance})


def _taken(row: Row, names: tuple[str, ...], example: Any) -> Any:
    """A named tuple from a group of scalar inputs of a row."""
    return jax.tree.unflatten(jax.tree.structure(example), [row[name] for name in names])


def _own(row: Row) -> Articulated:
    """The body of a row, with the inputs added."""
    inertia, bias = _taken(row, BODY_INPUTS, BODY)
    return Articulated(inertia, bias, None)


def inputs_of(push: Any, resistance: Any, inertia: ArticulatedInertia, bias: Force) -> dict[str, Any]:
    """Inputs by name."""
    return dict(zip(INPUTS, (push, resistance, *jax.tree.leaves((inertia, bias))), strict=True))


def _moved(row: Row, parent: Motion) -> tuple[Motion, dict]:
    """Outward: RBDA table 7.1, lines 18 to 22, at rest."""
    moved, found = aba.accelerations(row, parent)
    return moved, {"x": found["qdd"], **dict(zip(MOVED, jax.tree.leaves(moved), strict=True))}


def _moving(known: Any, **changes: Any) -> Any:
    """The outward pass; `known` finds the pivots of the joints."""
    return seen_as(
        ACCELERATIONS, known, visit=lambda row, parent: _moved(known(row), parent), outputs=("x", *MOVED), **changes
    )


LADEN = Algorithm(
    name="aba_laden",
    inputs=("q", *INPUTS),
    passes=(
        placing(BODY_INPUTS),
        seen_as(
            BODIES,
            _driven,
            given=INPUTS,
            link=("axis", "inertia"),  # where a long path is cut, the inertia of the link is the ballast
            needs=("at",),
            own=Share(_own),
        ),
        _moving(lambda row: row, given=(), needs=("at", "joint")),
    ),
    fields={"begun": float, "body": aba.unchecked(zeros(Articulated)), "joint": Pivot, "a": Motion},
    outputs=dict.fromkeys(("x", *MOVED), float),
)


# -- known factors ----------------------------------------------------------------------------------------------------


def _still(row: Row) -> Row:
    """The row under no forces."""
    return _driven(Row({**row, PUSH: jnp.zeros_like(row.resistance)}))


def _factors(row: Row, whole: Articulated) -> tuple[Articulated, dict]:
    passed, found = aba.bodies(_still(row), whole)
    U, d_inverse, _ = found["joint"]
    return passed, dict(zip(FACTOR, (*jax.tree.leaves(U), d_inverse), strict=True))


def _weightless(row: Row) -> Articulated:
    inertia: ArticulatedInertia = _taken(row, INERTIA, BODY[0])
    return Articulated(inertia, Force.zero_like(row[INERTIA[0]]), None)


FACTORS = Algorithm(
    name="aba_factors",
    inputs=("q", RESISTANCE, *INERTIA),
    passes=(
        placing(INERTIA),
        seen_as(
            BODIES,
            _still,
            visit=_factors,
            given=(RESISTANCE, *INERTIA),
            link=("axis", "inertia"),
            needs=("at",),
            leaves=(),
            outputs=FACTOR,
            own=Share(_weightless),
        ),
    ),
    fields={"begun": float, "body": aba.unchecked(zeros(Articulated))},
    outputs=dict.fromkeys(FACTOR, float),
)


def _joint(row: Row, u: Any) -> Pivot:
    U, d_inverse = _taken(row, FACTOR, (zeros(Force), 0.0))
    return Pivot(U, d_inverse, u)


def _pulled(row: Row, whole: Force) -> tuple[Force, dict]:
    """Inward: lines 13 to 17 of the table, only for biases."""
    joint = _joint(row, joint_drive(row.axis, row.push, whole))
    return row.at.force_to_parent(freed_bias(*joint, whole)), {"u": joint.u, "joint": joint}


PUSHED = Algorithm(
    name="aba_pushed",
    inputs=("q", PUSH, *BIAS, *FACTOR),
    passes=(
        placing(BIAS),
        Inward(
            "bias",
            _pulled,
            given=(PUSH, *BIAS, *FACTOR),
            link=("axis",),
            needs=("at",),
            leaves=("u",),
            stretch=forces_stretch(_pulled),
            own=Share(lambda row: _taken(row, BIAS, zeros(Force))),
        ),
        _moving(lambda row: Row({**row, "joint": _joint(row, row.u)}), given=FACTOR, needs=("at", "u")),
    ),
    fields={"begun": float, "bias": Force, "u": float, "a": Motion},
    outputs=LADEN.outputs,
)

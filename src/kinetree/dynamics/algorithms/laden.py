"""The articulated-body algorithm for trees that are laden: each state brings its own bodies, forces and resistances.

Constraints make bodies heavier (RBDA chapter 7 with other inertias): what they add to a row is a symmetric 6 by 6 map
from motion to force, a bias force, a resistance and a force along the joint. All of these are inputs, beside what the
row has by itself. There are no velocities and there is no gravity: x is what the Jacobian of the constraints acts on.

    (Σ Jᵢᵀ Iᵢ Jᵢ + diag(resistance)) x = force − Σ Jᵢᵀ biasᵢ

`LADEN` gives x, and J x: the acceleration that it makes of every row. Where many forces meet the same bodies, `FACTORS`
gives U and 1/d of every row, and `PUSHED` the answers to forces from these: two passes with maps of 6 by 6 at the most.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from kinetree.dynamics.recursion import Algorithm, Inward, Outward, Row, Share, Stretch, zeros
from kinetree.spatial import ArticulatedInertia, Force, Motion

from ..elements.affine import append_row, at_rest, mapped, then
from ..elements.articulated import Articulated, Pivot, freed_bias, joint_drive, pivot, released, to_parent
from ..elements.articulated_element import Forces, prepend_row, pull_back, unit_forces
from .aba import articulated_stretch, unchecked
from .poses import named, placing

BODY = (zeros(ArticulatedInertia), zeros(Force))
BODY_INPUTS = named(BODY, "laden")  # of a row: inertia, then bias
MOVED = named(zeros(Motion), "moved")
PUSH, RESISTANCE = "push", "resistance"
INPUTS = (PUSH, RESISTANCE, *BODY_INPUTS)
INERTIA = BODY_INPUTS[: -len(jax.tree.leaves(zeros(Force)))]
BIAS = BODY_INPUTS[len(INERTIA) :]
FACTOR = named((zeros(Force), 0.0), "factor")  # U, 1/d


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


# -- known factors ----------------------------------------------------------------------------------------------------


def _still(row: Row) -> Row:
    """The row under no forces."""
    none = jnp.zeros_like(row.resistance)
    return Row({**row, PUSH: none, **dict.fromkeys(BIAS, none)})


def _factors(row: Row, whole: Articulated) -> tuple[Articulated, dict]:
    passed, left = bodies(_still(row), whole)
    joint = left["joint"]
    return passed, dict(zip(FACTOR, (*jax.tree.leaves(joint.U), joint.d_inverse), strict=True))


FACTORS = Algorithm(
    name="aba_factors",
    inputs=("q", RESISTANCE, *INERTIA),
    passes=(
        placing(INERTIA),
        Inward(
            "body",
            _factors,
            given=(RESISTANCE, *INERTIA),
            link=("axis", "inertia"),
            needs=("at",),
            outputs=FACTOR,
            stretch=articulated_stretch(unchecked, lambda row, own, e: prepend_row(_driven(_still(row)), None, own, e)),
            own=Share(lambda row: _own(Row({**row, **dict.fromkeys(BIAS, jnp.zeros_like(row[INERTIA[0]]))}))),
        ),
    ),
    fields={"begun": float, "body": unchecked(zeros(Articulated))},
    outputs=dict.fromkeys(FACTOR, float),
)


class Pulled(NamedTuple):
    """f ↦ Fᵀ f + g: what a force at the outer end of a stretch is at its inner end; F is what unit forces become."""

    F: Forces
    g: Force

    def of(self, f: Force) -> Force:
        """Fᵀ f. 36m 30a."""
        total = self.F[0] * f.angular.x
        for column, x in zip(self.F[1:], (*f.angular, *f.linear)[1:], strict=True):
            total = total + column * x
        return total


def _joint(row: Row, u: Any) -> Pivot:
    U, d_inverse = jax.tree.unflatten(jax.tree.structure((zeros(Force), 0.0)), [row[name] for name in FACTOR])
    return Pivot(U, d_inverse, u)


def _pulled(row: Row, whole: Force) -> tuple[Force, dict]:
    """Inward: lines 13 to 17 of the table for biases alone."""
    joint = _joint(row, joint_drive(row.axis, row.push, whole))
    return row.at.force_to_parent(freed_bias(joint.U, joint.d_inverse, joint.u, whole)), {"u": joint.u}


def _pull(row: Row, own: Force, e: Pulled) -> Pulled:
    joint = _joint(row, row.push)
    columns = tuple(pull_back(row.at, row.axis, joint.U, joint.d_inverse, f) for f in e.F)
    return Pulled(columns, _pulled(row, own + e.g)[0])


def _pulled_none(s: Any) -> Pulled:
    return Pulled(unit_forces(s), Force.zero_like(s))


def _jointed(row: Row) -> Row:
    return Row({**row, "joint": _joint(row, row.u)})


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
            stretch=Stretch(
                element=lambda row, own: _pull(row, own, _pulled_none(own.linear.x)),
                combine=lambda inner, outer: Pulled(tuple(map(inner.of, outer.F)), inner.of(outer.g) + inner.g),
                act=lambda e, f: e.of(f) + e.g,
                identity=_pulled_none,
                extend=_pull,
                passed=lambda e: e.g,
            ),
            own=Share(lambda row: jax.tree.unflatten(jax.tree.structure(zeros(Force)), [row[n] for n in BIAS])),
        ),
        Outward(
            "a",
            lambda row, parent: accelerations(_jointed(row), parent),
            given=FACTOR,
            link=("axis",),
            needs=("at", "u"),
            outputs=("x", *MOVED),
            stretch=replace(
                ACCELERATIONS,
                element=lambda row: append_row(at_rest(row.u), _jointed(row), None),
                extend=lambda e, row: append_row(e, _jointed(row), None),
            ),
        ),
    ),
    fields={"begun": float, "bias": Force, "u": float, "a": Motion},
    outputs=LADEN.outputs,
)

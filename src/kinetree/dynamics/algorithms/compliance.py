"""Compliances: the diagonal of H⁻¹, and for each row the map from forces on it to its acceleration.

With known articulated inertias (RBDA chapter 7), P = 1 − S Uᵀ/d, and Ω = J H⁻¹ Jᵀ for the row's own J, going outward

    Ω = P X Ω_parent Xᵀ Pᵀ + S Sᵀ/d                H⁻¹ᵢᵢ = 1/d + (Xᵀ U/d)ᵀ Ω_parent (Xᵀ U/d)

(Kreutz-Delgado, Jain and Rodriguez 1992, "Recursive formulation of operational space control"). O(n) for all rows.
Several rows in a row make Ω_out = A Ω_in Aᵀ + C, with the A and C of articulated elements.
"""

from typing import NamedTuple

import jax

from kinetree.dynamics.recursion import Algorithm, Outward, Row, Share, Stretch, seen_as, zeros
from kinetree.spatial import ArticulatedInertia, Force, Motion, Scalar, Vec3

from ..elements.affine import combined, units
from ..elements.articulated import Articulated, Pivot, pull_back
from ..elements.articulated_element import Forces
from .aba import aba_of, unchecked
from .poses import named, placing

Compliance = ArticulatedInertia  # a symmetric 6 by 6 map, here from force to motion
OMEGA = named(zeros(Compliance), "omega")


def answer(C: Compliance, f: Force) -> Motion:
    """The motion that a force makes."""
    return Motion(*(C @ Motion(*f)))


def _symmetric(columns: tuple[Motion, ...]) -> Compliance:
    """A symmetric map from the motions that six unit forces make."""
    of_unit = [(*m.angular, *m.linear) for m in columns]
    return Compliance.of(lambda i, j: of_unit[j][i])


def _back(row: Row, f: Force) -> Force:
    """Xᵀ Pᵀ f."""
    return pull_back(row.at, row.axis, row.joint.U, row.joint.d_inverse, f)


def _out(row: Row, C: Compliance, unit: Forces) -> Compliance:
    """P X C Xᵀ Pᵀ + S Sᵀ/d."""

    def column(f: Force) -> Motion:
        m = row.at @ answer(C, _back(row, f))
        along = (row.axis.dot(f) - m.dot(row.joint.U)) * row.joint.d_inverse
        return m + row.axis.times(along)

    return _symmetric(tuple(map(column, unit)))


def _still(row: Row) -> Row:
    """The row without forces."""
    return Row({**row, "tau": 0 * row.armature})


def compliances(row: Row, parent: Compliance) -> tuple[Compliance, dict]:
    """Outward: Ω, and the diagonal of H⁻¹."""
    U, d_inverse = row.joint.U, row.joint.d_inverse
    own = _out(row, parent, units(Force, d_inverse))
    felt = row.at.force_to_parent(U * d_inverse)
    alone = d_inverse + answer(parent, felt).dot(felt)
    return own, {"alone": alone, **dict(zip(OMEGA, jax.tree.leaves(own), strict=True))}


class Passage(NamedTuple):
    """A stretch: C, and the rows of A, which are the forces at the inner end for unit forces at the outer end."""

    A: Forces
    C: Compliance


def _mapped(A: Forces, m: Motion) -> Motion:
    """A m."""
    six = [m.dot(f) for f in A]
    return Motion(Vec3(*six[:3]), Vec3(*six[3:]))


def _extend(e: Passage, row: Row) -> Passage:
    unit = units(Force, row.joint.d_inverse)
    return Passage(tuple(combined(e.A, _back(row, f)) for f in unit), _out(row, e.C, unit))


def _through(A: Forces, C: Compliance) -> Compliance:
    """A C Aᵀ."""
    return _symmetric(tuple(_mapped(A, answer(C, f)) for f in A))


def _then(inner: Passage, outer: Passage) -> Passage:
    return Passage(tuple(combined(inner.A, f) for f in outer.A), outer.C + _through(outer.A, inner.C))


def _none(x: Scalar) -> Passage:
    return Passage(units(Force, x), Compliance.zero_like(x))


COMPLIANCE = Algorithm(
    name="compliance",
    inputs=("q",),
    passes=(
        placing(),
        seen_as(
            aba_of(firm=True).passes[1],  # articulated inertias (RBDA 7.2.1)
            _still,
            given=(),
            link=("axis", "armature"),
            needs=("at",),
            own=Share(
                lambda row: Articulated(row.inertia.articulated(), Force.zero_like(row.inertia.mass), None),
                link=("inertia",),
            ),
        ),
        Outward(
            "omega",
            compliances,
            link=("axis",),
            needs=("at", "joint"),
            outputs=("alone", *OMEGA),
            stretch=Stretch(
                element=lambda row: _extend(_none(row.joint.d_inverse), row),
                combine=_then,
                act=lambda e, parent: e.C + _through(e.A, parent),
                identity=_none,
                extend=_extend,
            ),
        ),
    ),
    fields={"begun": float, "body": unchecked(zeros(Articulated)), "joint": Pivot, "omega": Compliance},
    outputs=dict.fromkeys(("alone", *OMEGA), float),
)

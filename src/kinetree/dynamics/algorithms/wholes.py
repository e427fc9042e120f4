"""Quantities of the whole mechanism, each with only the passes that it needs.

The shares of the rows are added up at the base, which computes the result from the sum. Momenta about the centre of
mass are moved there row by row, so a robot far from the world's origin loses no digits (Orin, Goswami & Lee 2013, eq.
27).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from kinetree.dynamics.recursion import Algorithm, Base, Outward, Row, Share, Total, Visit, seen_as
from kinetree.model import Placement
from kinetree.spatial import Force, Inertia, Motion, Scalar, Vec3

from .crba import CRBA
from .poses import MOVING, POSE, UNCHANGED, VELOCITY, Moving, pose, velocity

POSES = Outward("pose", pose, link=("axis",), stretch=POSE, places=True)


class Potential(NamedTuple):
    """Moment of mass, and twice the energy of springs."""

    moment: Vec3
    springs: Scalar


class Center(NamedTuple):
    """Centre and mass of all rows."""

    position: Vec3
    mass: Scalar


def moment(I: Inertia, pose: Placement) -> Vec3:
    """m c of a row, in the world."""
    return pose.position * I.mass + pose.orientation.turn(I.h)


def total(state: str, of: Callable[[Row], Any], needs: tuple[str, ...], link: tuple[str, ...] = ("inertia",)) -> Total:
    """The sum of `of(row)` over all rows."""
    return Total(state, lambda row, whole: (whole, {}), own=Share(of, link=link, needs=needs))


MOMENT = total("moment", lambda row: moment(row.inertia, row.pose), needs=("pose",))


def _of_moment(name: str, output: str, kind: Any, of: Callable[[Row], Any]) -> Algorithm:
    """A quantity of the base that is made from the moment of mass."""
    base = Base(output, lambda row, _: (None, {output: of(row)}), needs=("moment",), outputs=(output,))
    return Algorithm(
        name=name,
        inputs=("q",),
        passes=(POSES, MOMENT, base),
        fields={"pose": Placement, "moment": Vec3},
        outputs={output: kind},
        accurate=True,
    )


CENTER_OF_MASS = _of_moment("center_of_mass", "center", Vec3, lambda row: row.moment * (1 / row.mass))
POTENTIAL_ENERGY = _of_moment("potential_energy", "energy", float, lambda row: -row.moment.dot(row.gravity))


def _stretched(row: Row, parent: Placement) -> tuple[Placement, dict]:
    """Outward: the pose, and the energy in the springs of the row."""
    return pose(row, parent)[0], {"held": row.stiffness * row.stretch * row.stretch}


POTENTIAL_WITH_SPRINGS = Algorithm(
    name="potential_energy_springs",
    inputs=("q",),
    passes=(
        Outward("pose", _stretched, link=("axis",), needs=("stretch",), leaves=("held",), places=True),
        total("potential", lambda row: Potential(moment(row.inertia, row.pose), row.held), needs=("pose",)),
        Base(
            "energy",
            lambda row, _: (None, {"energy": 0.5 * row.potential.springs - row.potential.moment.dot(row.gravity)}),
            needs=("potential",),
            outputs=("energy",),
        ),
    ),
    fields={"pose": Placement, "potential": Potential, "held": float},
    outputs={"energy": float},
    accurate=True,
)


KINETIC_ENERGY = Algorithm(
    name="kinetic_energy",
    inputs=("q", "qd"),
    passes=(
        Outward(
            "velocity",
            lambda row, parent: (velocity(row, parent), {}),
            given=("qd",),
            link=("axis",),
            stretch=VELOCITY,
            places=True,
        ),
        replace(
            total(
                "twice",
                lambda row: row.velocity.dot(row.inertia @ row.velocity) + row.armature * row.qd * row.qd,
                needs=("velocity",),
                link=("inertia", "armature"),
            ),
            given=("qd",),
        ),
        Base("energy", lambda row, _: (None, {"energy": 0.5 * row.twice}), needs=("twice",), outputs=("energy",)),
    ),
    fields={"velocity": Motion, "twice": float},
    outputs={"energy": float},
    accurate=True,
)


def _momentum(row: Row) -> Force:
    """The momentum of a row, in the world."""
    return row.moving.pose.transform.force_to_parent(row.inertia @ row.moving.velocity)


MOMENTUM = Algorithm(
    name="momentum",
    inputs=("q", "qd"),
    passes=(MOVING, replace(total("momentum", _momentum, needs=("moving",)), outputs=("momentum",))),
    fields={"moving": Moving, "momentum": Force},
    outputs={"momentum": Force},
    accurate=True,
)


# -- about the centre of mass -----------------------------------------------------------------------------------------


def _about(center: Vec3, pose: Placement, F: Force) -> Force:
    """A momentum of a row in world axes, about the centre."""
    return pose._replace(position=pose.position - center).transform.force_to_parent(F)


CENTROIDAL_MOMENTUM = Algorithm(
    name="centroidal_momentum",
    inputs=("q", "qd"),
    passes=(
        MOVING,
        total("moment", lambda row: moment(row.inertia, row.moving.pose), needs=("moving",)),
        Base("", lambda row, _: (None, {"center": row.moment * (1 / row.mass)}), needs=("moment",), leaves=("center",)),
        Outward("center", lambda row, center: (center, {}), link=(), needs=("moving",), stretch=UNCHANGED),
        replace(
            total(
                "momentum",
                lambda row: _about(row.center, row.moving.pose, row.inertia @ row.moving.velocity),
                needs=("moving", "center"),
            ),
            outputs=("momentum",),
        ),
    ),
    fields={"moving": Moving, "moment": Vec3, "center": Vec3, "momentum": Force},
    outputs={"momentum": Force},
    accurate=True,
)


def _by_matrix(row: Row) -> Row:
    """The row in the form that CRBA expects; the diagonal of H is not needed."""
    return Row({**row, "at": row.at.transform, "armature": 0.0})


def _column(row: Row, center: Center) -> tuple[Center, dict]:
    """Outward: a column of the centroidal momentum matrix."""
    return center, {"A": _about(center.position, row.pose, row.F)}


def _jacobian_column(row: Row, center: Center) -> tuple[Center, dict]:
    """Outward: a column of the Jacobian of the centre of mass."""
    return center, {"J": row.pose.orientation.turn(row.F.linear) * (1 / center.mass)}


def _centroidal(name: str, output: str, kind: type[Force | Vec3], visit: Visit) -> Algorithm:
    return Algorithm(
        name=name,
        inputs=("q",),
        passes=(
            POSES,
            seen_as(CRBA.passes[0], _by_matrix, link=("axis",), outputs=()),
            Base(
                "",
                lambda row, _: (None, {"center": Center(row.inertia.h * (1 / row.mass), row.mass)}),
                needs=("inertia",),
                leaves=("center",),
            ),
            Outward("center", visit, link=(), needs=("pose", "F"), outputs=(output,), stretch=UNCHANGED),
        ),
        fields={"pose": Placement, "inertia": Inertia, "F": Force, "center": Center},
        outputs={output: kind},
        columns=(output,),
        gives={output: "force"},
        keeps="screw",
        accurate=True,
    )


CENTROIDAL_MATRIX = _centroidal("centroidal_matrix", "A", Force, _column)
COM_JACOBIAN = _centroidal("com_jacobian", "J", Vec3, _jacobian_column)

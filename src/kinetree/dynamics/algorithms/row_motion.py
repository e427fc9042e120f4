"""Velocities and rates of all rows, and the joint forces of forces on rows: the Jacobian and its transpose.

Row velocities are linear in qd, so the same passes give J x for any x.
"""

import jax

from kinetree.dynamics.recursion import Algorithm, Inward, Outward, Row, Share, zeros
from kinetree.spatial import Force, Motion, Rates, Vec3

from .poses import VELOCITY, named, placing, velocity
from .rnea import MOTION, WRENCH, motion

VELOCITIES, RATES = named(zeros(Motion), "velocity"), named(zeros(Rates), "rate")


def _velocities(row: Row, parent: Motion) -> tuple[Motion, dict]:
    v = velocity(row, parent)
    return v, dict(zip(VELOCITIES, jax.tree.leaves(v), strict=True))


ROW_VELOCITIES = Algorithm(
    name="row_velocities",
    inputs=("q", "qd"),
    passes=(
        Outward("v", _velocities, given=("qd",), link=("axis",), outputs=VELOCITIES, stretch=VELOCITY, places=True),
    ),
    fields={"v": Motion},
    outputs=dict.fromkeys(VELOCITIES, float),
    accurate=True,
)


def _rates(row: Row, parent: Rates) -> tuple[Rates, dict]:
    moved = motion(row).act(parent)
    return moved, dict(zip(RATES, jax.tree.leaves(moved), strict=True))


ROW_RATES = Algorithm(
    name="row_rates",
    inputs=("q", "qd", "qdd"),
    passes=(Outward("rates", _rates, given=("qd", "qdd"), link=("axis",), outputs=RATES, stretch=MOTION, places=True),),
    fields={"rates": Rates},  # the base does not accelerate, so rates do not include gravity
    outputs=dict.fromkeys(RATES, float),
    accurate=True,
)

FORCES = named(zeros(Force), "row_force")  # on each row, in its own coordinates


def _own(row: Row) -> Force:
    f = [row[name] for name in FORCES]
    return Force(Vec3(*f[:3]), Vec3(*f[3:]))


ON_JOINTS = Algorithm(
    name="on_joints",
    inputs=("q", *FORCES),
    passes=(
        placing(FORCES),
        Inward(
            "force",
            lambda row, f: (row.at.force_to_parent(f), {"felt_force": row.axis.dot(f)}),
            given=FORCES,
            link=("axis",),
            needs=("at",),
            outputs=("felt_force",),
            stretch=WRENCH,
            own=Share(_own),
        ),
    ),
    fields={"begun": float, "force": Force},
    outputs={"felt_force": float},
    keeps="screw",
)

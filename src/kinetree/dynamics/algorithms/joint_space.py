"""The equation of motion in joint space: C, the forces of a motion without accelerations, and H, in one run.

H qdd = tau − C is what forward dynamics solves where the joints are coupled. The passes are those of RNEA and CRBA; a
row is placed once for both.
"""

from dataclasses import replace

from kinetree.dynamics.recursion import Algorithm, Row, Share
from kinetree.spatial import Inertia, Vec3

from .crba import CRBA
from .rnea import RNEA

MOTION, WRENCH = RNEA.passes
COMPOSE, CARRY = CRBA.passes


def base(gravity: Vec3) -> dict:
    """Both algorithms' fields of the base."""
    return RNEA.base(gravity) | CRBA.base(gravity)


def own_inertia(row: Row) -> Inertia:
    """The row's own inertia, from its moments of mass."""
    return Inertia.from_moments(row.inertia)


JOINT_SPACE = Algorithm(
    name="joint_space",
    inputs=("q", "qd", "tau"),
    passes=(MOTION, WRENCH, replace(COMPOSE, own=Share(own_inertia, link=("inertia",))), CARRY),
    fields=RNEA.fields | CRBA.fields,
    base=base,
    outputs={"tau": 0.0, "H": 0.0},
    moments=True,
    applied=("force",),
    matrix="H",
    gives={"tau": "force", "H": "matrix"},
    resting=("qdd",),
)

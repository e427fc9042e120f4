"""The equation of motion in joint space: C, the forces of a motion without accelerations, and H, in one run.

H qdd = tau − C is what forward dynamics solves where the joints are coupled. The passes are those of RNEA and CRBA; a
row is placed once for both.
"""

from dataclasses import replace

from kinetree.dynamics.recursion import Algorithm, Row, Share
from kinetree.spatial import Inertia

from .crba import CRBA
from .rnea import RNEA

MOTION, WRENCH = RNEA.passes
COMPOSE, CARRY = CRBA.passes


def own_inertia(row: Row) -> Inertia:
    """The row's own inertia, from its moments of mass."""
    return Inertia.from_moments(row.inertia)


JOINT_SPACE = Algorithm(
    name="joint_space",
    inputs=("q", "qd", "tau"),
    passes=(MOTION, WRENCH, replace(COMPOSE, own=Share(own_inertia, link=("inertia",))), CARRY),
    fields=RNEA.fields | CRBA.fields,
    outputs=RNEA.outputs | CRBA.outputs,
    begins=RNEA.begins,
    moments=True,
    applied=("force",),
    matrix="H",
    gives=RNEA.gives | CRBA.gives,
    resting=("qdd",),
)

"""Forward kinematics: poses of the rows outward, then of the bodies that they carry.

Along few rows matrices are as accurate as quaternions, and faster, as they need not be normalised at every row.
"""

from dataclasses import replace

from kinetree.dynamics.recursion import Algorithm, Bodies, Outward, Row
from kinetree.model import Placement
from kinetree.spatial import Mat3, Transform, Vec3

from .poses import POSE, carried, pose


def body(row: Row, _: None) -> tuple[None, dict]:
    """Orientation, from body to world coordinates, and origin of one body."""
    E, p = carried(row.pose, row.frame)
    return None, {"rotation": E.T, "position": p}


def body_by_matrix(row: Row, _: None) -> tuple[None, dict]:
    """Orientation and origin of one body, if poses are matrices."""
    E, p = row.frame @ row.pose
    return None, {"rotation": E.T, "position": p}


_BY_QUATERNIONS = Algorithm(
    name="kinematics",
    inputs=("q",),
    passes=(
        Outward("pose", pose, link=("axis",), stretch=POSE, places=True),
        Bodies("bodies", body, needs=("pose",), outputs=("rotation", "position")),
    ),
    fields={"pose": Placement},
    outputs={"rotation": Mat3, "position": Vec3},
    accurate=True,
)

KINEMATICS = replace(
    _BY_QUATERNIONS,
    shallow=replace(
        _BY_QUATERNIONS,
        name="kinematics_shallow",
        passes=(
            _BY_QUATERNIONS.passes[0],
            Bodies("bodies", body_by_matrix, needs=("pose",), outputs=("rotation", "position")),
        ),
        fields={"pose": Transform},
        accurate=False,
    ),
)

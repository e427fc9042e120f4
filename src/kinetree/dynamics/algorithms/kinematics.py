"""Forward kinematics: poses of the rows outward, then of the bodies that they carry."""

from kinetree.dynamics.recursion import Algorithm, Bodies, Outward, Row, zeros
from kinetree.model import Placement
from kinetree.spatial import Mat3, Vec3

from .poses import POSE, carried, pose


def body(row: Row, _: None) -> tuple[None, dict]:
    """Orientation, from body to world coordinates, and origin of one body."""
    E, p = carried(row.pose, row.frame)
    return None, {"rotation": E.T, "position": p}


KINEMATICS = Algorithm(
    name="kinematics",
    inputs=("q",),
    passes=(
        Outward("pose", pose, link=("axis",), stretch=POSE, places=True),
        Bodies("bodies", body, needs=("pose",), outputs=("rotation", "position")),
    ),
    fields={"pose": zeros(Placement)},
    base=lambda gravity: {"pose": Placement.identity_like(gravity.x)},
    outputs={"rotation": zeros(Mat3), "position": zeros(Vec3)},
    accurate=True,
)

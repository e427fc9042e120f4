"""Forces of the joints' own springs and dampers, row by row: −stiffness · stretch − damping · qd."""

from dataclasses import replace

from kinetree.dynamics.joint_terms import passive_force
from kinetree.dynamics.recursion import Algorithm, Outward, Row
from kinetree.spatial import Scalar


def _held(row: Row, still: Scalar) -> tuple[Scalar, dict]:
    """What the joint's spring and damper do. Nothing is passed on."""
    return still, {"passive": passive_force(row)}


PASSIVE = Algorithm(
    name="passive",
    inputs=("q", "qd"),
    passes=(Outward("still", _held, given=("qd",), link=("damping",), outputs=("passive",)),),
    fields={"still": float},
    outputs={"passive": float},
    gives={"passive": "force"},
)

WITH_SPRINGS = replace(
    PASSIVE,
    name="passive_springs",
    passes=(replace(PASSIVE.passes[0], link=("damping", "stiffness"), needs=("stretch",)),),
)

"""Forward kinematics: the poses of the bodies."""

from functools import partial
from typing import Any, NamedTuple

from kinetree._types import AnyArray, Float
from kinetree.model import Model
from kinetree.model.arguments import evaluate_for

from .algorithms.kinematics import KINEMATICS
from .directly import directly
from .schedules.lanes import lane_program_of
from .schedules.run import run


class Pose(NamedTuple):
    """Orientation of every body, (..., n, 3, 3) from body to world coordinates, and its origin, (..., n, 3)."""

    rotation: Float[AnyArray, "... bodies 3 3"]
    position: Float[AnyArray, "... bodies 3"]


@directly(partial(lane_program_of, KINEMATICS), result=Pose)
def forward_kinematics(model: Model, q: Float[AnyArray, "... nq"], *, schedule: str = "auto") -> Pose:
    """Pose of every body in the world.

    Arguments:
        model: the mechanism.
        q: (..., nq).
        schedule: "auto", "lanes", "sequential", "levels", "paths" or "euler".

    Returns:
        Pose, with `.rotation` (..., n, 3, 3), body to world, and `.position` (..., n, 3).
    """

    def compute(q: Any) -> Pose:
        found = run(KINEMATICS, model, {"q": q}, schedule=schedule)
        n = q.shape[0], model.n_bodies
        return Pose(found["rotation"].reshape(*n, 3, 3), found["position"].reshape(*n, 3))

    return evaluate_for(model, compute, q=q)

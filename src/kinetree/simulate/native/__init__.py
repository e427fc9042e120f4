"""The native body of steps: one lane program from a state to the state some steps later."""

from .choose import BoundPrograms, bound_to, step_solver, stepper_for, way_of_rollout, way_of_step, with_bound
from .directly import at_once, keep_direct, step_builtin
from .frames import can_roll, rolled
from .stepper import Stepper
from .worlds import axes_of, bound_to_worlds, typical_of

__all__ = [
    "BoundPrograms",
    "Stepper",
    "bound_to",
    "axes_of",
    "bound_to_worlds",
    "can_roll",
    "at_once",
    "keep_direct",
    "rolled",
    "step_builtin",
    "step_solver",
    "stepper_for",
    "typical_of",
    "way_of_rollout",
    "way_of_step",
    "with_bound",
]

"""The native body of steps: one lane program from a state to the state some steps later."""

from .choose import StepWay, stepper_for, way_of_step, with_stepper
from .directly import directly, keep_direct
from .step import Stepper

__all__ = ["StepWay", "Stepper", "directly", "keep_direct", "stepper_for", "way_of_step", "with_stepper"]

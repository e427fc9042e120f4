"""The native body of steps: one lane program from a state to the state some steps later."""

from .step import Stepper, stepper_of

__all__ = ["Stepper", "stepper_of"]

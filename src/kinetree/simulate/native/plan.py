"""Where everything stands in the memory of a world that makes steps: controls, activations, stages."""

from functools import cached_property
from typing import Any

import numpy as np

from kinetree.constrain.native import Plan
from kinetree.constrain.native.actuators import ACTIVATION, MOTOR
from kinetree.constrain.native.drive_plan import may_brake
from kinetree.model import Model

from ..implicit import lone_bodies
from .integrate import STAGE


class StepPlan(Plan):
    """A plan with blocks for actuators and for the stages of a step."""

    def __init__(self, model: Model, integrator: str, like: "StepPlan | None" = None):
        """`like`: what is present is what that plan has; numbers of the model are its own."""
        implicit = integrator == "implicitfast"
        self.lone = tuple(lone_bodies(model.uncoupled)) if implicit else ()  # bodies that tumble (tumbling.py)
        self.actuators, self.stages = model.actuators, integrator == "RK4"
        self.nu, self.na = model.nu, model.na
        self.braking = (may_brake(model.actuators) if implicit else ()) if like is None else like.braking
        super().__init__(model, None if like is None else like.has, implicit)

    def more_blocks(self, at: int) -> int:
        """Controls, activations, actuators; and stages, which only some steps have."""
        self._controls, at = at, at + self.nu
        self._activations, at = at, at + ACTIVATION.size * self.na
        self._motors, at = at, at + MOTOR.size * (0 if self.actuators is None else len(self.actuators.wiring.joints))
        self._stages, self.start_q = at, at + STAGE.size * self.n
        return self.start_q + self.nq if self.stages else at

    @cached_property
    def key(self) -> tuple:
        """All that the tables depend on."""
        return (
            *super().key,
            self.lone,
            self.stages,
            self.slots,
            None if self.actuators is None else self.actuators.wiring,
        )

    def control(self, number: Any) -> Any:
        """Slots of controls."""
        return self._controls + np.asarray(number, np.int64)

    def activation(self, number: Any) -> Any:
        """First slots of activations."""
        return self._activations + np.asarray(number, np.int64) * ACTIVATION.size

    def motor(self, number: Any) -> Any:
        """First slots of actuators."""
        return self._motors + np.asarray(number, np.int64) * MOTOR.size

    def stage(self, row: Any) -> Any:
        """First slots of the stages of rows."""
        return self._stages + np.asarray(row, np.int64) * STAGE.size

"""The layout of the memory of a world that makes steps: controls, activations, stages."""

from functools import cached_property
from typing import Any

import numpy as np

from kinetree.constrain.native import Plan
from kinetree.constrain.native.actuators import ACTIVATION, MOTOR
from kinetree.constrain.native.adhesion import STICKY
from kinetree.constrain.native.carrying import CARRIED
from kinetree.constrain.native.drive_plan import may_brake
from kinetree.model import Model

from ..implicit import lone_bodies
from .implicit import SLOPED, of_rows
from .integrate import STAGE


class StepPlan(Plan):
    """A plan with blocks for actuators and for the stages of a step."""

    def __init__(self, model: Model, integrator: str, like: "StepPlan | None" = None):
        """`like`: a plan that decides which features are present; numbers are those of the model."""
        implicit = integrator in ("implicitfast", "implicit")
        lone = tuple(lone_bodies(model.uncoupled)) if integrator == "implicitfast" else ()
        self.sloped_rows, self.turning_rows = of_rows(model.uncoupled, integrator, lone)
        self.actuators, self.stages = model.actuators, integrator == "RK4"
        self.nu, self.na = model.nu, model.na
        self.braking = (may_brake(model.actuators) if implicit else ()) if like is None else like.braking
        super().__init__(model, None if like is None else like.has, implicit)

    def more_blocks(self, at: int) -> int:
        """Controls, activations, actuators; and stages, which only some steps have."""
        self._controls, at = at, at + self.nu
        self._activations, at = at, at + ACTIVATION.size * self.na
        self._motors, at = at, at + MOTOR.size * (0 if self.actuators is None else len(self.actuators.wiring.joints))
        wiring = None if self.actuators is None else self.actuators.wiring
        stick = [] if wiring is None else [k for k, t in enumerate(wiring.targets) if t.kind == "body"]
        self._sticking = np.array(stick, np.int64)
        self._sticky, at = at, at + STICKY.size * len(stick)
        self._carried = at  # a block for the base, and each row, of weight that actuators carry
        at += CARRIED.size * (1 + self.n) if wiring is not None and wiring.carries else 0
        self._sloped = at  # a block for each tree's base, and each row, whose terms are taken at the end (implicit.py)
        at += SLOPED.size * (self.n_trees + len(self.sloped_rows)) if len(self.sloped_rows) else 0
        self._stages, self.start_q = at, at + STAGE.size * self.n
        return self.start_q + self.nq if self.stages else at

    @cached_property
    def key(self) -> tuple:
        """All that the tables depend on."""
        return (
            *super().key,
            tuple(self.sloped_rows),
            tuple(self.turning_rows),
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

    def sticky(self, number: Any) -> Any:
        """First slots of actuators on bodies."""
        return self._sticky + np.searchsorted(self._sticking, np.asarray(number, np.int64)) * STICKY.size

    def carried(self, row: Any) -> Any:
        """First slots of weight that is carried; row −1 is the base."""
        return self._carried + (1 + np.asarray(row, np.int64)) * CARRIED.size

    def sloped_base(self, tree: Any) -> Any:
        """First slots of what bases need for terms at the end of a step."""
        return self._sloped + np.asarray(tree, np.int64) * SLOPED.size

    def sloped(self, row: Any) -> Any:
        """The same of rows that have such terms."""
        return self.sloped_base(self.n_trees + np.searchsorted(self.sloped_rows, np.asarray(row, np.int64)))

    def sloped_up(self, row: Any) -> Any:
        """The same of the parents of rows."""
        row = np.asarray(row, np.int64)
        parent = self.parent[row]
        return np.where(parent >= 0, self.sloped(parent), self.sloped_base(self.tree_of_row[row]))

    def stage(self, row: Any) -> Any:
        """First slots of the stages of rows."""
        return self._stages + np.asarray(row, np.int64) * STAGE.size

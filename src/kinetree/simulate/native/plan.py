"""The layout of the memory of a world that makes steps: controls, activations, stages."""

from functools import cached_property
from typing import Any

import numpy as np

from kinetree.constrain.native import Plan
from kinetree.constrain.native.actuators import ACTIVATION, MOTOR
from kinetree.constrain.native.adhesion import STICKY
from kinetree.constrain.native.carrying import CARRIED
from kinetree.constrain.native.drive_plan import may_brake
from kinetree.constrain.native.tables import SlotBlocks
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
        wiring = None if self.actuators is None else self.actuators.wiring
        stick = [] if wiring is None else [k for k, t in enumerate(wiring.targets) if t.kind == "body"]
        self._sticking = np.array(stick, np.int64)
        self.control = SlotBlocks(at, 1, self.nu)
        self.activation = SlotBlocks(self.control.end, ACTIVATION.size, self.na)
        self.motor = SlotBlocks(self.activation.end, MOTOR.size, 0 if wiring is None else len(wiring.joints))
        self._sticky = SlotBlocks(self.motor.end, STICKY.size, len(stick))
        # Weight that actuators carry: of the base, and of each row.
        carries = wiring is not None and bool(wiring.carries)
        self._carried = SlotBlocks(self._sticky.end, CARRIED.size, 1 + self.n if carries else 0)
        # Terms that are taken at the end of a step (implicit.py): of each tree's base, and of rows that have some.
        some = len(self.sloped_rows)
        self.sloped_base = SlotBlocks(self._carried.end, SLOPED.size, self.n_trees + some if some else 0)
        self.stage = SlotBlocks(self.sloped_base.end, STAGE.size, self.n)
        self.start_q = self.stage.end
        return self.start_q + self.nq if self.stages else self.stage.first

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

    def sticky(self, number: Any) -> Any:
        """First slots of actuators on bodies."""
        return self._sticky(np.searchsorted(self._sticking, np.asarray(number, np.int64)))

    def carried(self, row: Any) -> Any:
        """First slots of weight that is carried; row −1 is the base."""
        return self._carried(1 + np.asarray(row, np.int64))

    def sloped(self, row: Any) -> Any:
        """First slots of rows that have terms at the end of a step."""
        return self.sloped_base(self.n_trees + np.searchsorted(self.sloped_rows, np.asarray(row, np.int64)))

    def sloped_up(self, row: Any) -> Any:
        """The same of the parents of rows."""
        row = np.asarray(row, np.int64)
        parent = self.parent[row]
        return np.where(parent >= 0, self.sloped(parent), self.sloped_base(self.tree_of_row[row]))

"""Gravity compensation that counts as the force of actuators: joints bound the sum of both (constrain/actuated.py).

The compensated weight of each body is summed inward along the tree, which gives each row its force.
"""

from typing import Any

import numpy as np

from kinetree.lanes import Memory
from kinetree.spatial import Force

from .kinematics import carried_weight
from .memory import FORCE, ROW, ZERO3, fixed
from .parts import Part, added, fill, part, table

CARRIED = Memory(force=FORCE, tau=0.0)  # of a row: the weight that is carried of all that hangs from it


def carry_weights() -> list[Part]:
    """The force of each row that carries weight, after poses are known."""

    def weigh(known, pose, gravity):
        mass, moment = known
        h = pose.orientation.turn(moment) + pose.position * mass
        return (Force(h.cross(gravity), gravity * mass),)

    def pass_on(counts, S, force):
        return (-counts * S.dot(force), force)

    def turns(plan: Any) -> np.ndarray:
        rows = plan.outward_rows[::-1]
        return table(plan.row(rows), plan.carried(rows), plan.carried(plan.parent[rows]))

    def counts(model: Any, plan: Any, known: Any) -> np.ndarray:
        """1 for rows whose joints leave compensation to actuators."""
        return np.isin(plan.outward_rows[::-1], plan.actuators.wiring.carries).astype(float)

    def massive(plan: Any) -> np.ndarray:
        return table(plan.row(plan.massive), plan.carried(plan.massive))

    force, passed = CARRIED.at(1, "force"), (CARRIED.at(1, "tau"), *added(CARRIED.at(2, "force")))
    weights = (0.0, ZERO3), lambda model, plan, known: carried_weight(model, plan)
    return [
        fill(lambda plan: table(plan.carried(np.arange(-1, plan.n))), CARRIED.at(0, "force")),
        part(massive, weigh, (ROW.at(0, "pose"), fixed("gravity")), (force,), weights),
        part(turns, pass_on, (ROW.at(0, "S"), force), passed, (0.0, counts)),
    ]

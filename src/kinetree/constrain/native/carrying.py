"""Gravity compensation that counts as the force of actuators: joints bound the sum of both (constrain/actuated.py).

The compensated weight of each body is summed inward along the tree, which gives each row its force.
"""

from typing import Any

import jax
import numpy as np

from kinetree.lanes import Loop, Memory
from kinetree.spatial import Force, Vec3

from .kinematics import carried_weight
from .memory import FORCE, NUMBER, ROW, ZERO3, fixed
from .parts import Part, fill, table

CARRIED = Memory(force=FORCE, tau=0.0)  # of a row: the weight that is carried of all that hangs from it


def carry_weights() -> list[Part]:
    """The force of each row that carries weight, after poses are known."""

    def weigh(known: tuple, _: tuple, reads: tuple) -> tuple:
        (mass, moment), (pose, gravity) = known, reads
        h = pose.orientation.turn(moment) + pose.position * mass
        return (Force(h.cross(gravity), gravity * mass),), (), ()

    example = jax.tree.structure((0.0, ZERO3))
    reads = (ROW.at(0, "pose"), fixed("gravity"))
    weight = Loop(weigh, 2, example, reads=reads, writes=(CARRIED.at(1, "force"),))

    def pass_on(counts: Any, _: tuple, reads: tuple) -> tuple:
        S, force = reads
        return (-counts * S.dot(force),), (force,), ()

    reads = (ROW.at(0, "S"), CARRIED.at(1, "force"))
    inward = Loop(pass_on, 3, NUMBER, reads=reads, writes=(CARRIED.at(1, "tau"),), adds=(CARRIED.at(2, "force"),))

    def turns(plan: Any) -> np.ndarray:
        rows = plan.outward_rows[::-1]
        return table(plan.row(rows), plan.carried(rows), plan.carried(plan.parent[rows]))

    def counts(model: Any, plan: Any, known: Any) -> np.ndarray:
        """1 for rows whose joints leave compensation to actuators."""
        return np.isin(plan.outward_rows[::-1], plan.actuators.wiring.carries).astype(float)

    def weights(model: Any, plan: Any, known: Any) -> tuple[Any, Vec3]:
        return carried_weight(model, plan)

    return [
        fill(lambda plan: table(plan.carried(np.arange(-1, plan.n))), CARRIED.at(0, "force")),
        Part(weight, lambda plan: table(plan.row(plan.massive), plan.carried(plan.massive)), weights),
        Part(inward, turns, counts),
    ]

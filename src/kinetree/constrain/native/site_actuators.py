"""Actuators on sites and slider-cranks in lanes: wrenches on two bodies. The formulas are those of actuate/sites.py.

Rows that carry both frames feel no force. But a force on one site and its opposite on another make a moment, which the
rows below both would feel. So the lowest body that carries both gets the opposite of the sum of both wrenches.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import there
from kinetree.actuate.sites import by_crank, on_sites
from kinetree.dynamics.tendons.paths import ancestors
from kinetree.model import Model, Placement
from kinetree.model.attached import in_rows
from kinetree.spatial import Force, Quaternion, Vec3

from .actuators import MOTORS, ActuatorSlots, Motor, actuator_numbers, driven, motor_of, motors, written
from .drive_plan import DriveGroup
from .memory import PLACEMENT, ROW, ZERO3
from .parts import Known, Part, added, part, table
from .string_actuators import periods
from .tables import split


class Frame(NamedTuple):
    """Constants of an actuator on one frame, or two."""

    motor: Motor
    period: Any
    first: Placement
    second: Placement
    push: Vec3
    turn: Vec3
    refers: Any  # 1 with a second site
    carries: Any  # 3 numbers; 1 where the first frame's body, the second one's, or a third body carries both
    crank: Any  # 1 for a slider-crank
    rod: Any


FRAME = Frame(MOTORS, 0.0, PLACEMENT, PLACEMENT, ZERO3, ZERO3, 0.0, ZERO3, 0.0, 0.0)


def _placed(own: Placement, row: Placement, base: Placement) -> tuple[Vec3, Placement]:
    """Where a frame is, about the point of its tree, and in the world."""
    arm = row.position + row.orientation.turn(own.position)
    return arm, Placement(row.orientation * own.orientation, arm - base.position)


def driving(drive: DriveGroup, implicit: bool) -> Part:
    """Forces of the actuators, on the bodies of their frames; after the forces of motion."""
    stateful = drive.stateful

    def step(known, *reads):
        places, moves, (ctrl, *rest) = reads[0:4], reads[4:7], reads[7:]
        (arm1, one), (arm2, two) = _placed(known.first, *places[:2]), _placed(known.second, *places[2:])
        site = on_sites(known.refers != 0, one, two, known.push, known.turn)
        crank = by_crank(one, two, known.rod, known.motor.gear)
        both, length = jax.tree.map(lambda a, b: jnp.where(known.crank != 0, a, b), crank, site)
        pair = [Force(w.angular + arm.cross(w.linear), w.linear) for w, arm in zip(both, (arm1, arm2), strict=True)]
        excess = pair[0] + pair[1]
        wrenches = [
            own + excess * -carries
            for own, carries in zip((*pair, Force.zero_like(arm1.x)), known.carries, strict=True)
        ]
        velocity = sum(move.dot(wrench) for move, wrench in zip(moves, wrenches, strict=True))
        act = rest[0] if stateful else None
        force, slope, rate = driven(known.motor, length, velocity, ctrl, act, known.period)
        return (*written(stateful, implicit, slope, rate), *(w * -force for w in wrenches))

    def bodies(plan: Any, numbers: np.ndarray) -> np.ndarray:
        targets = [plan.actuators.wiring.targets[k] for k in numbers]
        return np.array([(t.first, t.second) for t in targets], np.int64).reshape(-1, 2)

    def rows_of(plan: Any, numbers: np.ndarray) -> np.ndarray:
        """Of the two bodies, and of the lowest that carries both; −1 is the base."""
        both = bodies(plan, numbers)
        rows = plan.structure.rows_of(both)
        lowest = [
            max({*ancestors(plan.parent, a)} & {*ancestors(plan.parent, b)}, default=-1) for a, b in rows.tolist()
        ]
        return np.column_stack([rows, np.array(lowest, np.int64)])

    def turns(plan: Any) -> np.ndarray:
        at = actuator_numbers(plan, drive)
        rows = rows_of(plan, at.number)
        columns = []
        for own in rows.T[:2]:
            columns += plan.carriers(own)
        third = np.where((rows[:, 2:] == rows[:, :2]).any(1), -1, rows[:, 2])  # the first two have a place already
        columns += [np.where(third >= 0, plan.row(third), plan.base(plan.tree_of_row[np.maximum(rows[:, 0], 0)]))]
        return table(*columns, *ActuatorSlots.table(plan, at))

    def constants(model: Model, plan: Any, known: Known) -> Frame:
        a = there(model.actuators)
        numbers = actuator_numbers(plan, drive).number
        both = bodies(plan, numbers)
        crank = np.array([plan.actuators.wiring.targets[k].kind == "crank" for k in numbers], bool)
        places = []
        for own in both.T:
            still = np.zeros((len(own), 3)), np.tile([1.0, 0, 0, 0], (len(own), 1))
            position, turn = in_rows(model, own, *still)
            places.append(Placement(Quaternion(*split(turn)), Vec3(*split(position))))
        gear = split(a.gear[numbers])
        refers = (both[:, 1] >= 0) & ~crank
        period = periods(model, numbers, np.zeros(len(numbers), bool), refers)
        rod = np.ones(len(numbers)) if a.rod is None else a.rod[numbers]
        motor = motors(drive)(model, plan, known)
        both_gears = Vec3(*gear[:3]), Vec3(*gear[3:])
        one, two, lowest = rows_of(plan, numbers).T
        here = (one == lowest, two == lowest, (one != lowest) & (two != lowest))
        carries = Vec3(*(((lowest >= 0) & x) * 1.0 for x in here))
        return Frame(motor, period, places[0], places[1], *both_gears, refers * 1.0, carries, crank * 1.0, rod)

    ports = ActuatorSlots.of(5, stateful, implicit)
    moves, forces = ([ROW.at(column, field) for column in (0, 2, 4)] for field in ("v", "force"))
    seen = (*(ROW.at(column, "pose") for column in range(4)), *moves, *ports.reads)
    known = FRAME._replace(motor=motor_of(drive)), constants
    return part(turns, step, seen, (*ports.writes, *added(*forces)), known, columns=8)

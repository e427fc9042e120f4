"""Actuators on sites and slider-cranks in lanes: wrenches on two bodies. The formulas are those of actuate/sites.py."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.actuate.sites import by_crank, on_sites
from kinetree.lanes import Loop
from kinetree.model import Model, Placement
from kinetree.model.attached import in_rows
from kinetree.spatial import Force, Quaternion, Vec3

from .actuators import MOTORS, ActuatorSlots, Motor, driven, motor_of, motors, wires, written
from .drive_plan import DriveGroup
from .memory import PLACEMENT, ROW, ZERO3
from .parts import Known, Part, table
from .string_actuators import periods
from .string_lengths import split


class Frame(NamedTuple):
    """Constants of an actuator on one frame, or two."""

    motor: Motor
    period: Any
    first: Placement
    second: Placement
    push: Vec3
    turn: Vec3
    refers: Any  # 1 with a second site
    crank: Any  # 1 for a slider-crank
    rod: Any


FRAME = Frame(MOTORS, 0.0, PLACEMENT, PLACEMENT, ZERO3, ZERO3, 0.0, 0.0, 0.0)


def _placed(own: Placement, row: Placement, base: Placement) -> tuple[Vec3, Placement]:
    """Where a frame is, about the point of its tree, and in the world."""
    arm = row.position + row.orientation.turn(own.position)
    return arm, Placement(row.orientation * own.orientation, arm - base.position)


def driving(drive: DriveGroup, implicit: bool) -> Part:
    """Forces of the actuators, on the bodies of their frames; after the forces of motion."""
    stateful = drive.stateful

    def step(known: Frame, _: tuple, reads: tuple) -> tuple:
        places, moves, (ctrl, *rest) = reads[0:4], reads[4:6], reads[6:]
        (arm1, one), (arm2, two) = _placed(known.first, *places[:2]), _placed(known.second, *places[2:])
        site = on_sites(known.refers != 0, one, two, known.push, known.turn)
        crank = by_crank(one, two, known.rod, known.motor.gear)
        both, length = jax.tree.map(lambda a, b: jnp.where(known.crank != 0, a, b), crank, site)
        wrenches = [Force(w.angular + arm.cross(w.linear), w.linear) for w, arm in zip(both, (arm1, arm2), strict=True)]
        velocity = moves[0].dot(wrenches[0]) + moves[1].dot(wrenches[1])
        act = rest[0] if stateful else None
        force, slope, rate = driven(known.motor, length, velocity, ctrl, act, known.period)
        return written(stateful, implicit, slope, rate), (wrenches[0] * -force, wrenches[1] * -force), ()

    ports = ActuatorSlots.of(4, stateful, implicit)
    poses = tuple(ROW.at(column, "pose") for column in (0, 1, 2, 3))
    reads = (*poses, ROW.at(0, "v"), ROW.at(2, "v"), *ports.reads)
    adds = (ROW.at(0, "force"), ROW.at(2, "force"))
    example = jax.tree.structure(FRAME._replace(motor=motor_of(drive)))
    loop = Loop(step, 7, example, reads=reads, writes=ports.writes, adds=adds)

    def bodies(plan: Any, numbers: np.ndarray) -> np.ndarray:
        targets = [plan.actuators.wiring.targets[k] for k in numbers]
        return np.array([(t.first, t.second) for t in targets], np.int64).reshape(-1, 2)

    def turns(plan: Any) -> np.ndarray:
        at = wires(plan, drive)
        both = bodies(plan, at.number)
        rows = np.where(both >= 0, plan.structure.row_of_body[np.maximum(both, 0)], -1).astype(np.int64)
        columns = []
        for own in rows.T:
            base = plan.base(plan.tree_of_row[np.maximum(own, 0)])
            columns += [np.where(own >= 0, plan.row(own), base), base]
        return table(*columns, *ActuatorSlots.table(plan, at))

    def constants(model: Model, plan: Any, known: Known) -> Frame:
        a = model.actuators
        assert a is not None
        numbers = wires(plan, drive).number
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
        return Frame(motor, period, places[0], places[1], *both_gears, refers * 1.0, crank * 1.0, rod)

    return Part(loop, turns, constants)

"""Actuators on strings in lanes: on tendons, balls and free joints."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import library, there
from kinetree.actuate.force import is_full
from kinetree.lanes import Slots
from kinetree.model import Model
from kinetree.spatial import Quaternion, Vec3

from .actuators import (
    MOTOR,
    ActuatorSlots,
    Motor,
    actuator_numbers,
    clip,
    driven,
    motor_of,
    motors,
    unbounded,
    within,
    written,
)
from .drive_plan import DriveGroup
from .kinematics import at_q
from .memory import ZERO3, fixed
from .parts import Known, Part, added, fill, part, table
from .plan import Plan
from .string_plan import STRING
from .tables import split


def ball_lengths(is_free: bool) -> Part:
    """Lengths and entries of actuators on balls, or on free joints, which have no length (actuate/transmission.py)."""

    def step(known, q):
        push, turn, in_parent = known
        here = Quaternion(*q).normalized()
        own = here.to_child(turn)
        angular = Vec3(*(jnp.where(in_parent != 0, a, b) for a, b in zip(own, turn, strict=True)))
        if is_free:
            return (jnp.zeros_like(here.w), (*angular, *here.to_child(push)))
        return (here.log().dot(angular), tuple(angular))

    entries = Slots(1, 0, jax.tree.structure((0.0,) * (6 if is_free else 3)))

    def own(plan: Any) -> tuple[np.ndarray, np.ndarray]:
        s = plan.strings
        width = np.array([len(s.rows[k]) for k in s.turned.strings], np.int64)
        chosen = (width == 6) == is_free
        return s.turned.strings[chosen], s.turned.members[chosen]

    def turns(plan: Any) -> np.ndarray:
        strings, members = own(plan)
        joint = np.array([plan.actuators.wiring.targets[k].first for k in members], np.int64)
        start = np.asarray(plan.structure.q_start)[joint] + 3 * is_free
        return table(plan.strings.string(strings), plan.strings.entry(strings), plan.q + start)

    def constants(model: Model, plan: Plan, known: Known) -> tuple:
        assert model.actuators is not None
        _, members = own(plan)
        gear = split(model.actuators.gear[members])
        first, second = Vec3(*gear[:3]), Vec3(*gear[3:])
        in_parent = np.array(model.actuators.wiring.in_parent, float)[members]
        return (first, second, in_parent) if is_free else (second, first, in_parent)

    known = (ZERO3, ZERO3, 0.0), constants
    return part(turns, step, (at_q(2, 4),), (STRING.at(0, "length"), entries), known)


def clear_string_forces() -> Part:
    """No force yet."""

    def turns(plan: Plan) -> np.ndarray:
        return plan.strings.every(np.unique(plan.strings.motors.strings))

    return fill(turns, *STRING.of(0, "push", "drawn", "taken"))


def _strings(plan: Any, numbers: np.ndarray) -> np.ndarray:
    motors = plan.strings.motors
    of = dict(zip(motors.members.tolist(), motors.strings.tolist(), strict=True))
    return np.array([of[k] for k in numbers.tolist()], np.int64)


def _gears(model: Model, plan: Any, numbers: np.ndarray) -> Any:
    """Gears of tendons; entries of balls and free joints have their gears in them."""
    strung = np.array([plan.actuators.wiring.targets[k].kind == "tendon" for k in numbers], bool)
    gear = there(model.actuators).gear[numbers, 0]
    return library(gear).where(strung, gear, 1.0)


def periods(model: Model, numbers: np.ndarray, on_ball: np.ndarray, on_site: np.ndarray) -> Any:
    """Periods of setpoints that are turns; 0 for others (`nearest_setpoint` in actuate/force.py)."""
    a = there(model.actuators)
    xp = library(a.gear, a.gain, a.bias)
    gear = a.gear[numbers]
    axis = xp.where(on_site[:, None], gear[:, 3:], gear[:, :3])
    squared = (axis * axis).sum(-1)
    servos = np.array(a.wiring.servos, bool)[numbers]
    turns = on_ball | (on_site & (gear[:, :3] == 0).all(-1))
    applies = servos & turns & (a.gain[numbers, 0] == -a.bias[numbers, 1])
    return xp.where(applies, 2 * np.pi * xp.sqrt(squared), 0.0)


def driving(drive: DriveGroup, implicit: bool, shared: bool) -> Part:
    """Forces of the actuators, along their strings; `shared`: before their sums, and they themselves, are bounded."""
    stateful = drive.stateful

    def step(known, length, velocity, ctrl, *rest):
        motor, period = known
        act = rest[0] if stateful else None
        given = motor, motor.gear * length, motor.gear * velocity, ctrl, act, period
        force, slope, rate = unbounded(*given) if shared else driven(*given)
        made = written(stateful, implicit, slope, rate)
        return (*made, force, force) if shared else (*made, motor.gear * force)

    ports = ActuatorSlots.of(1, stateful, implicit)
    reads = (*STRING.of(0, "length", "velocity"), *ports.reads)
    writes = (*ports.writes, *((MOTOR.at(3, "force"),) if shared else ()))
    made = (*writes, *added(STRING.at(0, "drawn" if shared else "push")))

    def turns(plan: Any) -> np.ndarray:
        at = actuator_numbers(plan, drive)
        return table(plan.strings.string(_strings(plan, at.number)), *ActuatorSlots.table(plan, at))

    def constants(model: Model, plan: Any, known: Known) -> tuple[Motor, Any]:
        numbers = actuator_numbers(plan, drive).number
        own = motors(drive)(model, plan, known)
        on_ball = np.array([len(plan.strings.rows[s]) == 3 for s in _strings(plan, numbers)], bool)
        on_ball &= np.array([plan.actuators.wiring.targets[k].kind == "joint" for k in numbers], bool)
        period = periods(model, numbers, on_ball, np.zeros(len(numbers), bool))
        return own._replace(gear=_gears(model, plan, numbers)), period

    return part(turns, step, reads, made, ((motor_of(drive), 0.0), constants), columns=4)


def share_range(implicit: bool) -> list[Part]:
    """Forces made smaller where their sum on a tendon is beyond its range, and then kept within their own."""

    def step(known, total, force, *slope):
        gear, own, bounds = known
        some = total != 0
        share = jnp.where(some, clip(total, bounds) / jnp.where(some, total, jnp.ones_like(total)), 1.0)
        force, slopes = within(own, force * share, slope[0] if implicit else jnp.zeros_like(force))
        return (*((slopes,) if implicit else ()), gear * force, force)

    slope = (MOTOR.at(1, "slope"),) if implicit else ()
    reads = (STRING.at(0, "drawn"), MOTOR.at(1, "force"), *slope)
    made = (*slope, *added(*STRING.of(0, "push", "taken")))

    def hold(known, total, slope):
        return (jnp.where(is_full(total, *known[2]), jnp.zeros_like(slope), slope),)

    def turns(plan: Any) -> np.ndarray:
        strings, members = plan.strings.motors
        return table(plan.strings.string(strings), plan.motor(members))

    def constants(model: Model, plan: Any, known: Known) -> tuple:
        strings, numbers = plan.strings.motors
        tendons = plan.world.tendons
        strung = strings < plan.strings.n_tendons
        bounds = np.tile([-np.inf, np.inf], (1, 1)) if tendons is None else tendons.pull.force_range
        own = bounds[np.where(strung, strings, 0)]
        own = [library(own).where(strung, own[:, k], x) for k, x in enumerate((-np.inf, np.inf))]
        return _gears(model, plan, numbers), split(there(model.actuators).force_range[numbers]), tuple(own)

    known = (0.0, (0.0, 0.0), (0.0, 0.0)), constants
    held = [part(turns, hold, (STRING.at(0, "taken"), *slope), slope, known)] if implicit else []
    return [part(turns, step, reads, made, known), *held]


def brake_strings() -> Part:
    """In the last round, actuators resist by their slopes."""

    def step(gear, slope, finishing, h):
        return (-(slope * gear * gear * finishing * h),)

    reads = (MOTOR.at(1, "slope"), fixed("finishing"), fixed("h"))

    def turns(plan: Any) -> np.ndarray:
        strings, members = plan.strings.brakes
        return table(plan.strings.string(strings), plan.motor(members))

    gears = 0.0, lambda model, plan, known: _gears(model, plan, plan.strings.brakes.members)
    return part(turns, step, reads, added(STRING.at(0, "stiff")), gears)

"""Actuators in lanes: forces, rates of activations, slopes for implicit steps; and those on hinges and sliders.

As actuate/force.py has them, one actuator to a turn. An actuator with an activation takes it in place of its control.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import there
from kinetree.actuate import muscle
from kinetree.actuate.activation import SHORTEST
from kinetree.lanes import Memory, Slots
from kinetree.model import Model
from kinetree.model.actuators import FILTEREXACT, INTEGRATOR, MUSCLE

from .carrying import CARRIED
from .drive_plan import DriveGroup, drives_of
from .memory import NUMBER, ROW, fixed
from .parts import Known, Part, added, part, table
from .plan import Plan
from .tables import split

ACTIVATION = Memory(now=0.0, rate=0.0, start=0.0, mean=0.0)  # the last two are for the stages of a step
MOTOR = Memory(slope=0.0, force=0.0)


class ActuatorNumbers(NamedTuple):
    """Where some actuators act, in arrays: their numbers, controls, activations."""

    number: np.ndarray
    control: np.ndarray
    activation: np.ndarray  # −1 without one


def actuator_numbers(plan: Any, which: DriveGroup | str) -> ActuatorNumbers:
    """ActuatorNumbers of the actuators of one loop, or of all on a "row", a "string" or "frames"."""
    wiring = plan.actuators.wiring
    chosen = np.flatnonzero([which in (d, d.on) for d in drives_of(plan.structure, wiring)])
    control, activation = (np.array(x, np.int64)[chosen] for x in (wiring.controls, wiring.activations))
    return ActuatorNumbers(chosen, control, activation)


def rows_of(plan: Any, at: ActuatorNumbers) -> np.ndarray:
    """The rows of actuators that act on one row each."""
    joints = np.array([plan.actuators.wiring.targets[k].first for k in at.number], np.int64)
    return np.asarray(plan.structure.v_start)[joints].astype(np.int64)


class MuscleConstants(NamedTuple):
    """The additional constants of a muscle."""

    pulls: Any  # 1 where its gain is a muscle's
    resists: Any  # 1 where its bias is
    blends: Any  # 1 where its activation is
    curve: tuple
    passive: tuple
    lengths: tuple
    acc0: Any
    times: tuple


class Motor(NamedTuple):
    """An actuator's constants."""

    gear: Any
    gain: tuple
    bias: tuple
    ctrl_range: tuple
    force_range: tuple
    act_range: tuple
    time_constant: Any
    integrator: Any  # 1 for an integrator
    early: Any  # 1 where the force takes the activation of the end of the step
    span: Any  # the time that a step adds at a constant rate
    of_muscle: Any = ()


MOTORS = Motor(0.0, (0.0,) * 3, (0.0,) * 3, (0.0,) * 2, (0.0,) * 2, (0.0,) * 2, 0.0, 0.0, 0.0, 0.0)
MUSCLE_CONSTANTS = MuscleConstants(0.0, 0.0, 0.0, (0.0,) * 9, (0.0,) * 9, (0.0,) * 2, 0.0, (0.0,) * 3)


def motor_of(drive: DriveGroup) -> Motor:
    """The tree of an actuator's constants."""
    return MOTORS._replace(of_muscle=MUSCLE_CONSTANTS) if drive.muscle else MOTORS


def motors(drive: DriveGroup) -> Any:
    """The constants of the actuators of a loop."""

    def constants(model: Model, plan: Plan, known: Known) -> Motor:
        a = there(model.actuators)
        at, wiring = actuator_numbers(plan, drive), a.wiring
        n = at.number
        kind, early = np.array(wiring.dynamics)[n], np.array(wiring.early, float)[n]
        traced = any(isinstance(x, jax.Array) for x in (a.time_constant, known.h))
        xp: Any = jnp if traced else np
        constant = xp.maximum(a.time_constant[n], SHORTEST)
        span = xp.where(kind == FILTEREXACT, -constant * xp.expm1(-known.h / constant), known.h)

        ranges = split(a.ctrl_range[at.control]), split(a.force_range[n]), split(a.act_range[n])
        both = (kind == INTEGRATOR).astype(float), early
        of_muscle: Any = ()
        if drive.muscle:
            m = there(a.muscles)
            flags = np.array(wiring.muscles or np.zeros((len(wiring.targets), 2)), float)[n]
            curves = split(m.gain[n]), split(m.bias[n]), split(m.length_range[n])
            blends = (kind == MUSCLE).astype(float)
            of_muscle = MuscleConstants(flags[:, 0], flags[:, 1], blends, *curves, m.acc0[n], split(m.times[n]))
        return Motor(a.gear[n, 0], split(a.gain[n]), split(a.bias[n]), *ranges, constant, *both, span, of_muscle)

    return constants


def clip(x: Any, bounds: tuple) -> Any:
    """x within its bounds."""
    return jnp.minimum(jnp.maximum(x, bounds[0]), bounds[1])


def next_activation(known: Motor, act: Any, rate: Any) -> Any:
    """At the end of a step."""
    return clip(act + rate * known.span, known.act_range)


def driven(known: Motor, length: Any, velocity: Any, ctrl: Any, act: Any, period: Any = None) -> tuple:
    """The force of an actuator, its slope by the velocity, and the rate of its activation, as `unbounded`."""
    force, slope, rate = unbounded(known, length, velocity, ctrl, act, period)
    return *within(known.force_range, force, slope), rate


def within(bounds: tuple, force: Any, slope: Any) -> tuple:
    """A force within its range, at whose ends it does not grow with velocity; and its slope."""
    force = clip(force, bounds)
    held = (force <= bounds[0]) | (force >= bounds[1])
    return force, jnp.where(held, jnp.zeros_like(force), slope)


def unbounded(known: Motor, length: Any, velocity: Any, ctrl: Any, act: Any, period: Any = None) -> tuple:
    """The force of an actuator, its slope by the velocity, and the rate of its activation, if `act` is one.

    Arguments:
        known: its numbers.
        length, velocity: of what it moves.
        ctrl, act: its control and activation; None without one.
        period: of lengths that are turns: the setpoint is the nearest one. None, or 0, for others.
    """
    u = clip(ctrl, known.ctrl_range)
    rate = None
    if act is not None:
        rate = jnp.where(known.integrator != 0, u, (u - act) / known.time_constant)
        if known.of_muscle:
            rate = jnp.where(known.of_muscle.blends != 0, muscle.rate(known.of_muscle.times, u, act), rate)
        u = jnp.where(known.early != 0, next_activation(known, act, rate), act)
    if period is not None:
        winds = period > 0
        safe = jnp.where(winds, period, jnp.ones_like(period))
        u = jnp.where(winds, u - safe * jnp.floor((u - length) / safe + 0.5), u)
    (strength, grows), (bias, resists) = _laws(known, length, velocity)
    return strength * u + bias, resists + grows * u, rate


def _laws(known: Motor, length: Any, velocity: Any) -> list[tuple]:
    """Gain and bias, each with its slope by the velocity."""
    found = [(c[0] + c[1] * length + c[2] * velocity, c[2]) for c in (known.gain, known.bias)]
    if not known.of_muscle:
        return found
    f = known.of_muscle
    one, two = (muscle.scaled(c, f.lengths, f.acc0, length, velocity) for c in (f.curve, f.passive))
    own = muscle.gain(f.curve, one), (muscle.bias(f.passive, two), jnp.zeros_like(length))
    chosen = zip((f.pulls, f.resists), own, found, strict=True)
    return [tuple(jnp.where(is_muscle != 0, x, y) for x, y in zip(a, b, strict=True)) for is_muscle, a, b in chosen]


class ActuatorSlots(NamedTuple):
    """Slots of actuators: columns of control, activation, and motor."""

    reads: tuple[Slots, ...]
    writes: tuple[Slots, ...]

    @staticmethod
    def of(first: int, stateful: bool, implicit: bool) -> "ActuatorSlots":
        """In three columns from the first on."""
        activation = (ACTIVATION.at(first + 1, "now"),) if stateful else ()
        rate = (ACTIVATION.at(first + 1, "rate"),) if stateful else ()
        return ActuatorSlots(
            (Slots(first, 0, NUMBER), *activation), rate + ((MOTOR.at(first + 2, "slope"),) if implicit else ())
        )

    @staticmethod
    def table(plan: Any, at: ActuatorNumbers) -> tuple:
        """The three columns."""
        return plan.control(at.control), plan.activation(np.maximum(at.activation, 0)), plan.motor(at.number)


def written(stateful: bool, implicit: bool, slope: Any, rate: Any) -> tuple:
    """The values in the slots of an actuator."""
    return ((rate,) if stateful else ()) + ((slope,) if implicit else ())


def driving(drive: DriveGroup, to: str, implicit: bool) -> Part:
    """Forces of the actuators on hinges and sliders, added to a field of their rows."""
    stateful = drive.stateful

    def step(known, q, qd, ctrl, *rest):
        force, slope, rate = driven(known, known.gear * q, known.gear * qd, ctrl, rest[0] if stateful else None)
        return (*written(stateful, implicit, slope, rate), known.gear * force)

    def turns(plan: Any) -> np.ndarray:
        at = actuator_numbers(plan, drive)
        rows = rows_of(plan, at)
        return table(plan.row(rows), plan.q + plan.structure.q_of_row[rows], *ActuatorSlots.table(plan, at))

    ports = ActuatorSlots.of(2, stateful, implicit)
    reads, made = (Slots(1, 0, NUMBER), ROW.at(0, "qd"), *ports.reads), (*ports.writes, *added(ROW.at(0, to)))
    return part(turns, step, reads, made, (motor_of(drive), motors(drive)), columns=5)


def bounded(implicit: bool, carries: bool) -> list[Part]:
    """The sum of the actuators of a joint, within its range, added to the forces; loads of implicit steps.

    `carries`: gravity compensation counts in the sum (carrying.py).
    """
    weight = (CARRIED.at(1, "tau"),) if carries else ()

    def clear(bounds: tuple, carried: Any) -> tuple:
        """The part of a range that is left for actuators."""
        return tuple(bound - carried[0] for bound in bounds) if carries else bounds

    def step(bounds, total, *carried):
        return (clip(total, clear(bounds, carried)),)

    def rows(plan: Any) -> np.ndarray:
        strung = [r for s in plan.strings.motors.strings for r in plan.strings.rows[s]]
        scalar = np.flatnonzero(plan.structure.q_of_row >= 0)  # without actuators, too: a range may leave out zero
        own = [*scalar, *strung, *(plan.actuators.wiring.carries if carries else ())]
        return np.unique(own).astype(np.int64)

    def columns(plan: Any, own: np.ndarray) -> list[Any]:
        return [plan.row(own), *([plan.carried(own)] if carries else [])]

    def ranges(model: Model, own: np.ndarray) -> tuple:
        return tuple(there(model.actuators).joint_range[own, k] for k in range(2))

    def summed(plan: Any) -> np.ndarray:
        return table(*columns(plan, rows(plan)))

    bounds = (0.0, 0.0), lambda model, plan, known: ranges(model, rows(plan))
    sums = part(summed, step, (ROW.at(0, "driven"), *weight), added(ROW.at(0, "b")), bounds)
    if not implicit:
        return [sums]

    def braked(known, total, slope, h, *carried):
        gear, bounds = known
        weakest, strongest = clear(bounds, carried)
        full = (total <= weakest) | (total >= strongest)
        return (jnp.where(full, jnp.zeros_like(slope), -h * slope * gear * gear),)

    reads = (ROW.at(0, "driven"), MOTOR.at(1 + carries, "slope"), fixed("h"), *weight)

    def turns(plan: Any) -> np.ndarray:
        at = actuator_numbers(plan, "row")
        return table(*columns(plan, rows_of(plan, at)), plan.motor(at.number))

    def gears(model: Model, plan: Plan, known: Known) -> tuple:
        a = there(model.actuators)
        at = actuator_numbers(plan, "row")
        return a.gear[at.number, 0], ranges(model, rows_of(plan, at))

    return [sums, part(turns, braked, reads, added(ROW.at(0, "load")), ((0.0, (0.0, 0.0)), gears))]


def advance_activations(drive: DriveGroup, field: str, rate: str) -> Part:
    """Activations at the end of a step, from a field and a rate."""

    def turns(plan: Any) -> np.ndarray:
        return table(plan.activation(actuator_numbers(plan, drive).activation))

    known = motor_of(drive), motors(drive)
    return part(turns, lambda *x: (next_activation(*x),), ACTIVATION.of(0, field, rate), ACTIVATION.of(0, "now"), known)

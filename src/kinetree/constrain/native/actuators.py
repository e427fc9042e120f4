"""Actuators on hinges and sliders in lanes: forces on the joints, rates of activations, and slopes for implicit steps.

As actuate/force.py has them, one actuator to a turn. An actuator with an activation takes it in place of its control.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.actuate.activation import SHORTEST
from kinetree.actuate.transmission import columns
from kinetree.lanes import Loop, Memory, Slots
from kinetree.model import Model
from kinetree.model.actuators import FILTEREXACT, INTEGRATOR, Actuators

from .kinematics import at_q
from .memory import NUMBER, ROW, fixed
from .parts import Known, Part, table
from .plan import Plan

ACTIVATION = Memory(now=0.0, rate=0.0, start=0.0, mean=0.0)  # the last two are for the stages of a step
MOTOR = Memory(slope=0.0)


class Wires(NamedTuple):
    """Where actuators act, in arrays: their rows, columns of q, controls, activations."""

    number: np.ndarray
    row: np.ndarray
    q: np.ndarray
    control: np.ndarray
    activation: np.ndarray  # −1 without one


def wires(plan: Plan, actuators: Actuators, stateful: bool | None = None) -> Wires:
    """Of all actuators, or of those with or without activations."""
    wiring = actuators.wiring
    at = columns(plan.structure, wiring)
    has = np.array(wiring.activations, np.int64) >= 0
    chosen = np.arange(len(has)) if stateful is None else np.flatnonzero(has == stateful)
    control, activation = (np.array(x, np.int64)[chosen] for x in (wiring.controls, wiring.activations))
    return Wires(chosen, at.dof[chosen, 0], at.q[chosen, 0], control, activation)


def not_served(plan: Plan, actuators: Actuators | None) -> str:
    """Why lanes can not serve these actuators; nothing where they can."""
    if actuators is None:
        return ""
    if -1 in actuators.wiring.joints:
        return "an actuator acts on a tendon, a site or a body"
    if actuators.muscles is not None:
        return "an actuator is a muscle"
    at = columns(plan.structure, actuators.wiring)
    return "" if at.diagonal and not at.turned else "an actuator moves a joint with several degrees of freedom"


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


MOTORS = Motor(0.0, (0.0,) * 3, (0.0,) * 3, (0.0,) * 2, (0.0,) * 2, (0.0,) * 2, 0.0, 0.0, 0.0, 0.0)


def motors(stateful: bool) -> Any:
    """The constants of the actuators with, or without, activations."""

    def constants(model: Model, plan: Plan, known: Known) -> Motor:
        a = model.actuators
        assert a is not None
        at, wiring = wires(plan, a, stateful), a.wiring
        n = at.number
        kind, early = np.array(wiring.dynamics)[n], np.array(wiring.early, float)[n]
        traced = any(isinstance(x, jax.Array) for x in (a.time_constant, known.h))
        xp: Any = jnp if traced else np
        constant = xp.maximum(a.time_constant[n], SHORTEST)
        span = xp.where(kind == FILTEREXACT, -constant * xp.expm1(-known.h / constant), known.h)

        def parts(x: Any, at: np.ndarray) -> tuple:
            return tuple(x[at, k] for k in range(x.shape[1]))

        ranges = parts(a.ctrl_range, at.control), parts(a.force_range, n), parts(a.act_range, n)
        both = (kind == INTEGRATOR).astype(float), early
        return Motor(a.gear[n, 0], parts(a.gain, n), parts(a.bias, n), *ranges, constant, *both, span)

    return constants


def clip(x: Any, bounds: tuple) -> Any:
    """x within its bounds."""
    return jnp.minimum(jnp.maximum(x, bounds[0]), bounds[1])


def next_activation(known: Motor, act: Any, rate: Any) -> Any:
    """At the end of a step."""
    return clip(act + rate * known.span, known.act_range)


def driving(stateful: bool, to: str, implicit: bool) -> Part:
    """Forces of the actuators, added to a field of their rows; rates of activations, and slopes for implicit steps."""

    def step(known: Motor, _: tuple, reads: tuple) -> tuple:
        (q,), qd, ctrl, *rest = reads
        u = clip(ctrl, known.ctrl_range)
        writes: tuple = ()
        if stateful:
            act = rest.pop(0)
            rate = jnp.where(known.integrator != 0, u, (u - act) / known.time_constant)
            u = jnp.where(known.early != 0, next_activation(known, act, rate), act)
            writes = (rate,)
        length, velocity = known.gear * q, known.gear * qd
        gain, bias = known.gain, known.bias
        strength = gain[0] + gain[1] * length + gain[2] * velocity
        wanted = strength * u + bias[0] + bias[1] * length + bias[2] * velocity
        force = clip(wanted, known.force_range)
        if implicit:
            held = (force <= known.force_range[0]) | (force >= known.force_range[1])
            writes = (*writes, jnp.where(held, jnp.zeros_like(force), bias[2] + gain[2] * u))
        return writes, (known.gear * force,), ()

    activation = (ACTIVATION.at(3, "now"),) if stateful else ()
    reads = (at_q(1, 1), ROW.at(0, "qd"), Slots(2, 0, NUMBER), *activation)
    writes = ((ACTIVATION.at(3, "rate"),) if stateful else ()) + ((MOTOR.at(4, "slope"),) if implicit else ())
    loop = Loop(step, 5, jax.tree.structure(MOTORS), reads=reads, writes=writes, adds=(ROW.at(0, to),))

    def turns(plan: Any) -> np.ndarray:
        at = wires(plan, plan.actuators, stateful)
        act = plan.activation(np.maximum(at.activation, 0))
        return table(plan.row(at.row), plan.q + at.q, plan.control(at.control), act, plan.motor(at.number))

    return Part(loop, turns, motors(stateful))


def bounded(implicit: bool) -> list[Part]:
    """The sum of the actuators of a joint, within its range, added to the forces; loads of implicit steps."""

    def step(bounds: tuple, _: tuple, reads: tuple) -> tuple:
        return (), (clip(reads[0], bounds),), ()

    loop = Loop(step, 1, jax.tree.structure((0.0, 0.0)), reads=(ROW.at(0, "driven"),), adds=(ROW.at(0, "b"),))

    def rows(plan: Any) -> np.ndarray:
        return np.unique(wires(plan, plan.actuators).row)

    def ranges(model: Model, plan: Plan, known: Known) -> tuple:
        assert model.actuators is not None
        return tuple(model.actuators.joint_range[rows(plan), k] for k in range(2))

    sums = Part(loop, lambda plan: table(plan.row(rows(plan))), ranges)
    if not implicit:
        return [sums]

    def braked(known: tuple, _: tuple, reads: tuple) -> tuple:
        gear, weakest, strongest = known
        total, slope, h = reads
        full = (total <= weakest) | (total >= strongest)
        return (), (jnp.where(full, jnp.zeros_like(slope), -h * slope * gear * gear),), ()

    reads = (ROW.at(0, "driven"), MOTOR.at(1, "slope"), fixed("h"))
    brake = Loop(braked, 2, jax.tree.structure((0.0, 0.0, 0.0)), reads=reads, adds=(ROW.at(0, "load"),))

    def turns(plan: Any) -> np.ndarray:
        at = wires(plan, plan.actuators)
        return table(plan.row(at.row), plan.motor(at.number))

    def gears(model: Model, plan: Plan, known: Known) -> tuple:
        a = model.actuators
        assert a is not None
        at = wires(plan, a)
        return a.gear[:, 0], a.joint_range[at.row, 0], a.joint_range[at.row, 1]

    return [sums, Part(brake, turns, gears)]


def activated(field: str, rate: str) -> Part:
    """Activations at the end of a step, from a field and a rate."""

    def step(known: Motor, _: tuple, reads: tuple) -> tuple:
        return (next_activation(known, *reads),), (), ()

    reads = (ACTIVATION.at(0, field), ACTIVATION.at(0, rate))
    loop = Loop(step, 1, jax.tree.structure(MOTORS), reads=reads, writes=(ACTIVATION.at(0, "now"),))
    return Part(loop, lambda plan: table(plan.activation(wires(plan, plan.actuators, True).activation)), motors(True))

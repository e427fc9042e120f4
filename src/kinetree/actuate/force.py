"""The forces of actuators, as in MuJoCo's mj_fwdActuation: gains, biases, and ranges one after the other.

Controls are kept within their ranges, then the sum of the forces on a tendon, the force of each actuator, and the sum
over the actuators of a joint.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from kinetree._arrays import there
from kinetree._types import Array, Float
from kinetree._varying import jit
from kinetree.model import Actuators, Model
from kinetree.model.arguments import evaluate_for
from kinetree.model.required import require_model
from kinetree.model.tendons import Tendons

from . import muscle
from .activation import next_activation, rates
from .transmission import ActuatorColumns, Transmission, columns_of, gathered, transmission

ROUNDING = 64  # units in the last place of a sum, within which it is its bound


class Actuation(NamedTuple):
    """Forces of actuators, and their details."""

    force: Any  # (batch, nv), generalised
    rate: Any  # (batch, na), of activations
    moment: Any  # (batch or 1, n, width)
    slope: Any  # (batch, n), the derivative of each actuator's force by its velocity; zero at the ends of its range
    length: Any  # (batch, n)
    velocity: Any  # (batch, n)
    own: Any  # (batch, n), each actuator's force


@jit
def actuation(
    model: Model, q: Any, qd: Any, ctrl: Any, act: Any, h: Any, pressed: Any = None, carried: Any = 0.0
) -> Actuation:
    """Forces and rates of a model with actuators and without coupling.

    `h` is for forces that look a step ahead; `pressed` are the moments (batch, k, nv) of actuators on bodies; `carried`
    the gravity compensation (batch, nv) that shares the joints' ranges with the actuators.
    """
    actuators = there(model.actuators)
    wiring, dtype = actuators.wiring, q.dtype
    at = columns_of(model)
    lower, upper = jnp.asarray(actuators.ctrl_range, dtype).T
    clamped = jnp.clip(ctrl, lower, upper)
    rate = rates(actuators, clamped, act)
    seen = transmission(model, q, qd, pressed)
    early = np.zeros(wiring.na, bool)
    early[[c for c, e in zip(wiring.activations, wiring.early, strict=True) if e and c >= 0]] = True
    ahead = jnp.where(early, next_activation(actuators, act, rate, h), act) if early.any() else act
    source = np.array(
        [c if a < 0 else wiring.nu + a for c, a in zip(wiring.controls, wiring.activations, strict=True)], np.int64
    )
    u = jnp.concatenate([clamped, ahead], -1)[:, source]
    u = nearest_setpoint(model, at, u, seen.length)
    gain, bias = _laws(actuators, seen)
    force = gain.value * u + bias.value
    force = _within_tendons(model, at, force)
    least, most = jnp.asarray(actuators.force_range, dtype).T
    force = jnp.clip(force, least, most)
    total = gathered(at, seen.moment * force[:, :, None])
    weakest, strongest = (bound - carried for bound in jnp.asarray(actuators.joint_range, dtype).T)
    full = (total <= weakest) | (total >= strongest)
    # At its bound a force does not depend on velocity. MuJoCo applies a joint's bound only to actuators on joints.
    held = (force <= least) | (force >= most) | (at.on_joint & (full[:, at.dof] & at.used).any(-1))
    held = held | _held_by_tendons(model, at, force)
    slope = jnp.where(held, jnp.zeros_like(force), bias.slope + gain.slope * u)
    return Actuation(jnp.clip(total, weakest, strongest), rate, seen.moment, slope, seen.length, seen.velocity, force)


class _Law(NamedTuple):
    """A gain or a bias, (batch, n), and its derivative by velocity."""

    value: Any
    slope: Any


def _laws(actuators: Actuators, seen: Transmission) -> tuple[_Law, _Law]:
    """Gains and biases: affine, or a muscle's."""
    dtype, muscles = seen.length.dtype, actuators.muscles
    found = []
    for c in (jnp.asarray(actuators.gain, dtype), jnp.asarray(actuators.bias, dtype)):
        found.append(_Law(c[:, 0] + c[:, 1] * seen.length + c[:, 2] * seen.velocity, c[:, 2]))
    if muscles is None or not actuators.wiring.muscles:
        return found[0], found[1]
    pulls, resists = np.array(actuators.wiring.muscles, bool).T
    curve, passive, lengths, acc0, _ = (jnp.asarray(x, dtype).T for x in muscles)
    both = muscle.gain(curve, muscle.scaled(curve, lengths, acc0, seen.length, seen.velocity))
    rest = muscle.bias(passive, muscle.scaled(passive, lengths, acc0, seen.length, seen.velocity))
    gain = _Law(*(jnp.where(pulls, a, b) for a, b in zip(both, found[0], strict=True)))
    return gain, _Law(jnp.where(resists, rest, found[1].value), jnp.where(resists, 0.0, found[1].slope))


def _within_tendons(model: Model, at: ActuatorColumns, force: Any) -> Any:
    """Forces (batch, n), made smaller where their sum on a tendon is beyond its range."""
    tendons = None if model.world is None else model.world.tendons
    which = np.flatnonzero(at.tendon >= 0)
    if tendons is None or not len(which):
        return force
    total, least, most = _on_tendons(tendons, at.tendon[which], force[:, which])
    share = jnp.clip(total, least, most) / jnp.where(total == 0, jnp.ones_like(total), total)
    share = jnp.where(total == 0, jnp.ones_like(total), share)
    return force.at[:, which].set(force[:, which] * share)


def _on_tendons(tendons: Tendons, own: np.ndarray, force: Any) -> tuple[Any, Any, Any]:
    """Of the tendon of each of some actuators: the sum of their forces, and its bounds."""
    same = jnp.asarray(own[:, None] == own[None], force.dtype)
    return (force[:, None] * same).sum(-1), *jnp.asarray(tendons.pull.force_range, force.dtype)[own].T


def _held_by_tendons(model: Model, at: ActuatorColumns, force: Any) -> Any:
    """(batch, n): forces whose sum on a tendon is at its bound."""
    tendons = None if model.world is None else model.world.tendons
    which, held = np.flatnonzero(at.tendon >= 0), jnp.zeros(force.shape, bool)
    if tendons is None or not len(which):
        return held
    return held.at[:, which].set(is_full(*_on_tendons(tendons, at.tendon[which], force[:, which])))


def is_full(total: Any, least: Any, most: Any) -> Any:
    """True if a sum is at its bounds: the parts of what was scaled to a bound add up to it within rounding."""
    near = ROUNDING * float(jnp.finfo(total.dtype).eps) * jnp.abs(total)
    return (total <= least + near) | (total >= most - near)


def nearest_setpoint(model: Model, at: ActuatorColumns, u: Any, length: Any) -> Any:
    """Setpoints (batch, n). If a length is an angle, full turns are added so that the setpoint is nearest to it.

    Such are servos on balls, and on sites with a reference whose gear only turns.
    """
    actuators = there(model.actuators)
    wrapped = at.winds & np.array(actuators.wiring.servos, bool)
    if not wrapped.any():
        return u
    gear, gain, bias = (jnp.asarray(x, u.dtype) for x in (actuators.gear, actuators.gain, actuators.bias))
    axis = jnp.where(at.on_refsite[:, None], gear[:, 3:], gear[:, :3])
    squared = (axis * axis).sum(-1)
    turns = at.on_ball | (gear[:, :3] == 0).all(-1)
    applies = wrapped & turns & (gain[:, 0] == -bias[:, 1]) & (squared > 0)
    period = 2 * np.pi * jnp.sqrt(jnp.where(applies, squared, jnp.ones_like(squared)))
    return jnp.where(applies, u - period * jnp.round((u - length) / period), u)


def activation_rate(model: Model, ctrl: Float[Array, "... nu"], act: Float[Array, "... na"]) -> Float[Array, "... na"]:
    """The rates at which activations follow their controls.

    Arguments:
        model: the mechanism, with actuators.
        ctrl: controls (..., nu); they are kept within their ranges.
        act: activations (..., na).

    Returns:
        The rates of the activations, (..., na).
    """
    require_model(model)

    def compute(ctrl: Any, act: Any) -> Any:
        return act if model.actuators is None else _clamped_rates(model.actuators, ctrl, act)

    return evaluate_for(model, compute, ctrl=ctrl, act=act)


@jit
def _clamped_rates(actuators: Actuators, ctrl: Any, act: Any) -> Any:
    """Rates from controls that are kept within their ranges."""
    lower, upper = jnp.asarray(actuators.ctrl_range, act.dtype).T
    return rates(actuators, jnp.clip(jnp.asarray(ctrl), lower, upper), jnp.asarray(act))

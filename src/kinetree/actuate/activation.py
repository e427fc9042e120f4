"""Activations: states of actuators that follow their controls."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from kinetree.model import Actuators
from kinetree.model.actuators import FILTEREXACT, INTEGRATOR, MUSCLE, Wiring

from . import muscle

SHORTEST = 1e-15  # s, the least time constant of a filter; MuJoCo's mjMINVAL


def stateful(wiring: Wiring) -> tuple[np.ndarray, np.ndarray]:
    """The actuators that have an activation, and its column."""
    column = np.array(wiring.activations, np.int64)
    which = np.flatnonzero(column >= 0)
    return which, column[which]


def rates(actuators: Actuators, ctrl: Any, act: Any) -> Any:
    """ȧ, (batch, na), from controls (batch, nu) within their ranges, and activations."""
    wiring = actuators.wiring
    which, column = stateful(wiring)
    if not len(which):
        return jnp.zeros_like(act)
    u = ctrl[:, np.array(wiring.controls, np.int64)[which]]
    kind = np.array(wiring.dynamics)[which]
    constant = jnp.maximum(jnp.asarray(actuators.time_constant, act.dtype)[which], SHORTEST)
    found = jnp.where(kind == INTEGRATOR, u, (u - act[:, column]) / constant)
    if actuators.muscles is not None and MUSCLE in wiring.dynamics:
        times = jnp.asarray(actuators.muscles.times, act.dtype)[which].T
        found = jnp.where(kind == MUSCLE, muscle.rate(times, u, act[:, column]), found)
    return jnp.zeros_like(act).at[:, column].set(found)


def next_activation(actuators: Actuators, act: Any, rate: Any, h: Any) -> Any:
    """Activations (batch, na) after a step h at a constant rate, or that of an exact filter, within their ranges."""
    wiring = actuators.wiring
    which, column = stateful(wiring)
    if not len(which):
        return act
    kind = np.array(wiring.dynamics)[which]
    constant = jnp.maximum(jnp.asarray(actuators.time_constant, act.dtype)[which], SHORTEST)
    h = jnp.asarray(h, act.dtype)
    span = jnp.where(kind == FILTEREXACT, -constant * jnp.expm1(-h / constant), h)
    lower, upper = jnp.asarray(actuators.act_range, act.dtype)[which].T
    moved = jnp.clip(act[:, column] + rate[:, column] * span, lower, upper)
    return act.at[:, column].set(moved)

"""Controllers: functions (t, q, qd) -> tau. These are ready-made; any function that JAX can trace is one."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from kinetree._types import AnyArray, Float, Number
from kinetree.dynamics import gravity_force, inverse_dynamics
from kinetree.model import Model, ModelError, difference

from .forces import Controller

# t -> (q, qd, qdd)
Reference = Callable[
    [Float[jax.Array, ""]],
    tuple[Float[AnyArray, "... nq"], Float[AnyArray, "... nv"], Float[AnyArray, "... nv"]],
]
Gain = Number | Float[AnyArray, " nv"]


def pd(model: Model, target: Float[AnyArray, "... nq"], kp: Gain, kd: Gain) -> Controller:
    """Springs and dampers to a target: tau = kp · (target ⊖ q) − kd · qd.

    Arguments:
        model: the mechanism.
        target: the configuration to hold, (..., nq).
        kp: force per error, (nv,) or one for all.
        kd: force per velocity, likewise.
    """

    def control(t: jax.Array, q: jax.Array, qd: jax.Array) -> jax.Array:
        error = difference(model, q, jnp.asarray(target, q.dtype))
        return jnp.asarray(kp, q.dtype) * error - jnp.asarray(kd, q.dtype) * qd

    return control


def gravity_compensation(model: Model) -> Controller:
    """The forces that hold the mechanism against gravity. Add them to another controller with `total`."""

    def control(t: jax.Array, q: jax.Array, qd: jax.Array) -> jax.Array:
        return gravity_force(model, q)

    return control


def computed_torque(model: Model, reference: Reference, kp: Gain, kd: Gain) -> Controller:
    """Follow a reference: tau = ID(q, qd, qdd_ref + kd · (qd_ref − qd) + kp · (q_ref ⊖ q)).

    With an exact model the error e obeys ë + kd ė + kp e = 0 in every joint (exactly so for hinges and sliders).

    Arguments:
        model: the mechanism.
        reference: t -> (q, qd, qdd), traced by JAX.
        kp: acceleration per error, (nv,) or one for all.
        kd: acceleration per error of velocity, likewise.
    """

    def control(t: jax.Array, q: jax.Array, qd: jax.Array) -> jax.Array:
        q_ref, qd_ref, qdd_ref = (jnp.asarray(x, q.dtype) for x in reference(t))
        wanted = (
            qdd_ref + jnp.asarray(kd, q.dtype) * (qd_ref - qd) + jnp.asarray(kp, q.dtype) * difference(model, q, q_ref)
        )
        return inverse_dynamics(model, q, qd, wanted)

    return control


def total(*controllers: Controller) -> Controller:
    """The sum of several controllers."""

    def control(t: jax.Array, q: jax.Array, qd: jax.Array) -> jax.Array:
        return sum((jnp.asarray(c(t, q, qd)) for c in controllers), jnp.zeros_like(qd))

    return control


def saturated(model: Model, controller: Controller) -> Controller:
    """The same controller within the effort limits of the model's joints."""
    if model.limits is None:
        raise ModelError("the model has no effort limits")
    coupling = model.coupling
    effort = model.limits.effort if coupling is None else model.limits.effort[coupling.kept_v]

    def control(t: jax.Array, q: jax.Array, qd: jax.Array) -> jax.Array:
        most = jnp.asarray(effort, qd.dtype)
        return jnp.clip(controller(t, q, qd), -most, most)

    return control

"""Controllers: functions (t, q, qd) -> tau. These are ready-made; any function that JAX can trace is one.

They copy the arrays that they are given: later changes to these have no effect.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from kinetree._arrays import as_array, require_real
from kinetree._types import AnyArray, Float, Number
from kinetree.dynamics import gravity_force, inverse_dynamics
from kinetree.model import Model, ModelError, difference
from kinetree.model.arguments import require_width
from kinetree.model.checks import frozen
from kinetree.model.required import require_function, require_model

from .forces import Controller, control_force

# t -> (q, qd, qdd)
Reference = Callable[
    [Float[jax.Array, ""]],
    tuple[Float[AnyArray, "... nq"], Float[AnyArray, "... nv"], Float[AnyArray, "... nv"]],
]
Gain = Number | Float[AnyArray, " nv"]


def _gain(name: str, value: Any, nv: int) -> Any:
    """One number for each degree of freedom, or one for all; for each state too, if there are more axes."""
    array = as_array(name, value)
    require_real(name, array)
    if array.ndim and array.shape[-1] not in (1, nv):
        raise ValueError(f"{name} must be a number or have shape ({nv},), not {tuple(array.shape)}")
    return frozen(array)


def pd(model: Model, target: Float[AnyArray, "... nq"], kp: Gain, kd: Gain) -> Controller:
    """Springs and dampers to a target: tau = kp · (target ⊖ q) − kd · qd.

    Arguments:
        model: the mechanism.
        target: the configuration to hold, (..., nq).
        kp: force per error, (nv,) or one for all.
        kd: force per velocity, likewise.
    """
    require_model(model)
    target = frozen(require_width("target", target, model.nq))  # compiled loops would not see changes
    kp, kd = _gain("kp", kp, model.nv), _gain("kd", kd, model.nv)

    def control(t: jax.Array, q: jax.Array, qd: jax.Array) -> jax.Array:
        error = difference(model, q, jnp.asarray(target, q.dtype))
        return jnp.asarray(kp, q.dtype) * error - jnp.asarray(kd, q.dtype) * qd

    return control


def gravity_compensation(model: Model) -> Controller:
    """The forces that hold the mechanism against gravity. Add them to another controller with `total`."""
    require_model(model)

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
    require_model(model)
    require_function("reference", reference, "t")
    kp, kd = _gain("kp", kp, model.nv), _gain("kd", kd, model.nv)

    def control(t: jax.Array, q: jax.Array, qd: jax.Array) -> jax.Array:
        found = reference(t)
        if not (isinstance(found, tuple | list) and len(found) == 3):
            raise TypeError(f"reference must return (q, qd, qdd), not a {type(found).__name__}")
        q_ref, qd_ref, qdd_ref = (jnp.asarray(x, q.dtype) for x in found)
        wanted = (
            qdd_ref + jnp.asarray(kd, q.dtype) * (qd_ref - qd) + jnp.asarray(kp, q.dtype) * difference(model, q, q_ref)
        )
        return inverse_dynamics(model, q, qd, wanted)

    return control


def total(*controllers: Controller) -> Controller:
    """The sum of several controllers."""
    for controller in controllers:
        require_function("controller", controller, "(t, q, qd)")

    def control(t: jax.Array, q: jax.Array, qd: jax.Array) -> jax.Array:
        return sum((control_force(c, t, q, qd) for c in controllers), jnp.zeros_like(qd))

    return control


def saturated(model: Model, controller: Controller) -> Controller:
    """The same controller within the effort limits of the model's joints."""
    require_model(model)
    require_function("controller", controller, "(t, q, qd)")
    if model.limits is None:
        raise ModelError("the model has no effort limits")
    coupling = model.coupling
    effort = model.limits.effort if coupling is None else model.limits.effort[coupling.kept_v]

    def control(t: jax.Array, q: jax.Array, qd: jax.Array) -> jax.Array:
        most = jnp.asarray(effort, qd.dtype)
        return jnp.clip(control_force(controller, t, q, qd), -most, most)

    return control

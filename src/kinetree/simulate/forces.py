"""Joint forces in a simulation: those of the controller, and dry friction.

Springs and dampers belong to the equation of motion (dynamics/passive.py). Dry friction has no value at rest. If
constraints act, it is one of them. If they do not (the variational integrator), it is smooth: a joint at speed u has
the friction −friction · u / √(u² + ε²), which is Coulomb's force at speeds well above ε.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from kinetree._types import AnyArray, Float
from kinetree.model import Model, coupled
from kinetree.model.arguments import evaluate_for

from .world_axes import to_body, to_world

# (t, q, qd) -> tau
Controller = Callable[
    [Float[jax.Array, ""], Float[jax.Array, "... nq"], Float[jax.Array, "... nv"]], Float[AnyArray, "... nv"]
]

HAS_STATE = (
    "the controller keeps values from one call to the next, which a compiled loop can not do: make it a function of "
    "(t, q, qd) alone, or give kt.rollout a policy, which may have memory"
)
REST_SPEED = 1e-2  # ε, rad/s or m/s


@coupled("force")
def friction_force(model: Model, q: Any, qd: Any) -> Any:
    """Dry friction, (..., nv), of joints that move at qd; of free joints along the axes of their parents."""

    def compute(q: Any, qd: Any) -> Any:
        u = to_world(model, q, qd)
        force = -jnp.asarray(model.friction, qd.dtype) * u / jnp.sqrt(u * u + REST_SPEED**2)
        return to_body(model, q, force)

    return evaluate_for(model, compute, q=q, qd=qd)


def control_force(controller: Controller | None, t: Any, q: Any, qd: Any) -> Any:
    """The forces of the controller, (..., nv); zero without one."""
    if controller is None:
        return jnp.zeros_like(qd)
    try:
        tau = _as_array(controller(t, q, qd), qd)
    except jax.errors.UnexpectedTracerError:
        raise TypeError(HAS_STATE) from None
    except jax.errors.JAXTypeError as error:
        raise TypeError(
            "the controller can not be traced by JAX: use jax.numpy in place of numpy and math, and jnp.where in place "
            f"of `if`, or loop over kt.step outside of jit. JAX says: {str(error).splitlines()[0]}"
        ) from error
    try:
        return jnp.broadcast_to(tau, qd.shape)
    except ValueError:
        raise ValueError(f"the controller returned shape {tau.shape}; tau has shape {qd.shape}") from None


def _as_array(tau: Any, qd: Any) -> Any:
    try:
        return jnp.asarray(tau, qd.dtype)
    except (TypeError, ValueError) as error:
        if isinstance(error, jax.errors.JAXTypeError):
            raise
        raise TypeError(f"the controller must return forces, an array of shape {qd.shape}, not {tau!r}") from None


def joint_force(model: Model, controller: Controller | None, t: Any, q: Any, qd: Any) -> Any:
    """All joint forces besides springs and dampers, (..., nv)."""
    return rubbed(model, control_force(controller, t, q, qd), q, qd)


def rubbed(model: Model, tau: Any, q: Any, qd: Any) -> Any:
    """Forces with smooth dry friction, unless it is switched off."""
    off = model.world is not None and "frictionloss" in model.world.disabled
    return tau if off or model.friction is None else tau + friction_force(model, q, qd)

"""Passive joint forces: the springs and dampers of model/physics.py, and the energy in the springs."""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree._types import Array, Float
from kinetree.model import Model, coupled
from kinetree.model.arguments import evaluate_for
from kinetree.model.physics import stretch


@jax.jit
def passive_by_row(model: Model, q: Any, qd: Any) -> Any:
    """tau_passive, (batch, nv), of a model that has springs or dampers."""
    assert model.passive is not None
    damping, stiffness, rest = (jnp.asarray(x, q.dtype) for x in model.passive)
    return -stiffness * stretch(model.structure, rest, q) - damping * qd


@jax.jit
def spring_energy(model: Model, q: Any) -> Any:
    """½ k stretch², summed over the joints: (batch,)."""
    assert model.passive is not None
    _, stiffness, rest = (jnp.asarray(x, q.dtype) for x in model.passive)
    return 0.5 * (stiffness * stretch(model.structure, rest, q) ** 2).sum(-1)


@coupled("force")
def passive_force(model: Model, q: Float[Array, "... nq"], qd: Float[Array, "... nv"]) -> Float[Array, "... nv"]:
    """Forces of the joints' own springs and dampers: −stiffness · stretch(q) − damping · qd.

    They are a term of the equation of motion, H qdd + C = tau + tau_passive. `inverse_dynamics` subtracts them from its
    result, `forward_dynamics` adds them to `tau`; `model.without_passive` switches them off.

    Arguments:
        model: the mechanism.
        q, qd: (..., nq), (..., nv).

    Returns:
        tau_passive, (..., nv).
    """

    def compute(q: Any, qd: Any) -> Any:
        return jnp.zeros_like(jnp.asarray(qd)) if model.passive is None else passive_by_row(model, q, qd)

    return evaluate_for(model, compute, q=q, qd=qd)

"""Passive joint forces: the springs and dampers of model/physics.py, and the energy in the springs."""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree._arrays import library
from kinetree._types import Array, Float
from kinetree.model import Model, coupled
from kinetree.model.arguments import evaluate_for
from kinetree.model.physics import stretch

from .algorithms.passive import PASSIVE, WITH_SPRINGS
from .directly import directly
from .schedules.lane_rows import kind_of
from .schedules.lanes import lane_program_of


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


def _program(model: Model) -> Any:
    """The lane program of a model that has springs or dampers."""
    if model.passive is None:
        return None
    return lane_program_of(WITH_SPRINGS if kind_of(model).springs else PASSIVE, model)


@directly(_program)
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
        return library(qd).zeros_like(qd) if model.passive is None else passive_by_row(model, q, qd)

    return evaluate_for(model, compute, q=q, qd=qd)

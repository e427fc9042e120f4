"""The effect of a force at a body on the rates of all joints, H⁻¹ Jᵀ f, and on the body itself, J H⁻¹ Jᵀ f.

J is the body's Jacobian in world coordinates about the world origin: its columns are the axes of the joints that
carry the body. At rest and without gravity the accelerations of the mechanism are H⁻¹ times the forces on its joints.
"""

from typing import Any

import jax.numpy as jnp

from kinetree._arrays import library
from kinetree._types import Array, Float
from kinetree.model import Model
from kinetree.model.arguments import evaluate, evaluate_for
from kinetree.model.required import require_model

from .forward_dynamics import forward_dynamics
from .jacobians import jacobian
from .positive import require_solution


def _response(model: Model, q: Any, forces: Any) -> Any:
    """H⁻¹ times generalised forces, (batch, k, nv); NaN in states that make H singular."""
    tree, xp = model.weightless, library(q, forces)
    batch, k, nv = forces.shape
    given = xp.repeat(q, k, 0), xp.zeros((batch * k, nv), forces.dtype), forces.reshape(batch * k, nv)
    try:
        found = forward_dynamics(tree, *given)
    except ValueError:  # NumPy arrays with a state without an answer; the caller names the state
        found = forward_dynamics(tree, *map(jnp.asarray, given))
    return found.reshape(batch, k, nv)


def impulse_response(
    model: Model, q: Float[Array, "... nq"], body: int | str, force: Float[Array, "... 6"]
) -> Float[Array, "... nv"]:
    """Change of the rates qd that an impulse on a body makes: H⁻¹ Jᵀ f. Also the part of qdd that a force makes.

    Arguments:
        model: the mechanism.
        q: (..., nq).
        body: number or name of the body that is struck.
        force: (..., 6), the impulse (or force) in world coordinates, moment about the world origin first.

    Returns:
        Change of qd, (..., nv); zero for a body that is fixed to the base.

    Reference: Featherstone 2008 §11.7.
    """
    require_model(model)

    def compute(q: Any, force: Any) -> Any:
        return _response(model, q, force[:, None] @ jacobian(model, q, body))[:, 0]

    change = evaluate(compute, q=(q, (model.nq,)), force=(force, (6,)))
    return require_solution(model, "impulse_response", change, q=q, force=force)


def inverse_inertia_at(model: Model, q: Float[Array, "... nq"], body: int | str) -> Float[Array, "... 6 6"]:
    """The body's operational-space inverse inertia J H⁻¹ Jᵀ: its change of spatial velocity for a unit impulse.

    Arguments:
        model: the mechanism.
        q: (..., nq).
        body: number or name of the body.

    Returns:
        (..., 6, 6), symmetric positive semidefinite, in world coordinates, about the world origin, angular part first.
        Its rank is that of J: 6 only where at least six joints carry the body.

    Reference: Featherstone 2008 §11.7; Khatib 1987.
    """
    require_model(model)

    def compute(q: Any) -> Any:
        J = jacobian(model, q, body)
        return J @ library(J).swapaxes(_response(model, q, J), 1, 2)

    inertia = evaluate_for(model, compute, q=q)
    require_solution(model, "inverse_inertia_at", inertia[..., 0], q=q)
    return inertia

"""What a force at a body does to the rates of all joints: H⁻¹ Jᵀ f, and to the body itself: J H⁻¹ Jᵀ f.

J is the body's Jacobian in world coordinates about the world origin: its columns are the axes of the joints that carry the body.
One factorization of H serves all right-hand sides.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.model import Model
from kinetree.model.arguments import evaluate
from kinetree.tree import Layout, layout, restore

from .arranged import arranged, row_poses
from .ltdl import factorize
from .mass_matrix import mass_matrix
from .schedule import layout_schedule


def body_number(model: Model, body: int | str) -> int:
    """A body by its number or its name."""
    if isinstance(body, str):
        if body not in model.names:
            raise ValueError(f"no body is called {body!r}")
        return model.names.index(body)
    if not 0 <= body < model.n_bodies:
        raise ValueError(f"body {body} is outside 0 … {model.n_bodies - 1}")
    return int(body)


def _supports(model: Model, body: int) -> np.ndarray:
    """(nv,): whether each row carries the body."""
    tree, row = model.tree, int(model.structure.row_of_body[body])
    if row < 0:
        return np.zeros(tree.n, bool)
    return (tree.lp <= tree.lp[row]) & (tree.rp[row] <= tree.rp)


@jax.jit
def _world_axes(laid: Layout, model: Model, q: Any) -> Any:
    """Joint axes S of all rows in world coordinates, (batch, nv, 6)."""
    at = arranged(laid, model, q)
    pose = row_poses(laid, at)
    S = pose.transform.motion_to_parent(at.rows.axis.times(jnp.ones_like(pose.position.x)))
    return jnp.swapaxes(restore(laid, S.array()), 0, 1)


def _jacobian_transposed(model: Model, q: Any, body: int) -> Any:
    """Jᵀ, (batch, nv, 6)."""
    axes = _world_axes(layout(model.tree, layout_schedule(model.tree)), model, q)
    return jnp.where(_supports(model, body)[:, None], axes, jnp.zeros_like(axes))


def _response(model: Model, q: Any, forces: Any) -> Any:
    """H⁻¹ times generalised forces, (k, batch, nv)."""
    return factorize(model, mass_matrix(model, q, packed=True)).solve(forces)


def impulse_response(model: Model, q: Any, body: int | str, force: Any) -> Any:
    """Change of the rates qd that an impulse on a body makes at once: H⁻¹ Jᵀ f. Also the part of qdd that a force makes.

    Arguments:
        model: the mechanism.
        q: (..., nq).
        body: number or name of the body that is struck.
        force: (..., 6), the impulse (or force) in world coordinates, moment about the world origin first.

    Returns:
        Change of qd, (..., nv); zero for a body that is fixed to the base.

    Reference: Featherstone 2008 §11.7.
    """
    number = body_number(model, body)

    def compute(q: Any, force: Any) -> Any:
        return _response(model, q, jnp.einsum("bvk,bk->bv", _jacobian_transposed(model, q, number), force))

    return evaluate(compute, q=(q, (model.nq,)), force=(force, (6,)))


def inverse_inertia_at(model: Model, q: Any, body: int | str) -> Any:
    """The body's operational-space inverse inertia J H⁻¹ Jᵀ, (..., 6, 6): its change of spatial velocity for a unit impulse.

    Arguments:
        model: the mechanism.
        q: (..., nq).
        body: number or name of the body.

    Returns:
        A symmetric positive semidefinite matrix in world coordinates, about the world origin, angular part first. It has
        the rank of J: 6 only where at least six joints carry the body.

    Reference: Featherstone 2008 §11.7; Khatib 1987.
    """
    number = body_number(model, body)

    def compute(q: Any) -> Any:
        Jt = _jacobian_transposed(model, q, number)
        inverse = _response(model, q, jnp.moveaxis(Jt, 2, 0))  # (6, batch, nv)
        return jnp.einsum("bvk,lbv->bkl", Jt, inverse)

    return evaluate(compute, q=(q, (model.nq,)))

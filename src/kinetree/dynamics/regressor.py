"""The inverse dynamics regressor: forces as a linear function of the inertias.

The wrench that a body needs is linear in its ten numbers, f = A(rates) π, and each row on the way to the body takes up
its share along its axis: Y_i = S_i · A for row i (Atkeson, An & Hollerbach 1986). So inverse_dynamics = Y π, with the
columns of the bodies side by side; armature, springs and dampers are no part of it.
"""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree._types import Array, Float
from kinetree.model import Model, coupled
from kinetree.model.arguments import evaluate_for
from kinetree.model.memory import require_matrices
from kinetree.spatial import Inertia
from kinetree.tree import Layout, layout, pick, restore

from .algorithms.rnea import base_rates, body_force, moved_rates
from .directly import directly
from .frames import row_rates, with_base
from .matrices.crba import ancestor_mask, poses_in_tree
from .regressor_lanes import regressor_program
from .schedules.arranged import arranged


@jax.jit
def _regressor(laid: Layout, model: Model, q: Any, qd: Any, qdd: Any) -> Any:
    at = arranged(laid, model, q)
    pose = poses_in_tree(laid, model.tree, at)
    rates = row_rates(laid, model, at, qd, qdd, base_rates(at.gravity))
    carrier = model.structure.row_of_body
    rates, on = pick(with_base(laid, (rates, pose)), carrier + 1)
    frame = jax.tree.map(lambda x: jnp.asarray(x, q.dtype)[:, None], model.frames)
    X = frame @ on.transform  # from the tree's root to each body
    rates = moved_rates(frame, rates)
    zero, one = jnp.zeros_like(rates.omega.x), jnp.ones_like(rates.omega.x)
    units = [Inertia.from_array(jnp.stack([one if i == k else zero for i in range(10)], -1)) for k in range(10)]
    own = [body_force(unit.moments(), rates) for unit in units]
    wrench = jnp.stack([X.force_to_parent(force).array() for force in own])  # (10, bodies, batch, 6)
    S = pose.transform.motion_to_parent(at.rows.axis.times(jnp.ones_like(pose.position.x)))
    Y = jnp.einsum("ibk,pnbk->binp", restore(laid, S).array(), wrench)
    carries = jnp.where(carrier >= 0, ancestor_mask(model.tree)[carrier].T, False)
    Y = jnp.where(carries[None, :, :, None], Y, jnp.zeros((), q.dtype))
    return Y.reshape(q.shape[0], model.nv, 10 * model.n_bodies)


INSTEAD = "jax.jvp of inverse_dynamics by the inertias, for products with it"


@directly(regressor_program)
@coupled("first")
def inverse_dynamics_regressor(
    model: Model, q: Float[Array, "... nq"], qd: Float[Array, "... nv"], qdd: Float[Array, "... nv"]
) -> Float[Array, "... nv parameters"]:
    """The matrix Y with Y π the forces of the motion, π being the ten inertia numbers of every body.

    Arguments:
        model: the mechanism; its inertias do not matter.
        q, qd, qdd: (..., nq), (..., nv), (..., nv).

    Returns:
        Y, (..., nv, 10 n_bodies). π is `model.inertia.array().reshape(-1)`: for each body mass, mass times centre of
        mass, and xx yy zz xy xz yz about the body's origin.

    Reference: Atkeson, An & Hollerbach 1986.
    """
    laid = layout(model.tree, "paths")

    def compute(q: Any, qd: Any, qdd: Any) -> Any:
        if model.nv == 0:
            return jnp.zeros((q.shape[0], 0, 10 * model.n_bodies), q.dtype)
        require_matrices("the regressor", q, model.nv, 10 * model.n_bodies, copies=2, instead=INSTEAD)
        return _regressor(laid, model, q, qd, qdd)

    return evaluate_for(model, compute, q=q, qd=qd, qdd=qdd)

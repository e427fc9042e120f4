"""Derivatives of inverse and forward dynamics as whole matrices: what control and optimisation ask for at every step.

Joints that are screws have them in closed form (closed_form/rnea.py), in one run for all directions; those of forward
dynamics follow from ID(q, qd, FD(q, qd, τ)) = τ. Models with quaternion joints, springs or couplings are differentiated
direction by direction, along the tangents of their coordinates.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from kinetree.model import Model, integrate
from kinetree.model.arguments import evaluate
from kinetree.model.memory import require_matrices

from .closed_form.rules import matrices
from .forward_dynamics import forward_dynamics
from .inverse_dynamics import inverse_dynamics
from .matrices.ltdl_lanes import FACTORIZE, SOLVE

MOST_ROWS = 300  # whose pairs are walked; beyond, matrices for a batch would not fit anywhere
INSTEAD = "jax.jvp and jax.vjp, for products with them"
Matrices = tuple[Any, ...]  # by q, by qd, and by accelerations or forces


def _has_closed_form(model: Model) -> bool:
    plain = model.coupling is None and model.passive is None and len(model.structure.quaternion_joints) == 0
    return plain and 0 < model.nv <= MOST_ROWS


def _product(a: Any, b: Any) -> Any:
    """a b of (batch, n, n), written out: XLA multiplies many small matrices five times as fast so."""
    return sum(a[:, :, k, None] * b[:, k, None, :] for k in range(a.shape[1]))


@jax.jit
def _of_forward(model: Model, q: Any, qd: Any, qdd: Any) -> Matrices:
    by_q, by_qd, H = matrices(model, q, qd, qdd)
    tree, (batch, n) = model.tree, q.shape
    i, j = tree.ancestor_pairs
    factors = FACTORIZE(tree, H[:, i, j])
    columns = jnp.broadcast_to(jnp.eye(n, dtype=q.dtype), (batch, n, n)).reshape(batch * n, n)
    inverse = SOLVE(tree, jnp.repeat(factors, n, 0), columns).reshape(batch, n, n)
    return -_product(inverse, by_q), -_product(inverse, by_qd), inverse


@partial(jax.jit, static_argnums=0)
def _by_directions(function: Callable, model: Model, q: Any, qd: Any, x: Any) -> Matrices:
    """By JAX; the coordinates move along their tangents."""

    def single(q: Any, qd: Any, x: Any) -> Matrices:
        def moved(step: Any, qd: Any, x: Any) -> Any:
            return function(model, integrate(model, q, step, 1.0), qd, x)

        return jax.jacfwd(moved, argnums=(0, 1, 2))(jnp.zeros_like(qd), qd, x)

    return jax.vmap(single)(q, qd, x)


def inverse_dynamics_derivatives(model: Model, q: Any, qd: Any, qdd: Any) -> Matrices:
    """How the forces of `inverse_dynamics` change with the state and the acceleration.

    Arguments:
        model: the mechanism.
        q, qd, qdd: (..., nq), (..., nv), (..., nv); leading axes are batches and broadcast.

    Returns:
        ∂τ/∂q, ∂τ/∂qd and ∂τ/∂qdd, which is the mass matrix; (..., nv, nv) each, a row to a force. q moves along the
        tangent, as in `integrate`.

    Reference: Singh, Russo and Wensing 2022.
    """

    def compute(q: Any, qd: Any, qdd: Any) -> Matrices:
        require_matrices("derivatives of inverse dynamics", q, model.nv, model.nv, copies=6, instead=INSTEAD)
        if _has_closed_form(model):
            return tuple(matrices(model, q, qd, qdd))
        return _by_directions(inverse_dynamics, model, q, qd, qdd)

    nv = (model.nv,)
    return evaluate(compute, q=(q, (model.nq,)), qd=(qd, nv), qdd=(qdd, nv))


def forward_dynamics_derivatives(model: Model, q: Any, qd: Any, tau: Any) -> Matrices:
    """How the accelerations of `forward_dynamics` change with the state and the forces.

    Arguments:
        model: the mechanism.
        q, qd, tau: (..., nq), (..., nv), (..., nv); leading axes are batches and broadcast.

    Returns:
        ∂qdd/∂q, ∂qdd/∂qd and ∂qdd/∂τ, which is the inverse of the mass matrix; (..., nv, nv) each, a row to an
        acceleration. q moves along the tangent, as in `integrate`.

    Reference: Singh, Russo and Wensing 2022.
    """

    def compute(q: Any, qd: Any, tau: Any) -> Matrices:
        require_matrices("derivatives of forward dynamics", q, model.nv, model.nv, copies=10, instead=INSTEAD)
        if _has_closed_form(model):
            return _of_forward(model, q, qd, forward_dynamics(model, q, qd, tau))
        return _by_directions(forward_dynamics, model, q, qd, tau)

    nv = (model.nv,)
    return evaluate(compute, q=(q, (model.nq,)), qd=(qd, nv), tau=(tau, nv))

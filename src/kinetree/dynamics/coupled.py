"""Forward dynamics of models with mimic joints: the reduced equation of motion, solved densely.

With q_all = G q + g and G constant, (Gᵀ H G) qdd = tau − Gᵀ (C − tau_passive): H and the right-hand side come from the
free model, by the functions that serve it.
"""

from typing import Any

import jax.numpy as jnp

from kinetree.model import Model
from kinetree.model.arguments import evaluate

from .elements.articulated import firm
from .firmness import is_firm
from .inverse_dynamics import inverse_dynamics, zero_rates
from .mass_matrix import mass_matrix
from .matrices.dense import solve_positive
from .positive import require_solution
from .published.vneb import ldlt


def coupled_forward_dynamics(model: Model, q: Any, qd: Any, tau: Any, f_ext: Any, method: str) -> Any:
    """Accelerations, (..., nv), of a model with a coupling."""
    if method not in ("auto", "crba"):
        raise ValueError(f"method {method!r} can not serve a model with mimic joints: choose auto or crba")
    H = mass_matrix(model, q)
    held = inverse_dynamics(model, q, qd, zero_rates(model, qd), f_ext)
    nv = (model.nv,)

    def solve(H: Any, held: Any, tau: Any) -> Any:
        qdd = solve_positive(H, tau - held)
        if is_firm(model.uncoupled):
            return qdd
        diagonal = jnp.diagonal(H, axis1=1, axis2=2)
        D = firm(jnp.diagonal(ldlt(H), axis1=1, axis2=2), model.nv * diagonal)
        return jnp.where(jnp.isnan(D).any(-1, keepdims=True), jnp.full_like(qdd, jnp.nan), qdd)

    qdd = evaluate(solve, H=(H, nv + nv), held=(held, nv), tau=(tau, nv))
    return require_solution(model, "forward_dynamics", qdd, q=q, qd=qd, tau=tau, f_ext=f_ext)

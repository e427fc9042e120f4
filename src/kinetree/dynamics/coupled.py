"""Forward dynamics of models with mimic joints: the reduced equation of motion, solved densely.

With q_all = G q + g and G constant, (Gᵀ H G) qdd = tau − Gᵀ (C − tau_passive): H and the right-hand side come from the
free model, by the functions that serve it.
"""

from typing import Any

from kinetree.model import Model
from kinetree.model.arguments import evaluate

from .dense import solve_positive
from .inverse_dynamics import inverse_dynamics, zero_rates
from .mass_matrix import mass_matrix
from .positive import require_solution


def coupled_forward_dynamics(model: Model, q: Any, qd: Any, tau: Any, f_ext: Any, method: str) -> Any:
    """Accelerations, (..., nv), of a model with a coupling."""
    if method not in ("auto", "crba"):
        raise ValueError(f"method {method!r} can not serve a model with mimic joints: choose auto or crba")
    H = mass_matrix(model, q)
    held = inverse_dynamics(model, q, qd, zero_rates(model, qd), f_ext)
    nv = (model.nv,)

    def solve(H: Any, held: Any, tau: Any) -> Any:
        return require_solution(solve_positive(H, tau - held), "crba")

    return evaluate(solve, H=(H, nv + nv), held=(held, nv), tau=(tau, nv))

"""Forward dynamics of models with mimic joints.

Where the rows that follow one another hang together, as those of most hands, the articulated-body algorithm takes them
as one joint (algorithms/aba_clusters.py). Other models are solved by the reduced equation of motion: with q_all =
G q + g and G constant, (Gᵀ H G) qdd = tau − Gᵀ (C − tau_passive) (matrices/reduced.py). Both are lane programs, for
models whose numbers are known; their derivatives follow from ID(q, qd, FD(q, qd, tau)) = tau. Elsewhere H and the
right-hand side come from the functions that serve the free model, and are solved densely.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from kinetree.model import Model
from kinetree.model.arguments import evaluate, evaluate_for, is_known

from .algorithms.aba import aba_of
from .closed_form.shape import Shape
from .elements.articulated import firm
from .firmness import is_firm
from .inverse_dynamics import inverse_dynamics, zero_rates
from .mass_matrix import mass_matrix
from .matrices.dense import solve_positive
from .matrices.ltdl_lanes import FACTORIZE, SOLVE
from .matrices.reduced import reduced_lanes
from .positive import require_solution
from .published.vneb import ldlt
from .schedules import tuning
from .schedules.lane_algorithm import LaneAlgorithm
from .schedules.lane_clusters import cluster_lanes


def coupled_program(model: Model, external: bool = False) -> LaneAlgorithm | None:
    """The lane program that serves a model with a coupling, whose numbers are known; None where there is none."""
    clusters = cluster_lanes(aba_of(is_firm(model.uncoupled)), model, external)
    if clusters is not None:
        return clusters
    return reduced_lanes(model, external) if model.tree.n <= tuning.REDUCED_MAX_ROWS else None


def coupled_forward_dynamics(model: Model, q: Any, qd: Any, tau: Any, f_ext: Any, method: str) -> Any:
    """Accelerations, (..., nv), of a model with a coupling."""
    if method not in ("auto", "crba"):
        raise ValueError(f"method {method!r} can not serve a model with mimic joints: choose auto or crba")
    program = coupled_program(model, f_ext is not None) if is_known(model) and model.nv > 0 else None
    if program is not None:
        qdd = evaluate_for(model, partial(_in_lanes, program, model), q=q, qd=qd, tau=tau, f_ext=f_ext)
    else:
        qdd = _densely(model, q, qd, tau, f_ext)
    return require_solution(model, "forward_dynamics", qdd, q=q, qd=qd, tau=tau, f_ext=f_ext)


def _in_lanes(program: LaneAlgorithm, model: Model, q: Any, qd: Any, tau: Any, f_ext: Any) -> Any:
    state = (q, qd, tau) if f_ext is None else (q, qd, tau, f_ext)

    def solve(q: Any, qd: Any, tau: Any, *f_ext: Any) -> Any:
        return program(model, q, qd, tau, *(f.reshape(len(f), -1) for f in f_ext))[0]

    if not any(isinstance(x, jax.Array) for x in state):
        return solve(*state)
    function = jax.custom_jvp(solve)

    @function.defjvp
    def rule(state: tuple, moved: tuple) -> tuple:
        qdd = function(*state)
        (q, qd, _, *forces), (dq, dqd, dtau, *dforces) = state, moved
        _, left = jax.jvp(
            lambda q, qd, *f: inverse_dynamics(model, q, qd, qdd, *f), (q, qd, *forces), (dq, dqd, *dforces)
        )
        return qdd, _solve(model, mass_matrix(model, q), dtau - left)

    return function(*state)


def _solve(model: Model, H: Any, b: Any) -> Any:
    """H⁻¹ b of the reduced mass matrix, (batch, nv, nv): factors once, then two solves for each direction."""
    tree = Shape.of(model).tree
    i, j = tree.ancestor_pairs
    factors = FACTORIZE(tree, H[:, i, j])

    def times(x: Any) -> Any:
        return jnp.einsum("bij,bj->bi", H, x)

    def solve(_: Any, b: Any) -> Any:
        return SOLVE(tree, factors, b)

    return lax.custom_linear_solve(times, b, solve, symmetric=True)


def _densely(model: Model, q: Any, qd: Any, tau: Any, f_ext: Any) -> Any:
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

    return evaluate(solve, H=(H, nv + nv), held=(held, nv), tau=(tau, nv))

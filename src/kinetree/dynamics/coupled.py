"""Forward dynamics of models with mimic joints.

If the rows that follow one another hang together, as in most hands, the articulated-body algorithm treats them as one
joint (algorithms/aba_clusters.py). Other models are solved by the reduced equation of motion: with q_all = G q + g and
G constant, (Gᵀ H G) qdd = tau − Gᵀ (C − tau_passive) (matrices/reduced.py). Both are lane programs for models whose
numbers are known. Their derivatives follow from ID(q, qd, FD(q, qd, tau)) = tau. In all other cases H and the
right-hand side come from the functions of the free model, and a dense solve follows.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from kinetree._arrays import flattened
from kinetree._varying import custom_jvp, varying_alike
from kinetree.lanes.target import facts
from kinetree.model import Model
from kinetree.model.arguments import evaluate, evaluate_for

from .algorithms.aba import aba_of
from .closed_form.shape import Skeleton
from .elements.articulated import firm
from .firmness import is_firm
from .inverse_dynamics import inverse_dynamics, zero_rates
from .mass_matrix import mass_matrix
from .matrices.dense import pivots, solve_positive
from .matrices.ltdl_lanes import FACTORIZE, SOLVE
from .matrices.reduced import reduced_lanes
from .positive import require_solution
from .schedules.choose import Call, Choice, call_of, choose_coupled, note
from .schedules.lane_algorithm import LaneAlgorithm
from .schedules.lane_clusters import cluster_lanes, clusters_of


def coupled_way(call: Call) -> Choice:
    """The way of forward dynamics of a model with a coupling."""
    return choose_coupled(call, clusters_of(Skeleton.of(call.model)) is not None)


def coupled_program(model: Model, external: bool = False) -> LaneAlgorithm | None:
    """The lane program for a model with a coupling and known numbers; None if there is none."""
    if coupled_way(Call(model, 1, "numpy", np.dtype(float), external, facts())).way != "lanes":
        return None
    clusters = cluster_lanes(aba_of(is_firm(model.uncoupled)), model, external)
    return reduced_lanes(model, external) if clusters is None else clusters


def coupled_forward_dynamics(model: Model, q: Any, qd: Any, tau: Any, f_ext: Any, method: str) -> Any:
    """Accelerations, (..., nv), of a model with a coupling."""
    if method not in ("auto", "crba"):
        raise ValueError(f"method {method!r} can not serve a model with mimic joints: choose auto or crba")

    def compute(*state: Any) -> Any:
        note("forward_dynamics", coupled_way(call_of(model, state[:3], state[3])))
        program = coupled_program(model, state[3] is not None)
        return _densely(model, *state) if program is None else _in_lanes(program, model, *state)

    qdd = evaluate_for(model, compute, q=q, qd=qd, tau=tau, f_ext=f_ext)
    return require_solution(model, "forward_dynamics", qdd, q=q, qd=qd, tau=tau, f_ext=f_ext)


def _in_lanes(program: LaneAlgorithm, model: Model, q: Any, qd: Any, tau: Any, f_ext: Any) -> Any:
    state = (q, qd, tau) if f_ext is None else (q, qd, tau, f_ext)

    def solve(q: Any, qd: Any, tau: Any, *f_ext: Any) -> Any:
        return program(model, q, qd, tau, *(flattened(f) for f in f_ext))[0]

    if not any(isinstance(x, jax.Array) for x in state):
        return solve(*state)
    function = custom_jvp(solve)

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
    """H⁻¹ b of the reduced mass matrix, (batch, nv, nv): factored once, with two solves for each direction."""
    H, b = varying_alike((H, b))
    tree = Skeleton.of(model).tree
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
        D = firm(pivots(H), model.nv * diagonal)
        return jnp.where(jnp.isnan(D).any(-1, keepdims=True), jnp.full_like(qdd, jnp.nan), qdd)

    return evaluate(solve, H=(H, nv + nv), held=(held, nv), tau=(tau, nv))

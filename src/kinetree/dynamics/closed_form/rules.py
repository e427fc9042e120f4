"""Inverse and forward dynamics whose derivatives are taken in closed form (closed_form/rnea.py), for small robots.

JAX sees functions with rules of their own: a direction of inverse dynamics is multiplied by ∂τ/∂q, ∂τ/∂qd and H, one of
forward dynamics by the same and by H⁻¹, since ID(q, qd, FD(q, qd, τ)) = τ. Whatever else is differentiated, a model's
parameters or a robot of many rows, goes through the derivatives of the lane programs themselves.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import Tracer

from kinetree.model import Model

from ..matrices.ltdl_lanes import FACTORIZE, SOLVE
from ..recursion import Algorithm
from .rnea import rnea_derivatives

MOST_ROWS = 16  # of which the n² derivatives are cheaper than a run for each direction


def with_rule(algorithm: Algorithm, model: Model, q: Any, f_ext: Any, run: Callable) -> Callable:
    """`run(*inputs) -> (output,)`, with a rule of its own where there is one for the algorithm and the call."""
    rule = {"rnea": inverse, "aba": forward, "aba_checked": forward}.get(algorithm.name)
    if rule is None or not serves(model, q, f_ext):
        return run
    ruled = rule(model, lambda *state: run(*state)[0])
    return lambda *state: (ruled(*state),)


def serves(model: Model, q: Any, f_ext: Any) -> bool:
    """True if there are rules for a call: JAX arrays, and a model whose numbers are known."""
    known = not any(isinstance(x, Tracer) for x in jax.tree.leaves(model))
    plain = f_ext is None and len(model.structure.quaternion_joints) == 0
    return plain and known and isinstance(q, jax.Array) and 0 < model.tree.n <= MOST_ROWS


def _times(matrix: Any, x: Any) -> Any:
    """Products of (batch, n, n) with (batch, n)."""
    return jnp.einsum("bij,bj->bi", matrix, x)


def matrices(model: Model, q: Any, qd: Any, qdd: Any) -> list[Any]:
    """∂τ/∂q, ∂τ/∂qd and H, (batch, nv, nv), of a model whose joints are screws."""
    n = model.tree.n
    return [x.reshape(-1, n, n) for x in rnea_derivatives()(model, q, qd, qdd)]


def inverse(model: Model, run: Callable) -> Callable:
    """`run(q, qd, qdd)`, (batch, n) each, with its rule."""
    function = jax.custom_jvp(run)

    @function.defjvp
    def rule(primals: tuple, tangents: tuple) -> tuple:
        parts = map(_times, matrices(model, *primals), tangents)
        return function(*primals), sum(parts, jnp.zeros_like(tangents[2]))

    return function


def _solve(model: Model, H: Any, b: Any) -> Any:
    """H⁻¹ b: factors once, then two triangular solves for each direction."""
    tree = model.tree
    i, j = tree.ancestor_pairs
    factors = FACTORIZE(tree, H[:, i, j])
    return lax.custom_linear_solve(lambda x: _times(H, x), b, lambda _, b: SOLVE(tree, factors, b), symmetric=True)


def forward(model: Model, run: Callable) -> Callable:
    """`run(q, qd, tau)`, (batch, n) each, with its rule."""
    function = jax.custom_jvp(run)

    @function.defjvp
    def rule(primals: tuple, tangents: tuple) -> tuple:
        q, qd, _ = primals
        dq, dqd, dtau = tangents
        qdd = function(*primals)
        by_q, by_qd, H = matrices(model, q, qd, qdd)
        left = dtau - _times(by_q, dq) - _times(by_qd, dqd)
        return qdd, _solve(model, H, left)

    return function

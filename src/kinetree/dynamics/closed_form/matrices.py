"""Derivatives of inverse and forward dynamics as matrices, in closed form, on (batch, ·) arrays.

Those of forward dynamics follow from ID(q, qd, FD(q, qd, τ)) = τ: they are −H⁻¹ times those of inverse dynamics.
"""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree.model import Model

from ..matrices.ltdl_lanes import FACTORIZE, SOLVE
from .blocks import blocks, has_blocks
from .columns import solve_turns
from .rnea import program_of
from .shape import Shape

Matrices = tuple[Any, Any, Any]  # (batch, nv, nv): by q, by qd, and by accelerations or forces

MAX_SOLVE_TURNS = 1 << 21  # turns of a solve in a lane, whose table then takes 24 MB; beyond, columns go to lanes


def _run(model: Model, forward: bool, q: Any, qd: Any, qdd: Any, f_ext: Any) -> Matrices:
    extra = () if f_ext is None else (f_ext.reshape(len(f_ext), -1),)
    a, b, c = program_of(model, f_ext is not None, forward)(model, q, qd, qdd, *extra)
    n = model.nv
    return a.reshape(-1, n, n), b.reshape(-1, n, n), c.reshape(-1, n, n)


def product(a: Any, b: Any) -> Any:
    """a b of (batch, n, n)."""
    if a.shape[1] > 32 or jax.default_backend() != "cpu":
        return a @ b
    # Written out: XLA multiplies many small matrices five times as fast so on a CPU.
    return sum(a[:, :, k, None] * b[:, k, None, :] for k in range(a.shape[1]))


def of_inverse(model: Model, q: Any, qd: Any, qdd: Any, f_ext: Any = None) -> Matrices:
    """∂τ/∂q, ∂τ/∂qd and H."""
    by_q, by_qd, H = _run(model, False, q, qd, qdd, f_ext)
    if not has_blocks(model):
        return by_q, by_qd, H
    more_q, more_qd = blocks(model, q, qd)
    return by_q + more_q, by_qd + more_qd, H


def of_forward(model: Model, q: Any, qd: Any, qdd: Any, f_ext: Any = None) -> Matrices:
    """∂qdd/∂q, ∂qdd/∂qd and H⁻¹, at accelerations that are known."""
    in_lanes = solve_turns(Shape.of(model)) <= MAX_SOLVE_TURNS and jax.default_backend() == "cpu"
    if not in_lanes:
        return _by_inverse(model, q, qd, qdd, f_ext)
    by_q, by_qd, inverse = _run(model, True, q, qd, qdd, f_ext)
    if not has_blocks(model):
        return by_q, by_qd, inverse
    more_q, more_qd = blocks(model, q, qd)
    return by_q - product(inverse, more_q), by_qd - product(inverse, more_qd), inverse


@jax.jit
def _by_inverse(model: Model, q: Any, qd: Any, qdd: Any, f_ext: Any) -> Matrices:
    """By H⁻¹, of which each column is a lane."""
    by_q, by_qd, H = of_inverse(model, q, qd, qdd, f_ext)
    tree, (batch, n) = Shape.of(model).tree, qd.shape
    i, j = tree.ancestor_pairs
    factors = FACTORIZE(tree, H[:, i, j])
    columns = jnp.broadcast_to(jnp.eye(n, dtype=q.dtype), (batch, n, n)).reshape(batch * n, n)
    inverse = SOLVE(tree, jnp.repeat(factors, n, 0), columns).reshape(batch, n, n)
    return -product(inverse, by_q), -product(inverse, by_qd), inverse

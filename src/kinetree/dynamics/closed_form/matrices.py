"""Derivatives of inverse and forward dynamics as matrices, in closed form, on (batch, ·) arrays.

Those of forward dynamics follow from ID(q, qd, FD(q, qd, τ)) = τ: they are −H⁻¹ times those of inverse dynamics.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import flattened
from kinetree._varying import custom_jvp
from kinetree.lanes.target import facts
from kinetree.model import Model

from ..matrices.ltdl_lanes import INVERSE_FACTOR
from ..schedules import tuning
from ..schedules.choose import Call, Choice, choose_derivatives
from . import sweeps
from .blocks import blocks, has_blocks
from .columns import solve_turns
from .rnea import program_of
from .shape import Skeleton

Matrices = tuple[Any, Any, Any]  # (batch, nv, nv): by q, by qd, and by accelerations or forces


def _run(model: Model, q: Any, qd: Any, qdd: Any, f_ext: Any = None, *, forward: bool = False) -> Matrices:
    extra = () if f_ext is None else (flattened(f_ext),)
    a, b, c = program_of(model, f_ext is not None, forward)(model, q, qd, qdd, *extra)
    n = model.nv
    return a.reshape(-1, n, n), b.reshape(-1, n, n), c.reshape(-1, n, n)


def product(a: Any, b: Any) -> Any:
    """a b of (batch, n, n)."""
    gpu, rows = facts().weaves, a.shape[1]
    if rows > (tuning.GPU_PRODUCT_MAX_ROWS if gpu else tuning.PRODUCT_MAX_ROWS):
        return jnp.matmul(a, b, precision="highest")
    if gpu:  # one kernel; libraries start several, and pad the matrices
        return (a[:, :, :, None] * b[:, None, :, :]).sum(2)
    # Written out, because on a CPU XLA then multiplies many small matrices five times as fast.
    return sum(a[:, :, k, None] * b[:, k, None, :] for k in range(a.shape[1]))


def of_inverse(model: Model, q: Any, qd: Any, qdd: Any, f_ext: Any = None) -> Matrices:
    """∂τ/∂q, ∂τ/∂qd and H."""
    by_q, by_qd, H = _run(model, q, qd, qdd, f_ext)
    if not has_blocks(model):
        return by_q, by_qd, H
    more_q, more_qd = blocks(model, q, qd)
    return by_q + more_q, by_qd + more_qd, H


def of_forward(model: Model, q: Any, qd: Any, qdd: Any, f_ext: Any = None) -> Matrices:
    """∂qdd/∂q, ∂qdd/∂qd and H⁻¹, at known accelerations."""
    by_q, by_qd, inverse = _solved(model, q, qd, qdd, f_ext)
    if not has_blocks(model):
        return by_q, by_qd, inverse
    more_q, more_qd = blocks(model, q, qd)
    return by_q - product(inverse, more_q), by_qd - product(inverse, more_qd), inverse


def taken_apart(model: Model) -> tuple[list, Callable[[list], Model]]:
    """The JAX arrays of a model, and a function that makes the model with other arrays in their place.

    Without JAX arrays the function returns the model itself, with all that is kept beside it.
    """
    leaves, treedef = jax.tree.flatten(model)
    places = [k for k, x in enumerate(leaves) if isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jnp.floating)]

    numbers = [leaves[k] for k in places]
    for k in places:  # `whole` outlives this call, and must not hold traced arrays
        leaves[k] = None
    same = None if places else model

    def whole(numbers: list) -> Model:
        if same is not None:
            return same
        changed = dict(zip(places, numbers, strict=True))
        return jax.tree.unflatten(treedef, [changed.get(k, x) for k, x in enumerate(leaves)])

    return numbers, whole


def solves_in_lanes(model: Model) -> bool:
    """True if the derivatives of forward dynamics are one lane program."""
    return forward_way(Call(model, 1, "numpy", np.dtype(float), device=facts())).way == "lanes"


def forward_way(call: Call) -> Choice:
    """The way for the derivatives of forward dynamics."""
    if call.model.loops is not None:
        return Choice("directions", "directions", "xla", "", "rigid loops: one direction after the other")
    served = 0 < call.rows <= tuning.CLOSED_FORM_MAX_ROWS
    shape = Skeleton.of(call.model)
    turns = sweeps.sweep_turns if sweeps.sweeps_are_faster(shape) else solve_turns
    return choose_derivatives(call, turns(shape) if served else 0)


def _solved(model: Model, q: Any, qd: Any, qdd: Any, f_ext: Any) -> Matrices:
    """Solutions of H X = −∂τ/∂q, −∂τ/∂qd and 1. The factors can not be differentiated in lanes, so X has a rule."""
    solve = partial(_run, forward=True) if solves_in_lanes(model) else _by_inverse
    state = (q, qd, qdd) if f_ext is None else (q, qd, qdd, f_ext)
    if not any(isinstance(x, jax.Array) for x in state):
        return solve(model, *state)
    numbers, whole = taken_apart(model)

    def plain(numbers: list, *state: Any) -> Matrices:
        return solve(whole(numbers), *state)

    function = custom_jvp(plain)

    @function.defjvp
    def rule(primals: tuple, tangents: tuple) -> tuple:
        """From H X = B: dX = H⁻¹ (dB − dH X)."""
        X = function(*primals)
        _, (by_q, by_qd, H) = jax.jvp(lambda n, *state: _run(whole(n), *state), primals, tangents)
        inverse, minus = X[2], (by_q, by_qd, jnp.zeros_like(H))
        return X, tuple(-product(inverse, b + product(H, x)) for b, x in zip(minus, X, strict=True))

    return function(numbers, *state)


@jax.jit
def _by_inverse(model: Model, q: Any, qd: Any, qdd: Any, f_ext: Any = None) -> Matrices:
    """The matrices by H⁻¹ = W Wᵀ, with W from the factors of H. The threads of a GPU have no memory for more."""
    by_q, by_qd, H = _run(model, q, qd, qdd, f_ext)
    tree, n = Skeleton.of(model).tree, model.nv
    i, j = tree.ancestor_pairs
    entries = H.reshape(-1, n * n).at[:, i * n + j].get(mode="promise_in_bounds")
    W = INVERSE_FACTOR(tree, entries).reshape(-1, n, n)
    inverse = product(W, jnp.swapaxes(W, 1, 2))
    minus = -inverse
    return product(minus, by_q), product(minus, by_qd), inverse

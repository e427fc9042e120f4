"""Inverse and forward dynamics whose derivatives are taken in closed form (matrices.py), for small robots.

JAX sees functions with rules of their own: a direction of inverse dynamics is multiplied by ∂τ/∂q, ∂τ/∂qd and H, one of
forward dynamics by the same and by H⁻¹, since ID(q, qd, FD(q, qd, τ)) = τ. A direction of q is first taken to the
tangent that the joints move along. Whatever else is differentiated, a model's parameters, forces on bodies, or a robot
of many rows, goes through the derivatives of the lane programs themselves.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero

from kinetree.model import Model
from kinetree.model.configuration import coordinate_columns
from kinetree.spatial import Quaternion, Vec3

from ..matrices.ltdl_lanes import FACTORIZE, SOLVE
from ..recursion import Algorithm
from .matrices import of_inverse

MAX_RULE_ROWS = 16  # rows; up to so many the n² derivatives are cheaper than a run for each direction

Run = Callable[..., tuple]  # (model, f_ext, *state) -> (output,)


def with_rule(algorithm: Algorithm, model: Model, q: Any, f_ext: Any, run: Run) -> Callable[..., tuple]:
    """`run(model, f_ext, *state)` as a function of the state, with a rule of its own where there is one."""
    direction = {"rnea": _of_inverse, "aba": _of_forward, "aba_checked": _of_forward}.get(algorithm.name)
    if direction is None or not isinstance(q, jax.Array) or not 0 < model.tree.n <= MAX_RULE_ROWS:
        return partial(run, model, f_ext)
    leaves, treedef = jax.tree.flatten(model)
    numbers = [k for k, x in enumerate(leaves) if isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jnp.floating)]

    def whole(parameters: list) -> Model:
        """The model with these numbers in it; itself, with all that is kept beside it, where none are JAX's."""
        if not parameters:
            return model
        changed = dict(zip(numbers, parameters, strict=True))
        return jax.tree.unflatten(treedef, [changed.get(k, x) for k, x in enumerate(leaves)])

    def plain(parameters: list, f_ext: Any, *state: Any) -> Any:
        return run(whole(parameters), f_ext, *state)[0]

    function = jax.custom_jvp(plain)

    def rule(primals: tuple, tangents: tuple) -> tuple:
        parameters, f_ext, *state = primals
        if not all(map(_is_zero, jax.tree.leaves(tangents[:2], is_leaf=_is_zero))):
            return jax.jvp(plain, primals, jax.tree.map(_instantiated, tangents, is_leaf=_is_zero))
        result = function(*primals)
        return result, direction(whole(parameters), f_ext, state, tangents[2:], result)

    function.defjvp(rule, symbolic_zeros=True)
    given = [leaves[k] for k in numbers]
    return lambda *state: (function(given, f_ext, *state),)


def _is_zero(x: Any) -> bool:
    return isinstance(x, SymbolicZero)


def _instantiated(x: Any) -> Any:
    return jnp.zeros(x.shape, x.dtype) if _is_zero(x) else x


def _times(matrix: Any, x: Any) -> Any:
    """Products of (batch, n, n) with (batch, n)."""
    return jnp.einsum("bij,bj->bi", matrix, x)


def _forces(model: Model, f_ext: Any, state: tuple, moved: tuple) -> tuple[Any, Any]:
    """The direction of the forces at accelerations that are known, and H."""
    *matrices, H = of_inverse(model, state[0], state[1], state[2], f_ext)
    moved = (tangent(model, state[0], moved[0]), moved[1])
    parts = [_times(m, x) for m, x in zip(matrices, moved, strict=True) if not _is_zero(x)]
    return sum(parts, jnp.zeros_like(state[1])), H


def _of_inverse(model: Model, f_ext: Any, state: Any, moved: Any, result: Any) -> Any:
    forces, H = _forces(model, f_ext, tuple(state), moved)
    return forces if _is_zero(moved[2]) else forces + _times(H, moved[2])


def _of_forward(model: Model, f_ext: Any, state: Any, moved: Any, result: Any) -> Any:
    q, qd, _ = state
    forces, H = _forces(model, f_ext, (q, qd, result), moved)
    left = -forces if _is_zero(moved[2]) else moved[2] - forces
    tree = model.tree
    i, j = tree.ancestor_pairs
    factors = FACTORIZE(tree, H[:, i, j])  # once for all directions
    return lax.custom_linear_solve(lambda x: _times(H, x), left, lambda _, b: SOLVE(tree, factors, b), symmetric=True)


def tangent(model: Model, q: Any, moved: Any) -> Any:
    """A direction of q, (batch, nq), as the velocity that joints move with, (batch, nv).

    Only the direction of a quaternion matters, not its length; a free joint's velocity is in body coordinates.
    """
    structure = model.structure
    if _is_zero(moved) or not structure.has_quaternions:
        return moved
    at = coordinate_columns(structure)
    here, there = (Quaternion(*(x[:, c] for c in at.quaternion)) for x in (q, moved))
    length = here.w * here.w + here.x * here.x + here.y * here.y + here.z * here.z
    turn = here.conjugate() * there
    body = Quaternion(*(x[:, at.free] for x in here)).normalized()
    way = body.conjugate().turn(Vec3(*(moved[:, c] for c in at.position)))
    parts = [moved[:, at.scalar_q], *(2.0 * x / length for x in (turn.x, turn.y, turn.z)), *way]
    order = np.argsort(np.concatenate([at.scalar_v, at.omega.ravel(), at.linear.ravel()]))
    return jnp.concatenate(parts, 1)[:, order]

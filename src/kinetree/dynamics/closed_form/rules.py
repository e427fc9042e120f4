"""Inverse and forward dynamics, with derivatives in closed form (matrices.py) if there are many directions.

To JAX these are functions with their own derivative rules (directions.py). Directions of inverse dynamics are
multiplied by ∂τ/∂q, ∂τ/∂qd and H, those of forward dynamics by ∂qdd/∂q, ∂qdd/∂qd and H⁻¹. A direction of q is first
converted to a velocity of the joints. All else uses the derivatives of the lane programs: a single direction,
derivatives by parameters of a model or by forces on bodies, and robots of very many rows.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.model import Model
from kinetree.model.configuration import coordinate_columns
from kinetree.spatial import Quaternion, Vec3

from ..recursion import Algorithm
from ..schedules import tuning
from .directions import with_rule
from .matrices import of_forward, of_inverse, taken_apart

Run = Callable[..., tuple]  # (model, f_ext, *state) -> (output,)
MATRICES = {"rnea": of_inverse, "aba": of_forward, "aba_checked": of_forward}


def in_closed_form(algorithm: Algorithm, model: Model, q: Any, f_ext: Any, run: Run) -> Callable[..., tuple]:
    """`run(model, f_ext, *state)` as a function of the state, with its own derivative rule if there is one."""
    matrices = MATRICES.get(algorithm.name)
    if matrices is None or not isinstance(q, jax.Array) or not 0 < model.tree.n <= tuning.CLOSED_FORM_MAX_ROWS:
        return partial(run, model, f_ext)
    numbers, whole = taken_apart(model)
    count = len(numbers)
    pushed = f_ext is not None  # the rule must not hold f_ext itself, which may be traced
    given = [*numbers, f_ext] if pushed else numbers

    def split(parameters: list) -> tuple[Model, Any]:
        """A model and forces on bodies."""
        return whole(parameters[:count]), parameters[-1] if pushed else None

    def plain(parameters: list, *state: Any) -> Any:
        return run(*split(parameters), *state)[0]

    def linear(parameters: list, state: list, which: tuple[int, ...], result: Any) -> Callable[..., Any]:
        model, forces = split(parameters)
        q, qd, x = state
        found = matrices(model, q, qd, x if matrices is of_inverse else result, forces)

        def apply(*moved: Any) -> Any:
            along = (tangent(model, q, x) if k == 0 else x for k, x in zip(which, moved, strict=True))
            return sum(jnp.einsum("bij,bj->bi", found[k], x) for k, x in zip(which, along, strict=True))

        return apply

    function = with_rule(plain, plain, linear)
    return lambda *state: (function(given, *state),)


def tangent(model: Model, q: Any, moved: Any) -> Any:
    """A direction of q, (batch, nq), as a velocity of the joints, (batch, nv).

    Only the direction of a quaternion matters, not its length; a free joint's velocity is in body coordinates.
    """
    structure = model.structure
    if not structure.has_quaternions:
        return moved
    if model.coupling is not None:
        coupling = model.coupling
        ratio = jnp.asarray(coupling.ratio_q, moved.dtype)
        whole = tangent(model.uncoupled, coupling.widen_q(q), moved[:, coupling.source_q] * ratio)
        return whole[:, coupling.kept_v]
    at = coordinate_columns(structure)
    here, there = (Quaternion(*(x[:, c] for c in at.quaternion)) for x in (q, moved))
    length = here.w * here.w + here.x * here.x + here.y * here.y + here.z * here.z
    turn = here.conjugate() * there
    body = Quaternion(*(x[:, at.free] for x in here)).normalized()
    way = body.conjugate().turn(Vec3(*(moved[:, c] for c in at.position)))
    parts = [moved[:, at.scalar_q], *(2.0 * x / length for x in (turn.x, turn.y, turn.z)), *way]
    order = np.argsort(np.concatenate([at.scalar_v, at.omega.ravel(), at.linear.ravel()]))
    return jnp.concatenate(parts, 1)[:, order]

"""Derivatives of inverse and forward dynamics as whole matrices, as control and optimisation need at every step.

They are in closed form (closed_form/): one run gives all directions, for all kinds of joints. Mechanisms with very many
rows are differentiated direction by direction, along the tangents of their coordinates.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._types import Array, Float
from kinetree.model import Model, integrate
from kinetree.model.arguments import evaluate_for
from kinetree.model.memory import require_matrices

from .closed_form.blocks import has_blocks
from .closed_form.matrices import Matrices, forward_way, of_forward, of_inverse, solves_in_lanes
from .closed_form.rnea import program_of
from .directly import directly
from .forward_dynamics import at_once, forward_dynamics
from .inverse_dynamics import inverse_dynamics
from .schedules import tuning
from .schedules.choose import Call, Choice, call_of, choose_derivatives, note
from .schedules.lane_algorithm import LaneAlgorithm


@partial(jax.jit, static_argnums=0)
def _by_directions(function: Callable, model: Model, q: Any, qd: Any, x: Any, f_ext: Any) -> Matrices:
    """The matrices by JAX, direction by direction; the coordinates move along their tangents."""

    def single(q: Any, qd: Any, x: Any, f_ext: Any) -> Matrices:
        def moved(step: Any, qd: Any, x: Any) -> Any:
            return function(model, integrate(model, q, step, 1.0), qd, x, f_ext)

        return jax.jacfwd(moved, argnums=(0, 1, 2))(jnp.zeros_like(qd), qd, x)

    return jax.vmap(single)(q, qd, x, f_ext)


def _inverse_at_once(model: Model, external: bool = False) -> LaneAlgorithm | None:
    served = 0 < model.tree.n <= tuning.CLOSED_FORM_MAX_ROWS and not has_blocks(model)
    return program_of(model, external) if served else None


def _forward_at_once(model: Model, external: bool = False) -> tuple[LaneAlgorithm, LaneAlgorithm] | None:
    """Forward dynamics, and its derivatives at known accelerations."""
    accelerations = at_once(model, external)
    served = not has_blocks(model) and solves_in_lanes(model)
    return (accelerations, program_of(model, external, forward=True)) if served and accelerations else None


def _one_after_the_other(
    model: Model, dtype: np.dtype, programs: tuple[LaneAlgorithm, LaneAlgorithm]
) -> Callable[..., Any] | None:
    """A function of q, qd, tau and, if used, forces on bodies, from the builtins of two programs."""
    accelerations, derivatives = (program.direct(model, dtype) for program in programs)
    if accelerations is None or derivatives is None:
        return None

    def call(q: Any, qd: Any, tau: Any, *forces: Any) -> Any:
        qdd = accelerations(q, qd, tau, *forces)
        return None if qdd is None else derivatives(q, qd, qdd, *forces)

    return call


def _matrices(
    name: str,
    function: Callable,
    closed: Callable,
    way: Callable[[Call], Choice],
    copies: int,
    model: Model,
    **given: Any,
) -> Matrices:
    """The matrices of a function of (model, q, qd, x, f_ext): by `closed`, or by directions."""

    def compute(q: Any, qd: Any, x: Any, f_ext: Any) -> Matrices:
        what = f"derivatives of {name.replace('_', ' ')}"
        require_matrices(
            what, q, model.nv, model.nv, copies=copies, instead="jax.jvp and jax.vjp, for products with them"
        )
        choice = way(call_of(model, (q, qd, x), f_ext))
        note(f"{name}_derivatives", choice)
        if choice.way == "directions":
            return _by_directions(function, model, q, qd, x, f_ext)
        return closed(model, q, qd, x, f_ext)

    return evaluate_for(model, compute, **given)


def _at_accelerations(model: Model, q: Any, qd: Any, tau: Any, f_ext: Any) -> Matrices:
    return of_forward(model, q, qd, forward_dynamics(model, q, qd, tau, f_ext), f_ext)


@directly(_inverse_at_once)
def inverse_dynamics_derivatives(
    model: Model,
    q: Float[Array, "... nq"],
    qd: Float[Array, "... nv"],
    qdd: Float[Array, "... nv"],
    f_ext: Float[Array, "... bodies 6"] | None = None,
) -> tuple[Float[Array, "... nv nv"], Float[Array, "... nv nv"], Float[Array, "... nv nv"]]:
    """How the forces of `inverse_dynamics` change with the state and the acceleration.

    Arguments:
        model: the mechanism.
        q, qd, qdd: (..., nq), (..., nv), (..., nv); leading axes are batches and broadcast.
        f_ext: (..., n_bodies, 6) forces on the bodies in world coordinates, which stay as they are while q moves.

    Returns:
        ∂τ/∂q, ∂τ/∂qd and ∂τ/∂qdd, which is the mass matrix; (..., nv, nv) each, a row to a force. q moves along the
        tangent, as in `integrate`.

    Reference: Singh, Russo and Wensing 2022.
    """
    given = {"q": q, "qd": qd, "qdd": qdd, "f_ext": f_ext}
    return _matrices("inverse_dynamics", inverse_dynamics, of_inverse, choose_derivatives, 6, model, **given)


@directly(_forward_at_once, builtin=_one_after_the_other)
def forward_dynamics_derivatives(
    model: Model,
    q: Float[Array, "... nq"],
    qd: Float[Array, "... nv"],
    tau: Float[Array, "... nv"],
    f_ext: Float[Array, "... bodies 6"] | None = None,
) -> tuple[Float[Array, "... nv nv"], Float[Array, "... nv nv"], Float[Array, "... nv nv"]]:
    """How the accelerations of `forward_dynamics` change with the state and the forces.

    Arguments:
        model: the mechanism.
        q, qd, tau: (..., nq), (..., nv), (..., nv); leading axes are batches and broadcast.
        f_ext: (..., n_bodies, 6) forces on the bodies in world coordinates, which stay as they are while q moves.

    Returns:
        ∂qdd/∂q, ∂qdd/∂qd and ∂qdd/∂τ, which is the inverse of the mass matrix; (..., nv, nv) each, a row to an
        acceleration. q moves along the tangent, as in `integrate`.

    Reference: Singh, Russo and Wensing 2022.
    """
    given = {"q": q, "qd": qd, "tau": tau, "f_ext": f_ext}
    return _matrices("forward_dynamics", forward_dynamics, _at_accelerations, forward_way, 10, model, **given)

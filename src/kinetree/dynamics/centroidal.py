"""Momentum about the centre of mass, its matrix, and the Jacobian of the centre of mass.

Column i of the centroidal momentum matrix is the momentum of row i's subtree at unit rate, F_i = Iᶜ_i S_i, taken to
the centre of mass (Orin, Goswami & Lee 2013, eq. 27): the linear part over the total mass is the Jacobian of the
centre of mass.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from kinetree._types import Array, Float
from kinetree.model import Model, coupled
from kinetree.model.arguments import evaluate_for
from kinetree.spatial import Force, Vec3
from kinetree.tree import Layout, layout, restore

from .algorithms.wholes import CENTROIDAL_MATRIX, CENTROIDAL_MOMENTUM, COM_JACOBIAN
from .directly import directly
from .energy import center_of_mass_by_batch
from .matrices.crba import composite_momenta
from .recursion import Algorithm
from .schedules.arranged import arranged, row_poses
from .schedules.choose import IN_ORDER, call_of, choose
from .schedules.lanes import lane_program_of


@jax.jit
def _matrix(laid: Layout, model: Model, q: Any) -> Any:
    """A, (batch, 6, nv)."""
    at = arranged(laid, model, q)
    pose = row_poses(laid, at)
    center = Vec3.from_array(center_of_mass_by_batch(model, q))
    to_center = pose._replace(position=pose.position - Vec3(*(c[None, :] for c in center)))
    F: Force = restore(laid, to_center.transform.force_to_parent(composite_momenta(laid, at)))
    return jnp.transpose(F.array(), (1, 2, 0))


def _evaluate(model: Model, function: Any, passes: Algorithm, **given: Any) -> Any:
    """The result, by native lanes where states are walked in lanes; else `function` of the matrix and other states."""

    def compute(*states: Any) -> Any:
        if model.nv and choose(call_of(model, states), walks=False).schedule in IN_ORDER:
            program = lane_program_of(passes, model)
            (found,) = program(model, *states)
            return found.reshape(len(found), *program.output_shapes(model)[0])
        return function(_matrix(layout(model.tree, "paths"), model, states[0]), *states[1:])

    return evaluate_for(model, compute, **given)


@directly(partial(lane_program_of, CENTROIDAL_MATRIX))
@coupled("force")
def centroidal_momentum_matrix(model: Model, q: Float[Array, "... nq"]) -> Float[Array, "... 6 nv"]:
    """The matrix A with `centroidal_momentum` = A qd.

    Arguments:
        model: the mechanism.
        q: (..., nq).

    Returns:
        A, (..., 6, nv), angular part first, in world axes about the centre of mass.

    Reference: Orin, Goswami & Lee 2013.
    """
    return _evaluate(model, lambda A: A, CENTROIDAL_MATRIX, q=q)


@directly(partial(lane_program_of, CENTROIDAL_MOMENTUM))
@coupled("unchanged")
def centroidal_momentum(model: Model, q: Float[Array, "... nq"], qd: Float[Array, "... nv"]) -> Float[Array, "... 6"]:
    """Momentum of the moving bodies about their centre of mass, (..., 6), angular part first, in world axes."""
    return _evaluate(model, lambda A, qd: jnp.einsum("bij,bj->bi", A, qd), CENTROIDAL_MOMENTUM, q=q, qd=qd)


@directly(partial(lane_program_of, COM_JACOBIAN))
@coupled("force")
def com_jacobian(model: Model, q: Float[Array, "... nq"]) -> Float[Array, "... 3 nv"]:
    """Jacobian of the centre of mass, (..., 3, nv), in world axes."""
    mass = model.total_mass
    return _evaluate(model, lambda A: A[:, 3:] / jnp.asarray(mass, A.dtype), COM_JACOBIAN, q=q)

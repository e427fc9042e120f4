"""The Coriolis matrix: C qd are the velocity-product forces, and Ḣ − 2 C is skew.

A body with inertia I and velocity v has the body-level matrix B(I, v) of closed_form/terms.py, with B v = v ×* I v and
B + Bᵀ = v×* I − I v× = İ (Echeandia & Wensing 2021, eq. 13). Summed over subtrees, in coordinates common to the tree,
with Ṡ_j = v_j × S_j:
    C_ij = S_i · (Iᶜ_i Ṡ_j + Bᶜ_i S_j)      C_ji = S_j · (Iᶜ_i Ṡ_i + Bᶜ_i S_i)      for j on the way from the base to i
This is their algorithm with the loops over pairs written as products of (n, 6) factors under the mask of ancestors, as
crba.py does for H. For joints with one coordinate each, C is the one made of Christoffel symbols. Robots of few rows
have a lane program (coriolis_lanes.py).
"""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree._types import Array, Float
from kinetree.model import Model, coupled
from kinetree.model.arguments import evaluate_for
from kinetree.model.memory import require_matrices
from kinetree.spatial import Inertia, Motion
from kinetree.tree import Layout, layout, pick, restore

from .closed_form.shape import Shape
from .closed_form.terms import VelocityProduct
from .coriolis_lanes import coriolis_program, owed
from .directly import directly
from .matrices.crba import ancestor_mask, poses_in_tree
from .schedules.arranged import arranged, by_position, row_velocities


@jax.jit
def _coriolis(laid: Layout, model: Model, q: Any, qd: Any) -> Any:
    at = arranged(laid, model, q)
    X = poses_in_tree(laid, model.tree, at).transform
    v = X.motion_to_parent(row_velocities(laid, at, by_position(laid, qd)))
    S = X.motion_to_parent(at.rows.axis.times(jnp.ones_like(v.linear.x)))
    v, S, I = restore(laid, (v, S, X.inertia_to_parent(at.rows.inertia)))
    carrying: Motion = pick(v, Shape.of(model).last_of_row)
    above = ancestor_mask(model.tree)  # [i, j]: j is i or an ancestor of i
    subtree = jnp.asarray(above, q.dtype)

    def composite(x: Any) -> Any:
        return jnp.einsum("ki,k...->i...", subtree, x)

    composites: tuple[Inertia, VelocityProduct] = jax.tree.map(composite, (I, VelocityProduct.of(I, v)))
    rate = carrying.cross(S)
    force, back, momentum = (x.array() for x in owed(S, rate, *composites))
    lower = jnp.einsum("ibk,jbk->bij", momentum, rate.array()) + jnp.einsum("ibk,jbk->bij", back, S.angular.array())
    upper = jnp.einsum("jbk,ibk->bji", S.array(), force)
    C = jnp.where(above, lower, jnp.where(above.T, upper, jnp.zeros((), q.dtype)))
    return C + _of_rotors(model, qd)


def _of_rotors(model: Model, qd: Any) -> Any:
    """armature ω × on the sliding rows of free joints, (batch, nv, nv): C qd is what `armature_shift` costs there."""
    joints = model.structure.quaternion_joints
    first = joints[joints[:, 2] == 1, 0]
    C = jnp.zeros((*qd.shape, qd.shape[1]), qd.dtype)
    armature = jnp.asarray(model.rows.armature, qd.dtype)
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        C = C.at[:, first + 3 + i, first + 3 + k].set(armature[first + 3 + i] * qd[:, first + j])
        C = C.at[:, first + 3 + i, first + 3 + j].set(-armature[first + 3 + i] * qd[:, first + k])
    return C


@directly(coriolis_program)
@coupled("matrix")
def coriolis_matrix(model: Model, q: Float[Array, "... nq"], qd: Float[Array, "... nv"]) -> Float[Array, "... nv nv"]:
    """A matrix C with C qd the Coriolis and centrifugal forces, and Ḣ − 2 C skew-symmetric.

    Arguments:
        model: the mechanism.
        q, qd: (..., nq), (..., nv).

    Returns:
        C, (..., nv, nv).

    Reference: Echeandia & Wensing 2021, "Numerical methods to compute the Coriolis matrix and Christoffel symbols for
        rigid-body systems".
    """
    laid = layout(model.tree, "paths")
    if model.nv == 0:
        return evaluate_for(model, lambda q, qd: jnp.zeros((q.shape[0], 0, 0), q.dtype), q=q, qd=qd)

    def compute(q: Any, qd: Any) -> Any:
        instead = "bias_force less gravity_force, which is C qd"
        require_matrices("the Coriolis matrix", q, model.nv, model.nv, copies=4, instead=instead)
        return _coriolis(laid, model, q, qd)

    return evaluate_for(model, compute, q=q, qd=qd)

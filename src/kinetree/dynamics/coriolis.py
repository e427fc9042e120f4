"""The Coriolis matrix: C qd are the velocity-product forces, and Ḣ − 2 C is skew.

A body with inertia I and velocity v has the body-level matrix
    B(I, v) = ½ [ v×* I − I v× + (I v)×̄* ],        B v = v ×* I v,    B + Bᵀ = v×* I − I v× = İ
(Echeandia & Wensing 2021, eq. 13; f×̄* u = u ×* f). Summed over subtrees, in coordinates common to the tree, with Ṡ_j
= v_j × S_j:
    C_ij = S_i · (Iᶜ_i Ṡ_j + Bᶜ_i S_j)      C_ji = S_j · (Iᶜ_i Ṡ_i + Bᶜ_i S_i)      for j on the way from the base to i
This is their algorithm with the loops over pairs written as products of (n, 6) factors under the mask of ancestors, as
crba.py does for H. For joints with one coordinate each, C is the one made of Christoffel symbols.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._types import Array, Float
from kinetree.model import Model, Structure, coupled
from kinetree.model.arguments import evaluate_for
from kinetree.model.memory import require_matrices
from kinetree.spatial import Force, Inertia, Motion
from kinetree.tree import Layout, layout, restore

from .coriolis_lanes import coriolis_program
from .directly import directly
from .matrices.crba import ancestor_mask, poses_in_tree
from .schedules.arranged import arranged, by_position, row_velocities


def body_coriolis(I: Inertia, v: Motion) -> Any:
    """B(I, v) as (..., 6, 6)."""
    momentum = I @ v
    one, zero = jnp.ones_like(v.linear.x), jnp.zeros_like(v.linear.x)
    columns = []
    for k in range(6):
        unit = Motion.from_array(jnp.stack([one if i == k else zero for i in range(6)], -1))
        twice: Force = v.cross_force(I @ unit) - I @ v.cross(unit) + unit.cross_force(momentum)
        columns.append(0.5 * twice.array())
    return jnp.stack(columns, -1)


def _moved_by(structure: Structure) -> np.ndarray:
    """For each row, the row whose velocity carries its axis: the joint's last where the axes are fixed in the body."""
    row = np.arange(structure.tree.n)
    for first, _, has_position in structure.quaternion_joints:
        width = 6 if has_position else 3
        row[first : first + width] = first + width - 1
    return row


@jax.jit
def _coriolis(laid: Layout, model: Model, q: Any, qd: Any) -> Any:
    at = arranged(laid, model, q)
    X = poses_in_tree(laid, model.tree, at).transform
    v = X.motion_to_parent(row_velocities(laid, at, by_position(laid, qd)))
    S = X.motion_to_parent(at.rows.axis.times(jnp.ones_like(v.linear.x)))
    v, S, I = restore(laid, (v, S, X.inertia_to_parent(at.rows.inertia)))
    carrying: Motion = jax.tree.map(lambda x: x[_moved_by(model.structure)], v)
    above = ancestor_mask(model.tree)  # [i, j]: j is i or an ancestor of i
    subtree = jnp.asarray(above, q.dtype)

    def composite(x: Any) -> Any:
        return jnp.einsum("ki,k...->i...", subtree, x)

    I_c: Inertia = jax.tree.map(composite, I)
    B_c = composite(body_coriolis(I, v))
    axis, momentum = S.array(), (I_c @ S).array()
    axis_rate = carrying.cross(S)
    lower = jnp.einsum("ibk,jbk->bij", momentum, axis_rate.array()) + jnp.einsum("ibk,ibkl,jbl->bij", axis, B_c, axis)
    force = (I_c @ axis_rate).array() + jnp.einsum("ibkl,ibl->ibk", B_c, axis)
    upper = jnp.einsum("jbk,ibk->bji", axis, force)
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

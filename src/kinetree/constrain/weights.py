"""Inverse weights: what unit forces move at the neutral configuration, which scales the regularisation.

As MuJoCo defines them (`dof_invweight0`, `body_invweight0`): the diagonal of M⁻¹, averaged over the three axes of a
ball and of each half of a free joint; and of J M⁻¹ Jᵀ at the body's centre of mass, averaged over three axes each. A
body that only slides, along a coordinate axis and right on the base, has the inverse of its mass and no rotation.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.dynamics import forward_dynamics, forward_kinematics, inverse_dynamics
from kinetree.dynamics.tendons.lengths import tendon_jacobian, tendons_of
from kinetree.model import Model, neutral
from kinetree.model.arguments import is_traced
from kinetree.model.world import InverseWeights

BODIES_AT_ONCE = 64  # whose forces are tried in one batch: 6 states a body, with a wrench on every body of the tree


def inverse_weights(model: Model) -> InverseWeights:
    """The model's own, or else computed; once for a model whose numbers are known."""
    if model.world is not None and model.world.inverse_weights is not None:
        return model.world.inverse_weights
    kept = model.__dict__.get("_inverse_weights")
    if kept is None:
        kept = _compute(model.uncoupled)
        if not is_traced(kept):
            model.__dict__["_inverse_weights"] = kept
    return kept


def _touching_bodies(model: Model) -> np.ndarray:
    if model.world is None:
        return np.zeros(0, np.int64)
    scene, equal = model.world.scene, model.world.equalities
    touching = () if scene is None else scene.layout.bodies
    bodies = np.unique(np.array([*touching, *(() if equal is None else equal.bodies)], np.int64))
    bodies = bodies[bodies >= 0]
    return bodies[model.structure.row_of_body[bodies] >= 0]


def _compute(model: Model) -> InverseWeights:
    free = model.weightless
    q, nv, n = neutral(model), model.nv, model.n_bodies
    traced = any(isinstance(x, jax.Array) for x in jax.tree.leaves((model.rows, model.inertia)))
    xp = jnp if traced else np
    rest = xp.zeros(nv)
    dof = xp.diagonal(xp.asarray(forward_dynamics(free, xp.asarray(q), rest, xp.eye(nv)))) if nv else rest
    body = xp.zeros((n, 2))
    pose = forward_kinematics(free, xp.asarray(q))
    mass, *first = (xp.asarray(c, rest.dtype) for c in (free.inertia.mass, *free.inertia.h))
    h = xp.stack(first, -1)
    center = pose.position + (pose.rotation @ (h / xp.where(mass > 0, mass, 1.0)[:, None])[..., None])[..., 0]
    touching = _touching_bodies(model)
    for start in range(0, len(touching), BODIES_AT_ONCE):
        some = touching[start : start + BODIES_AT_ONCE]
        wrench = _unit_wrenches(xp, center[some])  # (bodies, 6, 6)
        k = np.repeat(np.arange(len(some)), 6)
        f_ext = _put(xp, xp.zeros((6 * len(some), n, 6)), (np.arange(6 * len(some)), some[k]), wrench.reshape(-1, 6))
        moved = forward_dynamics(free, xp.asarray(q), rest, rest, f_ext)
        felt = -inverse_dynamics(free, xp.asarray(q), rest, rest, f_ext)
        own = (moved * felt).sum(-1).reshape(-1, 2, 3).mean(-1)  # translation, rotation
        body = _put(xp, body, some, own)
    simple = _simple_sliders(xp, model)
    sliding = xp.stack([1 / xp.where(mass > 0, mass, 1.0), xp.zeros(n)], -1)
    body = xp.where(simple[:, None], sliding, body)
    return InverseWeights(_averaged(xp, model, dof), body, _of_tendons(xp, free, q))


def _of_tendons(xp: Any, free: Model, q: Any) -> Any:
    """J M⁻¹ Jᵀ of each tendon; the inertia of tendons themselves is left out."""
    if tendons_of(free) is None:
        return None
    J = tendon_jacobian(free, xp.asarray(q))
    return (forward_dynamics(free, xp.asarray(q), xp.zeros(free.nv), J) * J).sum(-1)


def _put(xp: Any, whole: Any, at: Any, values: Any) -> Any:
    if xp is jnp:
        return whole.at[at].set(values)
    whole[at] = values
    return whole


def _unit_wrenches(xp: Any, at: Any) -> Any:
    """(bodies, 6, 6): three unit forces at points of the world, then three unit moments; moment first in each."""
    unit = np.eye(3)
    forces = xp.concatenate([xp.cross(at[:, None], unit[None]), xp.broadcast_to(unit, (len(at), 3, 3))], -1)
    moments = np.broadcast_to(np.concatenate([unit, np.zeros((3, 3))], -1), (len(at), 3, 6))
    return xp.concatenate([forces, moments], 1)


def _averaged(xp: Any, model: Model, dof: Any) -> Any:
    """Each three axes of a ball or a half of a free joint have one weight."""
    group = np.arange(model.nv)
    for first, _, free in model.structure.quaternion_joints.tolist():
        group[first : first + 3] = first
        if free:
            group[first + 3 : first + 6] = first + 3
    return xp.stack([dof[np.flatnonzero(group == g)].mean() for g in group]) if model.nv else dof


def _simple_sliders(xp: Any, model: Model) -> Any:
    """Bodies that MuJoCo calls simple and that do not turn: on one slider along an axis, on the base, alone."""
    structure = model.structure
    inertia = model.inertia
    centred = xp.stack([xp.asarray(x) == 0 for x in (*inertia.h, *tuple(inertia.I)[3:])]).all(0)
    slides = [j.kind == "prismatic" and sorted(map(abs, j.rows[0][2])) == [0, 0, 1] for j in structure.joints]
    leaf = np.ones(model.n_bodies, bool)
    leaf[structure.parent[structure.parent >= 0]] = False
    return centred & leaf & (structure.parent < 0) & np.array(slides, bool)[structure.joint_code]

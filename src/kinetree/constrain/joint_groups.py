"""Constraints on single joints: limits of hinges, sliders and balls, and friction loss."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from kinetree.model import Model
from kinetree.model.world import InverseWeights, JointSoftness, World
from kinetree.spatial import Quaternion, Scalar

from .groups import OnBalls, OnJoints
from .softness import impedance, parts, reference, regularisation


def row(solref: Any, solimp: Any, r: Scalar, velocity: Scalar, weight: Scalar, active: Scalar, least_time: Scalar) -> Any:
    """Reference acceleration and D of rows, both zero where they do not act."""
    ref, imp = parts(solref), parts(solimp)
    d = impedance(imp, r)
    k, b = reference(ref, imp, least_time)
    D = jnp.where(active, 1 / regularisation(d, weight), 0.0)
    return jnp.where(active, -b * velocity - k * d * r, 0.0), D


def _finite(bounds: Any, columns: np.ndarray) -> np.ndarray:
    """Which of some columns have a bound; all of them where that is not known yet."""
    return np.isfinite(bounds[columns]) if isinstance(bounds, np.ndarray) else np.ones(len(columns), bool)


def joint_groups(
    model: Model, world: World, weights: InverseWeights, least_time: Any, q: Any, qd: Any, position_of: np.ndarray
) -> list[OnJoints]:
    """Limits and friction loss of coordinates; q (nq, batch), qd (nv, batch)."""
    dtype = qd.dtype
    soft = _softness(world, model.nv, dtype)
    weight = jnp.asarray(weights.dof, dtype)[:, None]
    groups = []
    if "limit" not in world.disabled and model.limits is not None:
        rows = np.flatnonzero(model.structure.q_of_row >= 0)
        columns = model.structure.q_of_row[rows]
        for sign, bounds in ((1, model.limits.lower), (-1, model.limits.upper)):
            some = _finite(bounds, columns)
            own, column = rows[some], columns[some]
            if not len(own):
                continue
            distance = sign * (q[column] - jnp.asarray(bounds, dtype)[column, None])
            active = distance < soft.limit_margin[own, None]
            r = jnp.where(active, distance - soft.limit_margin[own, None], 0.0)
            both = soft.limit_solref[own], soft.limit_solimp[own]
            found = row(*both, r, sign * qd[own], weight[own], active, least_time)
            groups.append(OnJoints(position_of[own], sign, *found))
    if "frictionloss" not in world.disabled and model.friction is not None:
        loss = model.friction
        own = np.flatnonzero(loss) if isinstance(loss, np.ndarray) else np.arange(model.nv)
        if len(own):
            most = jnp.asarray(loss, dtype)[own, None]
            both = soft.friction_solref[own], soft.friction_solimp[own]
            active = jnp.broadcast_to(most > 0, qd[own].shape)
            found = row(*both, jnp.zeros_like(qd[own]), qd[own], weight[own], active, least_time)
            groups.append(OnJoints(position_of[own], 1, *found, most))
    return groups


def ball_group(
    model: Model, world: World, weights: InverseWeights, least_time: Any, q: Any, qd: Any, position_of: np.ndarray
) -> OnBalls | None:
    """Limits of ball joints: the angle of the shortest turn from the reference orientation."""
    joined = model.structure.quaternion_joints
    joined = joined[joined[:, 2] == 0]
    if "limit" in world.disabled or world.joints is None or not len(joined):
        return None
    joined = joined[_finite(world.joints.ball_limit, joined[:, 0])]
    if not len(joined):
        return None
    dtype = qd.dtype
    first, start, _ = joined.T
    soft = JointSoftness(*(x[first] for x in _softness(world, model.nv, dtype)))
    turn = Quaternion(*(q[start + k] for k in range(4))).normalized().log()
    squared = turn.dot(turn)
    some = squared > 0
    angle = jnp.where(some, jnp.sqrt(jnp.where(some, squared, 1.0)), 0.0)
    x, y, z = (-t / jnp.where(some, angle, 1.0) for t in turn)
    axis = (jnp.where(some, x, -1.0), y, z)
    distance = soft.ball_limit[:, None] - angle
    active = distance < soft.limit_margin[:, None]
    r = jnp.where(active, distance - soft.limit_margin[:, None], 0.0)
    velocity = axis[0] * qd[first] + axis[1] * qd[first + 1] + axis[2] * qd[first + 2]
    weight = jnp.asarray(weights.dof, dtype)[first, None]
    found = row(soft.limit_solref, soft.limit_solimp, r, velocity, weight, active, least_time)
    return OnBalls(np.stack([position_of[first + k] for k in range(3)]), axis, *found)


def _softness(world: World, nv: int, dtype: Any) -> JointSoftness:
    return JointSoftness(*(jnp.asarray(x, dtype) for x in world.joints or JointSoftness.default(nv)))

"""Constraints on single joints: limits of hinges, sliders and balls, and friction loss; and which ones exist."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.lanes.kept.once import OncePerOwner
from kinetree.model import Model, Structure
from kinetree.model.arguments import is_known
from kinetree.model.configuration import coordinate_columns
from kinetree.model.world import JointSoftness, World
from kinetree.spatial import Quaternion, Scalar, Vec3

from .cones import Dry, OneSided
from .groups import Group, Terms
from .jacobians import AlongJoints, OnJoint
from .softness import parts, soft_row


class Present(NamedTuple):
    """The rows with constraints and bodies of their own; if numbers are unknown, all rows that may have some."""

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    loss: tuple[int, ...]  # rows whose friction acts along their own axes
    balls: tuple[int, ...]  # first rows of ball joints
    bodies: tuple[int, ...]  # rows that carry mass or shapes
    tendon_lower: tuple[int, ...] = ()  # tendons, by their numbers
    tendon_upper: tuple[int, ...] = ()
    tendon_loss: tuple[int, ...] = ()
    tendon_armature: tuple[int, ...] = ()
    tendon_stiffness: tuple[int, ...] = ()
    tendon_damping: tuple[int, ...] = ()
    sliding_loss: tuple[int, ...] = ()  # sliding rows of free joints; their friction acts along the parent's axes

    @property
    def acts(self) -> bool:
        """True if there are constraints or pulling tendons; bodies alone do not count."""
        return any((*self._replace(bodies=()),))

    @property
    def tendon_rows(self) -> tuple[int, ...]:
        """Tendons that are constrained, or have inertia."""
        return (*self.tendon_lower, *self.tendon_upper, *self.tendon_loss, *self.tendon_armature)

    @property
    def tendon_forces(self) -> tuple[int, ...]:
        """Tendons with springs, dampers or other forces of their own."""
        return (*self.tendon_stiffness, *self.tendon_damping, *self.tendon_armature)


_present: OncePerOwner[Present] = OncePerOwner()


def present(model: Model) -> Present:
    """Found outside of `jit`, so that rows without constraints cost nothing inside."""
    return _present.get(model, None, lambda: _found(model)) if is_known(model) else _found(model)


def _found(model: Model) -> Present:
    world = model.world or World()
    structure = model.structure
    scalar = np.flatnonzero(structure.q_of_row >= 0)
    joined = structure.quaternion_joints
    balls = joined[joined[:, 2] == 0, 0].astype(np.int64)
    limits = None if "limit" in world.disabled else model.limits
    loss = None if "frictionloss" in world.disabled else model.friction
    turn = None if "limit" in world.disabled or world.joints is None else world.joints.ball_limit

    def some(rows: np.ndarray, values: Any, columns: np.ndarray) -> tuple[int, ...]:
        if values is None:
            return ()
        if not isinstance(values, np.ndarray):
            return tuple(rows.tolist())
        at = values[columns]
        return tuple(rows[np.isfinite(at) & ((at != 0) | (values is not loss))].tolist())

    columns = structure.q_of_row[scalar]
    sliding = np.sort(coordinate_columns(structure).linear.reshape(-1))
    along = np.setdiff1d(np.arange(len(structure.q_of_row)), sliding)
    return Present(
        some(scalar, None if limits is None else limits.lower, columns),
        some(scalar, None if limits is None else limits.upper, columns),
        some(along, loss, along),
        some(balls, turn, balls),
        _with_bodies(model),
        *(_tendons(world) if len(along) else ()),  # without moving rows tendons have no effect
        sliding_loss=some(sliding, loss, sliding),
    )


def _with_bodies(model: Model) -> tuple[int, ...]:
    """Rows that carry mass or shapes, or are held. A body with several joints in MJCF hangs from bodies without."""
    row_of_body = np.asarray(model.structure.row_of_body)
    rows = np.unique(row_of_body[row_of_body >= 0])
    if not len(rows):
        return ()
    leaves = jax.tree.leaves(model.rows.inertia)
    numbers = [x for x in leaves if isinstance(x, np.ndarray)]
    if len(numbers) < len(leaves):
        return tuple(rows.tolist())
    scene, equal = (None, None) if model.world is None else (model.world.scene, model.world.equalities)
    shaped = [] if scene is None else [row_of_body[b] for b in scene.layout.bodies if b >= 0]
    shaped += [] if equal is None else row_of_body[equal.bodies].tolist()
    heavy = np.any([np.reshape(x, (-1, x.shape[-1]))[:, rows].any(0) for x in numbers], 0)
    return tuple(rows[heavy | np.isin(rows, shaped)].tolist())


def _tendons(world: World) -> Iterator[tuple[int, ...]]:
    """Tendons with lower limits, upper limits, friction loss, armature, springs or dampers."""
    tendons = world.tendons
    if tendons is None:
        return

    def some(values: Any, off: str = "", none: float = 0.0) -> tuple[int, ...]:
        if off in world.disabled:
            return ()
        if not isinstance(values, np.ndarray):
            return tuple(range(len(tendons)))
        return tuple(np.flatnonzero((values != none).reshape(-1, len(tendons)).any(0)).tolist())

    pull = tendons.pull
    for side, none in ((0, -np.inf), (1, np.inf)):
        yield some(pull.range[..., side], "limit", none)
    yield some(pull.friction, "frictionloss")
    yield some(pull.armature)
    yield some(pull.stiffness)
    yield some(pull.damping)


def joint_groups(model: Model, known: Terms, has: Present, q: Any, qd: Any, position_of: np.ndarray) -> list[Group]:
    """Limits and friction loss; q (nq, batch), qd (nv, batch)."""
    dtype = qd.dtype
    soft = JointSoftness(*(jnp.asarray(x, dtype) for x in known.world.joints or JointSoftness.default(len(qd))))
    weight = jnp.asarray(known.weights.dof, dtype)[:, None]
    groups: list[Group] = []

    for sign, own, distance in _from_limits(model, has, q):
        D, ref = _limit(soft, own, distance, sign * qd[own], weight, known.least_time)
        groups.append(Group(OnJoint(position_of[own], sign), (ref,), OneSided(D)))
    if has.loss:
        own = np.array(has.loss)
        D, ref, most = _loss(model, soft, own, qd[own], weight, known.least_time)
        groups.append(Group(OnJoint(position_of[own]), (ref,), Dry(D, most)))
    if has.sliding_loss:
        own = np.array(has.sliding_loss)
        at, axes, quaternion = sliding_axes(model.structure, own)
        here = Quaternion(*(q[quaternion + k] for k in range(4))).normalized()
        along = jnp.stack(here.to_child(Vec3(*(jnp.asarray(e, dtype)[:, None] for e in axes))), 1)
        D, ref, most = _loss(model, soft, own, (along * qd[at]).sum(1), weight, known.least_time)
        groups.append(Group(AlongJoints(along, position_of[at]), (ref,), Dry(D, most)))
    if has.balls:
        own = np.array(has.balls)
        joined = model.structure.quaternion_joints
        start = joined[np.searchsorted(joined[:, 0], own), 1].astype(np.int64)
        axis, angle = turn_from_rest(Quaternion(*(q[start + k] for k in range(4))))
        velocity = axis[0] * qd[own] + axis[1] * qd[own + 1] + axis[2] * qd[own + 2]
        D, ref = _limit(soft, own, soft.ball_limit[own, None] - angle, velocity, weight, known.least_time)
        J = AlongJoints(jnp.stack(axis, 1), position_of[own[:, None] + np.arange(3)])
        groups.append(Group(J, (ref,), OneSided(D)))
    return groups


def sliding_axes(structure: Structure, rows: np.ndarray) -> tuple[np.ndarray, Vec3, np.ndarray]:
    """Of sliding rows of free joints: all three of their joints, (k, 3); the parent's axes that they stand for; and
    the first columns of the joints' quaternions.

    In MuJoCo a free joint slides along the world's axes. So the first of its sliding rows rubs along x, and so on.
    """
    at = coordinate_columns(structure)
    joint = np.searchsorted(at.linear[0], rows, "right") - 1
    axes = np.eye(3)[rows - at.linear[0, joint]]
    return at.linear[:, joint].T, Vec3(*axes.T), at.quaternion[0, at.free[joint]]


def _loss(model: Model, soft: JointSoftness, own: np.ndarray, velocity: Scalar, weight: Any, least: Any) -> Any:
    """D, reference acceleration, and the most that friction holds."""
    most = jnp.asarray(model.friction, velocity.dtype)[own, None]
    both = parts(soft.friction_solref[own]), parts(soft.friction_solimp[own])
    active = jnp.broadcast_to(most > 0, velocity.shape)
    return *soft_row(*both, weight[own], jnp.zeros_like(velocity), velocity, active, least), most


def near_limits(model: Model, has: Present, q: Any) -> Any:
    """(batch,): which states have a hinge or slider at one of its limits, from q (batch, nq)."""
    near = jnp.zeros(len(q), bool)
    soft = (model.world or World()).joints
    for _, own, distance in _from_limits(model, has, q.T):
        margin = 0.0 if soft is None else jnp.asarray(soft.limit_margin, q.dtype)[own, None]
        near = near | (distance < margin).any(0)
    return near


def _from_limits(model: Model, has: Present, q: Any) -> Iterator[tuple[int, np.ndarray, Scalar]]:
    """Lower and upper limits: the way inward, the rows, and how far they are from it, (rows, batch); q (nq, batch)."""
    for sign, rows in ((1, has.lower), (-1, has.upper)):
        if not rows:
            continue
        assert model.limits is not None
        own = np.array(rows)
        column = model.structure.q_of_row[own]
        bounds = jnp.asarray(model.limits.lower if sign > 0 else model.limits.upper, q.dtype)[column, None]
        yield sign, own, sign * (q[column] - bounds)


def _limit(soft: JointSoftness, own: np.ndarray, distance: Scalar, velocity: Scalar, weight: Any, least: Any) -> Any:
    both = parts(soft.limit_solref[own]), parts(soft.limit_solimp[own])
    return beyond(*both, weight[own], distance, soft.limit_margin[own, None], velocity, least)


def beyond(
    solref: tuple, solimp: tuple, weight: Scalar, distance: Scalar, margin: Scalar, velocity: Scalar, least: Any
) -> tuple[Scalar, Scalar]:
    """D and the reference acceleration of limits, which act where the distance is less than their margin."""
    active = distance < margin
    return soft_row(solref, solimp, weight, jnp.where(active, distance - margin, 0.0), velocity, active, least)


def turn_from_rest(orientation: Quaternion) -> tuple[tuple[Scalar, Scalar, Scalar], Scalar]:
    """Minus the axis, and the angle, of the shortest turn from the reference orientation."""
    turn = orientation.normalized().log()
    squared = turn.dot(turn)
    some = squared > 0
    angle = jnp.where(some, jnp.sqrt(jnp.where(some, squared, 1.0)), 0.0)
    x, y, z = (-t / jnp.where(some, angle, 1.0) for t in turn)
    return (jnp.where(some, x, -1.0), y, z), angle

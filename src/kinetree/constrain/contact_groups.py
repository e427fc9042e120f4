"""Contacts as constraints: frames on the bodies' rows, reference accelerations, regularisation of the cones."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from kinetree._arrays import there
from kinetree.model import Model, Placement
from kinetree.model.world import BOTH, PairSurfaces
from kinetree.spatial import Motion, Quaternion, Rotation, Scalar, Transform, Vec3
from kinetree.tree import take

from .cones import Cone
from .contact_softness import soft_contact
from .groups import Group, Terms
from .jacobians import BetweenFrames, OnFrame
from .softness import MIN_VALUE, parts
from .touching import Touching


def members_of(model: Model, found: Touching) -> list[np.ndarray]:
    """The points of each group. Groups differ in the number of moving bodies, and in dimensions."""
    assert model.world is not None
    pairs = there(model.world.scene).layout.pairs
    kind = np.array([(pairs[k].moving == BOTH, pairs[k].condim) for k in found.pair], np.int64).reshape(-1, 2)
    return [np.flatnonzero((kind == own).all(1)) for own in sorted(set(map(tuple, kind.tolist())))]


def contact_groups(
    model: Model,
    known: Terms,
    found: Touching,
    surfaces: PairSurfaces,
    poses: Placement,
    velocities: Motion,
    position_of: np.ndarray,
) -> list[Group]:
    """One group for each number of dimensions, of contacts with the static world, and of those between moving bodies.

    Poses and velocities are of the rows, by position.
    """
    layout = there(known.world.scene).layout
    groups: list[Group] = []
    for points in members_of(model, found):
        members = found.pair[points]
        couples, dim = layout.pairs[members[0]].moving == BOTH, layout.pairs[members[0]].condim
        contact, surface = take(found.point, points), take(surfaces, members)
        pairs = [layout.pairs[k] for k in members]
        both = np.array([(layout.bodies[p.first], layout.bodies[p.second]) for p in pairs], np.int64)
        if couples:
            groups.append(between(model, known, contact, surface, both, dim, poses, velocities, position_of))
        else:
            moving = np.array([p.moving for p in pairs], np.int64)
            at, X, v = _on(model, both[np.arange(len(both)), moving], contact, poses, velocities, position_of)
            sign = jnp.asarray(2.0 * moving - 1.0, contact.distance.dtype)[:, None]
            along = tuple(sign * y for y in (*v.linear, *v.angular))
            ref, cone = _cone(known, surface, contact.distance, dim, _weight(known, contact, both), along)
            groups.append(Group(OnFrame(X, None, sign, at, dim), ref, cone))
    return groups


def between(
    model: Model, known: Terms, contact: Any, surface: Any, both: Any, dim: int, poses: Any, velocities: Any, at: Any
) -> Group:
    """Contacts between moving bodies, `both` (n, 2); `at` are the positions of rows."""
    (at1, X1, v1), (at2, X2, v2) = (_on(model, both[:, k], contact, poses, velocities, at) for k in (0, 1))
    v = v2 - v1
    weight = _weight(known, contact, both)
    ref, cone = _cone(known, surface, contact.distance, dim, weight, (*v.linear, *v.angular))
    return Group(BetweenFrames(X1, X2, None, at1, at2, dim), ref, cone)


def _weight(known: Terms, contact: Any, both: Any) -> Scalar:
    every = jnp.asarray(known.weights.body, contact.distance.dtype)[:, 0]
    return jnp.where(both >= 0, every[jnp.maximum(both, 0)], 0.0).sum(1)[:, None]


def _on(
    model: Model, bodies: Any, contact: Any, poses: Any, velocities: Any, position_of: Any
) -> tuple[Any, Transform, Motion]:
    """Position of the bodies' rows, the contact's frame in theirs, and their motion in it."""
    row = model.structure.row_of_body
    at = position_of[row[bodies]] if isinstance(bodies, np.ndarray) else jnp.asarray(position_of[row])[bodies]
    pose, velocity = take((poses, velocities), at)
    X = _contact_frame(pose, contact)
    return at, X, X @ velocity


def _cone(known: Terms, surface: PairSurfaces, distance: Scalar, dim: int, weight: Scalar, v: Any) -> tuple[Any, Cone]:
    """Reference accelerations and the cone of contacts, from their velocities along the six directions."""
    elliptic = known.world.cone == "elliptic"
    impratio = jnp.maximum(jnp.asarray(known.world.impratio, distance.dtype), MIN_VALUE)
    wide = PairSurfaces(*(x[:, None] if x.ndim == 1 else parts(x) for x in surface))
    ref, D = soft_contact(wide, distance, v[:dim], weight, impratio, known.least_time, elliptic)
    return ref, Cone(D, wide.friction[: dim - 1], impratio, elliptic)


def _contact_frame(pose: Placement, contact: Any) -> Transform:
    """From the row's frame to the contact's."""
    back: Quaternion = pose.orientation.conjugate()
    axes = (back.turn(axis) for axis in contact.frame.rows)
    offset: Vec3 = contact.position - pose.position
    return Transform(Rotation(*(c for axis in axes for c in axis)), back.turn(offset))

"""Contacts as constraints: frames on the bodies' rows, reference accelerations, regularisation of the cones."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.model import Model, Placement
from kinetree.model.world import PairSurfaces
from kinetree.spatial import Motion, Quaternion, Rotation, Scalar, Transform, Vec3

from .groups import Group, Known, OnBodies
from .softness import MIN_VALUE, impedance, parts, reference, regularisation
from .touching import Touching


def _diagonal(dim: int, elliptic: bool, translation: Scalar, friction: Scalar) -> Scalar:
    """The inverse inertia along the first row of a contact: the normal, or the normal and a tangent together."""
    if dim == 1 or elliptic:
        return translation
    return translation + friction * friction * translation


def contact_groups(
    model: Model,
    known: Known,
    found: Touching,
    surfaces: PairSurfaces,
    poses: Placement,
    velocities: Motion,
    position_of: np.ndarray,
) -> list[Group]:
    """One group for each number of dimensions. Poses and velocities are of the rows, by position."""
    world, weights, least_time = known
    assert world.scene is not None
    layout = world.scene.layout
    condim = np.array([layout.pairs[k].condim for k in found.pair], np.int64)
    groups: list[Group] = []
    for dim in sorted(set(condim.tolist())):
        points = np.flatnonzero(condim == dim)
        members = found.pair[points]
        contact = jax.tree.map(lambda x, at=points: x[at], found.point)
        surface = jax.tree.map(lambda x, at=members: x[at], surfaces)
        pairs = [layout.pairs[k] for k in members]
        bodies = np.array([layout.bodies[(p.first, p.second)[p.moving]] for p in pairs], np.int64)
        at = position_of[model.structure.row_of_body[bodies]]
        pose = jax.tree.map(lambda x, at=at: x[at], poses)
        velocity = jax.tree.map(lambda x, at=at: x[at], velocities)
        dtype = contact.distance.dtype
        sign = jnp.asarray([1.0 if p.moving else -1.0 for p in pairs], dtype)[:, None]
        X = _contact_frame(pose, contact)
        margin = surface.margin[:, None]
        active = contact.distance < margin
        r = jnp.where(active, contact.distance - margin, 0.0)
        friction = parts(surface.friction)[: dim - 1]
        solimp, solref = parts(surface.solimp), parts(surface.solref)
        d = impedance(solimp, r)
        k, b = reference(solref, solimp, least_time)
        elliptic = world.cone == "elliptic"
        weight = jnp.asarray(weights.body, dtype)[bodies, 0, None]
        R = regularisation(d, _diagonal(dim, elliptic, weight, friction[0] if friction else weight))
        impratio = jnp.maximum(jnp.asarray(world.impratio, dtype), MIN_VALUE)
        if dim > 1 and not elliptic:  # all rows of a pyramid have the stiffness that matches the elliptic cone's
            R = 2 * friction[0] * friction[0] * R / impratio
        D = jnp.where(active, 1 / R, 0.0)
        v = X @ velocity
        v = tuple(sign * y for y in (*v.linear, *v.angular)[:dim])
        b_friction = _friction_damping(surface, solimp, b, least_time) if elliptic else b
        wanted = (-b * v[0] - k * d * r, *(-b_friction * y for y in v[1:]))
        ref = tuple(jnp.where(active, y, 0.0) for y in wanted)
        groups.append(OnBodies(X, sign, ref, D, friction, impratio, elliptic, tuple(at.tolist())))
    return groups


def _contact_frame(pose: Placement, contact: Any) -> Transform:
    """From the row's frame to the contact's."""
    back: Quaternion = pose.orientation.conjugate()
    axes = (back.turn(axis) for axis in contact.frame.rows)
    offset: Vec3 = contact.position - pose.position
    return Transform(Rotation(*(c for axis in axes for c in axis)), back.turn(offset))


def _friction_damping(surface: PairSurfaces, solimp: Any, b: Scalar, least_time: Any) -> Scalar:
    """Damping along the tangents of an elliptic cone, which may have a solref of their own."""
    own = parts(surface.solref_friction)
    mixed = (own[0] > 0) != (own[1] > 0)
    given = ((own[0] != 0) | (own[1] != 0)) & ~mixed
    safe = tuple(jnp.where(given, x, 1.0) for x in own)
    return jnp.where(given, reference(safe, solimp, least_time).damping, b)

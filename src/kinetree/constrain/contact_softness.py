"""How soft one contact is, elementwise: reference accelerations and stiffness of its cone, from surface and motion."""

from typing import Any

import jax.numpy as jnp

from kinetree.model.world import PairSurfaces
from kinetree.spatial import Scalar

from .cones import Vector
from .softness import MIN_VALUE, impedance, reference, regularisation


def soft_contact(
    surface: PairSurfaces,
    distance: Scalar,
    v: Any,
    weight: Scalar,
    impratio: Scalar,
    least_time: Scalar,
    elliptic: bool,
) -> tuple[Vector, Scalar]:
    """Reference accelerations along the directions of v, and D; both are zero if the contact is inactive.

    Arguments:
        surface: with a tuple of scalars for each parameter.
        distance: between the two surfaces.
        v: velocity along normal, tangents, and about them.
        weight: inverse inertia that the contact's point has for pushes.
        impratio, least_time, elliptic: of the world.
    """
    active = distance < surface.margin
    r = jnp.where(active, distance - surface.margin, 0.0)
    d = impedance(surface.solimp, r)
    k, b = reference(surface.solref, surface.solimp, least_time)
    sharp = surface.friction[0]
    pyramid = len(v) > 1 and not elliptic
    R = regularisation(d, weight + sharp * sharp * weight if pyramid else weight)
    if pyramid:  # all rows of a pyramid have the stiffness that matches the elliptic cone's
        R = 2 * sharp * sharp * R / jnp.maximum(impratio, MIN_VALUE)
    D = jnp.where(active, 1 / R, 0.0)
    sideways = friction_damping(surface, b, least_time) if elliptic else b
    wanted = (-b * v[0] - k * d * r, *(-sideways * y for y in v[1:]))
    return tuple(jnp.where(active, y, 0.0) for y in wanted), D


def friction_damping(surface: Any, b: Scalar, least_time: Scalar) -> Scalar:
    """Damping along the tangents of an elliptic cone, which may have their own solref."""
    own = surface.solref_friction
    mixed = (own[0] > 0) != (own[1] > 0)
    given = ((own[0] != 0) | (own[1] != 0)) & ~mixed
    safe = tuple(jnp.where(given, x, 1.0) for x in own)
    return jnp.where(given, reference(safe, surface.solimp, least_time).damping, b)

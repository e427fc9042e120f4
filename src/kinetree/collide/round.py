"""Spheres and capsules against each other, and a sphere against a cylinder.

Sources: mjraw_SphereSphere, mjraw_SphereCapsule and mjc_SphereCylinder of MuJoCo. The rule for parallel capsules is
newer than these sources, and was found by trials with MuJoCo 4.0.
"""

import jax.numpy as jnp

from kinetree.spatial import Scalar, Vec3

from .shapes import MIN_VALUE, Contact, Geom, clip, contact, frame_of, unit, where

PARALLEL_SINE_SQUARED = 1e-8  # Capsules at a smaller angle touch in two points (found by trials with MuJoCo 4.0).


def balls(a: Vec3, radius_a: Scalar, b: Vec3, radius_b: Scalar, aside: Vec3, margin: Scalar) -> Contact:
    """Two balls. Where their centres are the same, the normal is `aside`."""
    between = b - a
    normal, length = unit(between)
    normal = where(length < MIN_VALUE, aside, normal)
    distance = length - radius_a - radius_b
    position = a + normal * (radius_a + distance / 2)
    return contact(length <= margin + radius_a + radius_b, position, frame_of(normal), distance)


def across(first: Geom, second: Geom) -> Vec3:
    """The normal where two centres are the same: orthogonal to both z axes, or x where these are parallel."""
    return unit(first.axis.cross(second.axis))[0]


def sphere_sphere(first: Geom, second: Geom, margin: Scalar) -> tuple[Contact, ...]:
    """One point."""
    aside = across(first, second)
    return (balls(first.position, first.size.x, second.position, second.size.x, aside, margin),)


def sphere_capsule(sphere: Geom, capsule: Geom, margin: Scalar) -> tuple[Contact, ...]:
    """The sphere against the nearest ball of the capsule."""
    along = clip(capsule.axis.dot(sphere.position - capsule.position), capsule.size.y)
    nearest = capsule.position + capsule.axis * along
    aside = across(sphere, capsule)
    return (balls(sphere.position, sphere.size.x, nearest, capsule.size.x, aside, margin),)


def sphere_cylinder(sphere: Geom, cylinder: Geom, margin: Scalar) -> tuple[Contact, ...]:
    """The sphere against the side, a cap or a rim, whichever its centre is nearest to."""
    radius, half, axis = cylinder.size.x, cylinder.size.y, cylinder.axis
    offset = sphere.position - cylinder.position
    along = axis.dot(offset)
    outward = offset - axis * along
    squared = outward.dot(outward)
    beside, over = jnp.abs(along) < half, squared < radius * radius
    off_axis = jnp.sqrt(jnp.where(squared > 0, squared, 1.0))
    nearer_cap = half - jnp.abs(along) < radius - jnp.where(squared > 0, off_axis, 0.0)
    side = beside & ~(over & nearer_cap)
    cap = over & ~side

    # The side is a ball on the axis, a rim a ball without size.
    upwards = jnp.where(along > 0, 1.0, -1.0).astype(jnp.result_type(along))
    rim = axis * (upwards * half) + outward * (radius / off_axis)
    centre = cylinder.position + where(side, axis * along, rim)
    thick = jnp.where(side, radius, 0.0)
    rounded = balls(sphere.position, sphere.size.x, centre, thick, across(sphere, cylinder), margin)

    # A cap is a plane.
    up = axis * upwards
    height = (sphere.position - (cylinder.position + axis * (upwards * half))).dot(up)
    distance = height - sphere.size.x
    position = sphere.position - up * (distance / 2 + sphere.size.x)
    flat = contact(height <= margin + sphere.size.x, position, frame_of(-up), distance)
    return (where(cap, flat, rounded),)


def nearest_of_capsules(first: Geom, second: Geom) -> tuple[Vec3, Vec3, Scalar]:
    """The nearest points of the lines within two capsules; True if they are parallel: the points are then undefined."""
    half1, half2, axis1, axis2 = first.size.y, second.size.y, first.axis, second.axis
    offset = second.position - first.position
    # By cross products, since aa * bb - ab * ab would cancel for small angles.
    normal = axis1.cross(axis2)
    sine2 = normal.dot(normal)
    parallel = sine2 <= PARALLEL_SINE_SQUARED
    scale = 1 / jnp.where(parallel, 1.0, sine2)
    x1, x2 = offset.cross(axis2).dot(normal) * scale, offset.cross(axis1).dot(normal) * scale
    clipped = clip(x1, half1)
    x2 = jnp.where(jnp.abs(x1) > half1, (axis1 * clipped - offset).dot(axis2), x2)
    end2 = clip(x2, half2)
    x1 = jnp.where(jnp.abs(x2) > half2, clip((offset + axis2 * end2).dot(axis1), half1), clipped)
    return first.position + axis1 * x1, second.position + axis2 * end2, parallel


def capsule_capsule(first: Geom, second: Geom, margin: Scalar) -> tuple[Contact, ...]:
    """The nearest balls of both; for parallel capsules, the balls at both ends of the stretch along which they overlap.

    Where parallel capsules do not overlap, both points are the same.
    """
    half1, half2, axis1, axis2 = first.size.y, second.size.y, first.axis, second.axis
    offset = second.position - first.position
    aside = across(first, second)

    def at(x1: Scalar, x2: Scalar) -> Contact:
        a, b = first.position + axis1 * x1, second.position + axis2 * x2
        return balls(a, first.size.x, b, second.size.x, aside, margin)

    def on_first(x2: Scalar) -> Scalar:
        return (offset + axis2 * x2).dot(axis1)

    def on_second(x1: Scalar) -> Scalar:
        return (axis1 * x1 - offset).dot(axis2)

    a, b, parallel = nearest_of_capsules(first, second)
    nearest = balls(a, first.size.x, b, second.size.x, aside, margin)

    along = jnp.where(axis1.dot(axis2) < 0, -half2, half2)
    ends = []
    for end2 in (-along, along):
        place = on_first(end2)
        end1 = clip(place, half1)
        ends.append(at(end1, jnp.where(jnp.abs(place) > half1, clip(on_second(end1), half2), end2)))
    low, high = ends
    return where(parallel, low, nearest), contact(parallel & high.active, high.position, high.frame, high.distance)

"""Spheres and capsules against each other, and a sphere against a cylinder.

Sources: mjraw_SphereSphere, mjraw_SphereCapsule, mjc_SphereCylinder and mjraw_CapsuleCapsule of MuJoCo.
"""

import jax.numpy as jnp

from kinetree.spatial import Scalar, Vec3

from .shapes import MIN_VALUE, Contact, Geom, clip, contact, frame_of, take_first, unit, where


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


def capsule_capsule(first: Geom, second: Geom, margin: Scalar) -> tuple[Contact, ...]:
    """The nearest balls of both; for parallel capsules, the first two contacts of an end ball with the other capsule."""
    one, two = first.axis * first.size.y, second.axis * second.size.y
    offset = first.position - second.position
    aside = across(first, second)

    def at(x1: Scalar, x2: Scalar) -> Contact:
        a, b = first.position + one * x1, second.position + two * x2
        return balls(a, first.size.x, b, second.size.x, aside, margin)

    # Of |offset + one x1 - two x2| the squared minimum: [[aa, ab], [ab, bb]] [x1, x2] = [u, v].
    aa, ab, bb = one.dot(one), -one.dot(two), two.dot(two)
    u, v = -one.dot(offset), two.dot(offset)
    det = aa * bb - ab * ab
    rounding = 4 * jnp.finfo(jnp.result_type(det)).eps
    parallel = jnp.abs(det) < jnp.maximum(MIN_VALUE, rounding * aa * bb)
    safe = jnp.where(parallel, 1.0, det)
    per_aa, per_bb = (1 / jnp.where(c > 0, c, 1.0) for c in (aa, bb))

    x1, x2 = (bb * u - ab * v) / safe, (aa * v - ab * u) / safe
    x2 = jnp.where(x1 > 1, (v - ab) * per_bb, jnp.where(x1 < -1, (v + ab) * per_bb, x2))
    x1 = clip(x1, 1.0)
    x1 = jnp.where(x2 > 1, clip((u - ab) * per_aa, 1.0), jnp.where(x2 < -1, clip((u + ab) * per_aa, 1.0), x1))
    nearest = at(x1, clip(x2, 1.0))

    ends = [
        at(jnp.ones_like(det), clip((v - ab) * per_bb, 1.0)),
        at(-jnp.ones_like(det), clip((v + ab) * per_bb, 1.0)),
        at(clip((u - ab) * per_aa, 1.0), jnp.ones_like(det)),
        at(clip((u + ab) * per_aa, 1.0), -jnp.ones_like(det)),
    ]
    (_, pair1), (found2, pair2) = take_first(2, [end.active for end in ends], ends)
    return where(parallel, pair1, nearest), contact(parallel & found2, pair2.position, pair2.frame, pair2.distance)

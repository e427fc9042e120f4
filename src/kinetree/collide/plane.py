"""A plane against every other shape. The plane's normal is its z axis; the normal of every contact is the plane's.

Sources: mjc_PlaneSphere, mjc_PlaneCapsule, mjc_PlaneCylinder, mjc_PlaneBox and mjc_PlaneConvex of MuJoCo.
"""

import math

import jax
import jax.numpy as jnp

from kinetree.spatial import Scalar, Vec3

from .hull import climb, corner
from .shapes import MIN_VALUE, Contact, Geom, contact, frame_of, take_first, unit, where

HULL_POINTS = 3  # MuJoCo's maxplanemesh: the lowest corner and two of its neighbours
HULL_POINT_SPACING = 0.3  # MuJoCo's tolplanemesh: further points of a hull are this part of its radius from the first


def _point(plane: Geom, active: Scalar, point: Vec3, distance: Scalar) -> Contact:
    """The contact of a surface point at a distance above the plane: halfway between both."""
    normal = plane.axis
    return contact(active, point - normal * (distance / 2), frame_of(normal), distance)


def plane_sphere(plane: Geom, sphere: Geom, margin: Scalar) -> tuple[Contact, ...]:
    """The lowest point of the sphere."""
    normal, radius = plane.axis, sphere.size.x
    height = (sphere.position - plane.position).dot(normal)
    return (_point(plane, height <= margin + radius, sphere.position - normal * radius, height - radius),)


def plane_capsule(plane: Geom, capsule: Geom, margin: Scalar) -> tuple[Contact, ...]:
    """The lowest points of both ends. The first tangent is along the capsule."""
    segment = capsule.axis * capsule.size.y
    frame = frame_of(plane.axis, capsule.axis)
    ends = (capsule.position + segment, capsule.position - segment)
    return tuple(
        point._replace(frame=frame) for end in ends for point in plane_sphere(plane, capsule._replace(position=end), margin)
    )


def plane_ellipsoid(plane: Geom, ellipsoid: Geom, margin: Scalar) -> tuple[Contact, ...]:
    """The lowest point of the ellipsoid."""
    size = ellipsoid.size
    down = ellipsoid.rotation.t_mul(-plane.axis)
    on_sphere, _ = unit(Vec3(down.x * size.x, down.y * size.y, down.z * size.z))
    local = Vec3(on_sphere.x * size.x, on_sphere.y * size.y, on_sphere.z * size.z)
    point = ellipsoid.rotation @ local + ellipsoid.position
    distance = (point - plane.position).dot(plane.axis)
    return (_point(plane, distance <= margin, point, distance),)


def plane_cylinder(plane: Geom, cylinder: Geom, margin: Scalar) -> tuple[Contact, ...]:
    """The lowest point of the lower rim and the one of the upper rim, and two more points of the lower rim.

    The points of the lower rim are the corners of an equilateral triangle.
    """
    normal, radius, half = plane.axis, cylinder.size.x, cylinder.size.y
    axis = cylinder.axis
    along = normal.dot(axis)
    axis, along = where(along > 0, (-axis, -along), (axis, along))  # from the centre to the lower rim
    height = (cylinder.position - plane.position).dot(normal)

    lowest = axis * along - normal  # within the disk, downwards
    squared = lowest.dot(lowest)
    flat = squared < MIN_VALUE * MIN_VALUE
    scale = radius / jnp.sqrt(jnp.where(flat, 1.0, squared))
    lowest = where(flat, cylinder.rotation.T.rows[0] * radius, lowest * scale)
    drop, reach, along = lowest.dot(normal), axis * half, along * half
    sideways = unit(lowest.cross(reach))[0] * (radius * (math.sqrt(3) / 2))

    centre = cylinder.position
    near, far, aside = height + along + drop, height - along + drop, height + along - drop / 2
    touches = near <= margin
    both = touches & (aside <= margin)
    return (
        _point(plane, touches, centre + lowest + reach, near),
        _point(plane, touches & (far <= margin), centre + lowest - reach, far),
        _point(plane, both, centre + sideways + reach - lowest * 0.5, aside),
        _point(plane, both, centre - sideways + reach - lowest * 0.5, aside),
    )


def plane_box(plane: Geom, box: Geom, margin: Scalar) -> tuple[Contact, ...]:
    """The first four corners below the box's centre that touch, the x coordinate of a corner changing fastest."""
    normal = plane.axis
    height = (box.position - plane.position).dot(normal)
    x, y, z = (side * half for side, half in zip(box.rotation.T.rows, box.size, strict=True))
    corners = [x * i + y * j + z * k for k in (-1, 1) for j in (-1, 1) for i in (-1, 1)]
    drops = [normal.dot(c) for c in corners]
    flags = [(height + drop <= margin) & (drop <= 0) for drop in drops]
    found = take_first(4, flags, list(zip(corners, drops, strict=True)))
    return tuple(_point(plane, flag, box.position + c, height + drop) for flag, (c, drop) in found)


def plane_hull(plane: Geom, mesh: Geom, margin: Scalar) -> tuple[Contact, ...]:
    """The lowest corner, and the first two of its neighbours that touch and are not too close to it."""
    hull = mesh.hull
    assert hull is not None
    normal = plane.axis
    down = mesh.rotation.t_mul(-normal)
    shape = jnp.broadcast_shapes(*(jnp.shape(c) for c in (*down, *mesh.position, *plane.position)))
    best = climb(hull, Vec3(*(jnp.broadcast_to(c, shape) for c in down)), 0)

    def placed(number: Scalar) -> tuple[Vec3, Scalar]:
        point = mesh.rotation @ corner(hull, number) + mesh.position
        return point, (point - plane.position).dot(normal)

    point, distance = placed(best)
    touches = distance <= margin
    first = _point(plane, touches, point, distance)
    around = jnp.asarray(hull.neighbours)[best]  # of shape (..., k)
    flags = touches[..., None] & (around != best[..., None]) & _further(plane, mesh, first.position, around, margin)
    count = jnp.cumsum(flags.astype(jnp.int32), -1)
    points = [first]
    for nth in range(1, HULL_POINTS):
        hits = flags & (count == nth)
        number = jnp.take_along_axis(around, jnp.argmax(hits, -1)[..., None], -1)[..., 0]
        points.append(_point(plane, jnp.any(hits, -1), *placed(number)))
    return tuple(points)


def _further(plane: Geom, mesh: Geom, first: Vec3, around: Scalar, margin: Scalar) -> Scalar:
    """Which of several corners of each lane touch, and are not too close to the first point."""
    hull = mesh.hull
    assert hull is not None
    plane, mesh, first, margin = jax.lax.stop_gradient((plane, mesh, first, margin))
    hull = jax.lax.stop_gradient(hull)
    axis, position, rotation, first, margin = jax.tree.map(
        lambda x: jnp.asarray(x)[..., None], (plane.axis, mesh.position, mesh.rotation, first, margin)
    )
    local = corner(hull, around)
    apart = rotation @ local + position - first
    offset = jax.tree.map(lambda a, b: a - jnp.asarray(b)[..., None], position, plane.position)
    low = local.dot(rotation.t_mul(-axis)) > offset.dot(axis) - margin
    return low & (jnp.sqrt(apart.dot(apart)) >= HULL_POINT_SPACING * hull.radius)

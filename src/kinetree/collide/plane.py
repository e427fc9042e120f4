"""A plane against every other shape. The plane's normal is its z axis; the normal of every contact is the plane's.

Sources: mjc_PlaneSphere, mjc_PlaneCapsule, mjc_PlaneCylinder and mjc_PlaneBox of MuJoCo. Its rule for meshes is newer
than these sources, and was found by trials with MuJoCo 4.0.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp

from kinetree.lanes.program.alone import counted
from kinetree.spatial import Scalar, Vec3

from .pool import NOBODY, Corners
from .shapes import MIN_VALUE, Contact, Geom, contact, frame_of, take_first, unit, where

HULL_POINTS = 4


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
        point._replace(frame=frame)
        for end in ends
        for point in plane_sphere(plane, capsule._replace(position=end), margin)
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
    """The lowest corner, and three corners of that of its faces which is most parallel to the plane.

    Of these, the ones count that are not above the origin of the mesh.
    """
    mesh = mesh.with_hulls()
    pool, loose, plane = mesh.hull, mesh._replace(hull=None), plane._replace(hull=None, which=None)

    def alone(plane: Geom, loose: Geom, margin: Scalar) -> tuple[Contact, ...]:
        return _one_hull(plane, loose._replace(hull=pool), margin)

    shape = jnp.broadcast_shapes(*(jnp.shape(x) for x in jax.tree.leaves((plane, loose, margin))))
    if shape == ():
        return alone(plane, loose, margin)
    margin = jnp.asarray(margin, jnp.result_type(mesh.position.x))
    lanes = jax.tree.map(lambda x: jnp.broadcast_to(x, shape).reshape(-1), (plane, loose, margin))
    return jax.tree.map(lambda x: x.reshape(shape), jax.vmap(alone)(*lanes))


def _one_hull(plane: Geom, mesh: Geom, margin: Scalar) -> tuple[Contact, ...]:
    """Contact points of a plane and a hull, in one lane."""
    hull = Corners(mesh.hull, mesh.which)
    normal = plane.axis
    down = mesh.rotation.t_mul(-normal)
    height = (mesh.position - plane.position).dot(normal)
    search = hull.search
    found = search.farthest(down)
    near = (mesh.rotation @ hull.corner(found.number)).dot(normal) + height <= margin
    lowest = search.chosen(down, found._replace(tied=found.tied & near))
    place, width = hull.faces_at(lowest)
    along = jax.lax.stop_gradient(down)

    def flatter(k: Any, best: tuple[Scalar, Any]) -> tuple[Scalar, Any]:
        face = hull.number(place + k)
        flatness = along.dot(hull.normal(jnp.maximum(face, 0)))
        return where((face != NOBODY) & (flatness > best[0]), (flatness, k), best)

    nothing = jnp.full_like(height, -jnp.inf), jnp.zeros_like(lowest)
    _, face = jax.lax.stop_gradient(counted(width, flatter, nothing))
    points: list[Contact] = []
    for number in (lowest, *hull.wide(lowest, face)):
        local = mesh.rotation @ hull.corner(number)
        drop = local.dot(normal)
        active = height + drop <= margin
        if points:
            active = active & points[0].active & (drop <= 0) & (number != lowest)
        points.append(_point(plane, active, local + mesh.position, height + drop))
    return tuple(points)

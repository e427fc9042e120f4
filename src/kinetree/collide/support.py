"""The point of a convex shape that is farthest along a direction.

A sphere counts as its centre and a capsule as its segment, each with a radius around it: what is computed for these
cores is exact, and the radius is added afterwards. An ellipsoid is split in the same way: a ball with its least radius
of curvature can roll everywhere inside it (Blaschke 1916), so the ellipsoid is a smaller convex core and that ball.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any

import jax.numpy as jnp

from kinetree._arrays import library
from kinetree.spatial import Scalar, Vec3

from .pool import Corners
from .shapes import MIN_VALUE, Geom, ratio, unit, where

Support = Callable[[Geom, Vec3, Any], Vec3]  # of a direction and the farthest corner, in the shape's own frame


def _towards(c: Scalar, size: Scalar) -> Scalar:
    return jnp.where(c >= 0, size, -size)


def _sphere(geom: Geom, d: Vec3, corner: Any) -> Vec3:
    return Vec3.zero_like(d.x)


def _capsule(geom: Geom, d: Vec3, corner: Any) -> Vec3:
    zero = jnp.zeros_like(d.x)
    return Vec3(zero, zero, _towards(d.z, geom.size.y))


def _ellipsoid(geom: Geom, d: Vec3, corner: Any) -> Vec3:
    size = geom.size
    on_sphere, _ = unit(Vec3(d.x * size.x, d.y * size.y, d.z * size.z))
    return Vec3(*(c * s for c, s in zip(on_sphere, size, strict=True))) - d * _least_curved(size)


def _least_curved(size: Vec3) -> Scalar:
    """The least radius of curvature of an ellipsoid."""
    least, most = (reduce(f, size) for f in (jnp.minimum, jnp.maximum))
    return least * ratio(least, most)


def _cylinder(geom: Geom, d: Vec3, corner: Any) -> Vec3:
    squared = d.x * d.x + d.y * d.y
    along = squared < MIN_VALUE * MIN_VALUE
    scale = jnp.where(along, 0.0, geom.size.x / jnp.sqrt(jnp.where(along, 1.0, squared)))
    return Vec3(d.x * scale, d.y * scale, _towards(d.z, geom.size.y))


def _box(geom: Geom, d: Vec3, corner: Any) -> Vec3:
    return Vec3(*(_towards(c, s) for c, s in zip(d, geom.size, strict=True)))


def _mesh(geom: Geom, d: Vec3, corner: Any) -> Vec3:
    return corner


def _prism(geom: Geom, d: Vec3, corner: Any) -> Vec3:
    best, far = geom.corners[0], geom.corners[0].dot(d)
    for p in geom.corners[1:]:
        height = p.dot(d)
        best, far = where(height > far, (p, height), (best, far))
    return best


SUPPORTS: dict[str, Support] = {
    "sphere": _sphere,
    "capsule": _capsule,
    "ellipsoid": _ellipsoid,
    "cylinder": _cylinder,
    "box": _box,
    "mesh": _mesh,
    "prism": _prism,
}


def core_radius(kind: str, geom: Geom) -> Scalar:
    """How far the surface is from the core."""
    if kind == "ellipsoid":
        return _least_curved(geom.size)
    return geom.size.x if kind in ("sphere", "capsule") else jnp.zeros_like(geom.size.x)


def core_box(kind: str, geom: Geom) -> tuple[Vec3, Vec3]:
    """A box along a shape's axes that holds its core: the middle, and half of the sides."""
    if kind == "mesh":
        return Corners(geom.hull, geom.which).box
    size, zero = geom.size, jnp.zeros_like(geom.size.x)
    half = {
        "sphere": Vec3(zero, zero, zero),
        "capsule": Vec3(zero, zero, size.y),
        "cylinder": Vec3(size.x, size.x, size.y),
        "ellipsoid": Vec3(*(s - core_radius(kind, geom) for s in size)),
    }
    return Vec3(zero, zero, zero), half.get(kind, size)


def bounding_radius(kind: str, geom: Geom) -> Scalar:
    """The radius of a ball about a shape's centre that holds it."""
    if kind == "mesh":
        return Corners(geom.hull, geom.which).radius
    if kind == "prism":
        return jnp.sqrt(reduce(jnp.maximum, (p.dot(p) for p in geom.corners)))
    return radius_of_size(kind, geom.size)


def radius_of_size(kind: str, size: Vec3) -> Scalar:
    """The radius for kinds that their size describes; NumPy's numbers stay NumPy's."""
    xp = library(size)
    if kind == "sphere":
        return size.x
    if kind == "capsule":
        return size.x + size.y
    if kind == "cylinder":
        return xp.sqrt(size.x * size.x + size.y * size.y)
    return xp.maximum(xp.maximum(size.x, size.y), size.z) if kind == "ellipsoid" else xp.sqrt(size.dot(size))


def support(kind: str, geom: Geom, direction: Vec3, corner: Any) -> Vec3:
    """The farthest point of a shape's core along a unit vector of the world, in the world. One lane at a time.

    Of a mesh it is a corner that is known.
    """
    return geom.rotation @ SUPPORTS[kind](geom, geom.rotation.t_mul(direction), corner) + geom.position

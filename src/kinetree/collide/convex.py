"""Any two convex shapes: distance by GJK where their cores are apart, depth by EPA where they overlap.

MuJoCo does the same and stops within 1e-6 (ccd_tolerance); we go on to about 1e-10. For hulls, boxes, capsules and
spheres both are exact. Gradients see the deepest points as fixed to their shapes and the normal as constant: the
gradient of the distance is exact, that of the position leaves out how the points slide.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from kinetree.spatial import Scalar, Vec3

from .epa import norm, penetration, polished
from .gjk import nearest_points
from .shapes import Contact, Geom, contact, frame_of
from .support import core_radius, support


def _search(kind1: str, kind2: str, first: Geom, second: Geom, start: Vec3) -> tuple[Scalar, Scalar, Scalar]:
    """Normal and the nearest or deepest points of two cores, each (3,), for one lane."""

    def farthest(direction: Scalar) -> tuple[Scalar, Scalar]:
        d = Vec3.from_array(direction)
        return support(kind1, first, d).array(), support(kind2, second, -d).array()

    near = nearest_points(farthest, farthest(start.array()))
    deep = penetration(farthest, start.array(), near.overlap)
    if "ellipsoid" in (kind1, kind2):
        deep = polished(farthest, deep)
    gap = near.second - near.first
    length = norm(gap)
    apart = gap / jnp.where(length > 0, length, 1.0)
    return jax.tree.map(
        lambda d, n: jnp.where(near.overlap, d, n),
        (deep.normal, deep.first, deep.second),
        (apart, near.first, near.second),
    )


def convex(kind1: str, kind2: str) -> Callable[[Geom, Geom, Scalar], tuple[Contact, ...]]:
    """The collider of two kinds: one point."""

    def collide(first: Geom, second: Geom, margin: Scalar) -> tuple[Contact, ...]:
        hulls = first.hull, second.hull
        loose = first._replace(hull=None), second._replace(hull=None)
        shape = jnp.broadcast_shapes(*(jnp.shape(x) for x in jax.tree.leaves((loose, margin))))
        lanes = jax.tree.map(lambda x: jnp.broadcast_to(x, shape).reshape(-1), loose)

        def one(a: Geom, b: Geom) -> tuple[Scalar, Scalar, Scalar]:
            centres = b.position - a.position
            apart = centres.dot(centres) > 0
            start = Vec3(*(jnp.where(apart, c, o) for c, o in zip(centres, (1.0, 0.0, 0.0), strict=True)))
            start = start * (1 / jnp.sqrt(start.dot(start)))
            return _search(kind1, kind2, a._replace(hull=hulls[0]), b._replace(hull=hulls[1]), start)

        found = jax.vmap(one)(*jax.lax.stop_gradient(lanes))
        normal, x1, x2 = (Vec3(*(c.reshape(shape) for c in v.T)) for v in jax.lax.stop_gradient(found))

        def carried(geom: Geom, point: Vec3) -> Vec3:
            """A point that moves with its shape."""
            fixed = jax.lax.stop_gradient(geom.rotation).t_mul(point - jax.lax.stop_gradient(geom.position))
            return geom.rotation @ fixed + geom.position

        x1, x2 = carried(loose[0], x1), carried(loose[1], x2)
        radius1, radius2 = core_radius(kind1, loose[0]), core_radius(kind2, loose[1])
        distance = (x2 - x1).dot(normal) - radius1 - radius2
        position = (x1 + normal * radius1 + x2 - normal * radius2) * 0.5
        return (contact(distance <= margin, position, frame_of(normal), distance),)

    return collide

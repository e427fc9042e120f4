"""Any two convex shapes: distance by GJK where their cores are apart, depth by EPA where they overlap.

MuJoCo does the same and stops within 1e-6 (ccd_tolerance); we go on to about 1e-10. For hulls, boxes, capsules and
spheres both are exact. Where a face of one lies against the other there are several points (clip.py). Gradients see
the points as fixed to their shapes and the normal as constant: the gradient of the distance is exact, that of the
position leaves out how the points slide. Most pairs are far apart: only those whose bounding spheres meet are searched,
and only those that overlap, or touch, go on (compact.py).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from kinetree.spatial import Scalar, Vec3

from .clip import POINTS, Points, several_points
from .compact import compacted
from .epa import penetration, polished
from .gjk import nearest_points
from .shapes import Contact, Geom, contact, frame_of
from .solids import feature, support_corner
from .support import bounding_radius, core_radius, support

FACES = ("cylinder", "box", "mesh")  # These have flat faces, or lines, and may touch in several points.


def _start(a: Geom, b: Geom) -> Any:
    """A unit vector (3,) from one centre to the other."""
    centres = b.position - a.position
    apart = centres.dot(centres) > 0
    start = Vec3(*(jnp.where(apart, c, o) for c, o in zip(centres, (1.0, 0.0, 0.0), strict=True)))
    return (start * (1 / jnp.sqrt(start.dot(start)))).array()


def _ends(kind1: str, kind2: str, a: Geom, b: Geom) -> Callable[[Any], tuple[Any, Any, Any]]:
    """The farthest points of two cores along a direction and against it, and the numbers of their corners."""

    def ends(direction: Any) -> tuple[Any, Any, Any]:
        d = Vec3.from_array(direction)
        corners = [support_corner(k, g, g.rotation.t_mul(e)) for k, g, e in ((kind1, a, d), (kind2, b, -d))]
        return support(kind1, a, d).array(), support(kind2, b, -d).array(), jnp.stack(corners)

    return ends


def _with_hull(geom: Geom, hull: Any) -> Geom:
    return geom._replace(hull=hull)


def _search(
    kinds: tuple[str, str], hulls: Any, lanes: tuple[Geom, Geom], reach: Any, points: int
) -> tuple[Any, Points]:
    """Whether shapes touch, (n,), and where: up to `points` points in every lane; at least one where they do."""
    whole = [g._replace(hull=h) for g, h in zip(lanes, hulls, strict=True)]
    radii = [bounding_radius(k, g) for k, g in zip(kinds, whole, strict=True)]
    cores = [core_radius(k, g) for k, g in zip(kinds, lanes, strict=True)]
    away = lanes[1].position - lanes[0].position
    near = away.dot(away) <= (radii[0] + radii[1] + reach) ** 2

    def apart(a: Geom, b: Geom, far: Any) -> tuple[Any, ...]:
        ends = _ends(*kinds, a._replace(hull=hulls[0]), b._replace(hull=hulls[1]))
        return tuple(nearest_points(lambda d: ends(d)[:2], ends(_start(a, b))[:2], far))

    x1, x2, overlap = compacted(apart, near, *lanes, reach + cores[0] + cores[1])

    def deep(a: Geom, b: Geom) -> tuple[Any, ...]:
        a, b = a._replace(hull=hulls[0]), b._replace(hull=hulls[1])
        ends = _ends(*kinds, a, b)
        found = penetration(ends, _start(a, b), jnp.array(True))
        found = polished(ends, found) if "ellipsoid" in kinds else found
        return found.normal, found.first, found.second, found.corners

    inside, y1, y2, corners = compacted(deep, near & overlap, *lanes)
    gap = x2 - x1
    length = jnp.sqrt(jnp.sum(gap * gap, -1, keepdims=True))
    normal = jnp.where(overlap[:, None], inside, gap / jnp.where(length > 0, length, 1.0))
    first = jnp.where(overlap[:, None], y1, x1) + cores[0][:, None] * normal
    second = jnp.where(overlap[:, None], y2, x2) - cores[1][:, None] * normal
    touches = near & (jnp.sum((second - first) * normal, -1) <= reach)
    one = Points(normal, first[:, None], second[:, None], touches.astype(jnp.int32))
    if points == 1:
        return touches, one

    def flat(a: Geom, b: Geom, n: Any, corners: Any, overlap: Any, core: Any, reach: Any) -> Points:
        a, b = a._replace(hull=hulls[0]), b._replace(hull=hulls[1])
        there = jnp.where(overlap, corners, _ends(*kinds, a, b)(n)[2])
        f1, f2 = feature(kinds[0], a, there[:, 0], n, overlap), feature(kinds[1], b, there[:, 1], -n, overlap)
        return several_points(f1, f2, core, jnp.maximum(reach, 0), jnp.array(True))

    some = compacted(flat, touches, *lanes, normal, corners, overlap, cores[0], reach)

    def choose(a: Any, b: Any) -> Any:
        return jnp.where((some.count > 0).reshape(-1, *(1,) * (a.ndim - 1)), a, b)

    return touches, Points(*map(choose, some, one._replace(count=jnp.ones_like(some.count))))


def points_of(kind1: str, kind2: str, single: bool = False) -> int:
    """How many there may be."""
    may = {kind1, kind2} & set(FACES) and {kind1, kind2} <= {"capsule", *FACES}
    return 1 if single or not may else 2 if "capsule" in (kind1, kind2) else POINTS


def convex(kind1: str, kind2: str, single: bool = False) -> Callable[[Geom, Geom, Scalar], tuple[Contact, ...]]:
    """The collider of two kinds; `single` leaves one point, as MuJoCo's flag multiccd does where it is off."""

    def collide(first: Geom, second: Geom, margin: Scalar) -> tuple[Contact, ...]:
        first, second = first.with_hulls(), second.with_hulls()
        hulls = first.hull, second.hull
        loose = first._replace(hull=None), second._replace(hull=None)
        shape = jnp.broadcast_shapes(*(jnp.shape(x) for x in jax.tree.leaves((loose, margin))))
        dtype = jnp.result_type(first.position.x)
        flat = jax.tree.map(lambda x: jnp.broadcast_to(x, shape).reshape(-1), (loose, jnp.asarray(margin, dtype)))
        lanes, reach = jax.lax.stop_gradient(flat)
        count = points_of(kind1, kind2, single)
        touches, found = jax.lax.stop_gradient(_search((kind1, kind2), hulls, lanes, reach, count))

        def carried(geom: Geom, point: Vec3) -> Vec3:
            """A point that moves with its shape."""
            fixed = jax.lax.stop_gradient(geom.rotation).t_mul(point - jax.lax.stop_gradient(geom.position))
            return geom.rotation @ fixed + geom.position

        made = []
        normal = _components(found.normal, shape)
        for k in range(count):
            x1, x2 = (carried(g, _components(x[:, k], shape)) for g, x in zip(loose, found[1:3], strict=True))
            active = (touches & (k < found.count)).reshape(shape)
            made.append(contact(active, (x1 + x2) * 0.5, frame_of(normal), (x2 - x1).dot(normal)))
        return tuple(made)

    return collide


def _components(v: Any, shape: tuple[int, ...]) -> Vec3:
    return Vec3(*(c.reshape(shape) for c in v.T))

"""The zones of touch sensors: tests if a ray meets a shape. Rays that start inside always do."""

import jax.numpy as jnp

from kinetree.collide.shapes import MIN_VALUE
from kinetree.spatial import Quaternion, Scalar, Vec3

FAR = 1e30


def _along(p: Scalar, d: Scalar, half: Scalar) -> tuple[Scalar, Scalar]:
    """The interval of t in which p + t d is within ± half."""
    flat = jnp.abs(d) < MIN_VALUE
    a, b = (-half - p) / jnp.where(flat, 1.0, d), (half - p) / jnp.where(flat, 1.0, d)
    inside = jnp.abs(p) <= half
    low, high = jnp.where(inside, -FAR, FAR), jnp.where(inside, FAR, -FAR)
    return jnp.where(flat, low, jnp.minimum(a, b)), jnp.where(flat, high, jnp.maximum(a, b))


def _round(p: tuple[Scalar, ...], d: tuple[Scalar, ...], radius: Scalar) -> tuple[Scalar, Scalar]:
    """The interval of t in which |p + t d| ≤ radius; its ends are in reverse order if it is empty."""
    a, b, c = (sum(x * y for x, y in zip(u, v, strict=True)) for u, v in ((d, d), (p, d), (p, p)))
    flat = a < 1e-30
    square = b * b - a * (c - radius * radius)
    root = jnp.sqrt(jnp.maximum(square, 0.0))
    scale = 1 / jnp.where(flat, 1.0, a)
    within = c <= radius * radius
    low = jnp.where(flat, jnp.where(within, -FAR, FAR), (-b - root) * scale)
    high = jnp.where(flat, jnp.where(within, FAR, -FAR), (-b + root) * scale)
    missed = ~flat & (square < 0)
    return jnp.where(missed, FAR, low), jnp.where(missed, -FAR, high)


def hits(zone: tuple[str, tuple[float, ...]], place: Vec3, turn: Quaternion, start: Vec3, ray: Vec3) -> Scalar:
    """True if rays, which start somewhere, meet a shape at a place; elementwise."""
    kind, size = zone
    p, d = turn.to_child(start - place), turn.to_child(ray)
    if kind == "sphere":
        spans = [_round(tuple(p), tuple(d), jnp.asarray(size[0]))]
    elif kind == "ellipsoid":
        near, along = (tuple(x / s for x, s in zip(v, size, strict=True)) for v in (p, d))
        spans = [_round(near, along, jnp.asarray(1.0))]
    elif kind == "box":
        spans = [_meet(*(_along(x, y, jnp.asarray(s)) for x, y, s in zip(p, d, size, strict=True)))]
    else:
        side = _round((p.x, p.y), (d.x, d.y), jnp.asarray(size[0]))
        spans = [_meet(side, _along(p.z, d.z, jnp.asarray(size[1])))]
        if kind == "capsule":
            spans += [_round((p.x, p.y, p.z + e * size[1]), tuple(d), jnp.asarray(size[0])) for e in (-1, 1)]
    found = jnp.zeros_like(p.x, bool)
    for low, high in spans:
        found = found | ((low <= high) & (high >= 0))
    return found


def within(zone: tuple[str, tuple[float, ...]], place: Vec3, turn: Quaternion, point: Vec3) -> Scalar:
    """True if points are inside a shape at a place; elementwise."""
    kind, size = zone
    p = turn.to_child(point - place)
    if kind == "box":
        return (jnp.abs(p.x) <= size[0]) & (jnp.abs(p.y) <= size[1]) & (jnp.abs(p.z) <= size[2])
    if kind == "cylinder":
        return (p.x * p.x + p.y * p.y <= size[0] * size[0]) & (jnp.abs(p.z) <= size[1])
    if kind == "ellipsoid":
        return sum((c / s) * (c / s) for c, s in zip(p, size, strict=True)) <= 1
    along = jnp.clip(p.z, -size[1], size[1]) if kind == "capsule" else jnp.zeros_like(p.z)
    return p.x * p.x + p.y * p.y + (p.z - along) * (p.z - along) <= size[0] * size[0]


def _meet(*spans: tuple[Scalar, Scalar]) -> tuple[Scalar, Scalar]:
    low, high = spans[0]
    for a, b in spans[1:]:
        low, high = jnp.maximum(low, a), jnp.minimum(high, b)
    return low, high

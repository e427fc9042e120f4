"""Flat directions of a shape at a point on a corner, an edge or a face. One lane at a time."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import jax.numpy as jnp

from kinetree.lanes.program.alone import while_loop
from kinetree.spatial import Scalar, Vec3

from .hull import NOBODY
from .pool import Corners
from .shapes import Geom, where
from .solids import CAP_CORNERS, FACE_ALIGNED

FLAT = 1e-5  # cosine of the angle between an edge and the normal up to which the edge of a mesh counts as flat
AT_SIDE = 1e-6  # of a hull's radius, and of a cap's: a point that is nearer to a side or corner is on it


class Flat(NamedTuple):
    """A direction along which a shape is flat, if any."""

    there: Any
    along: Vec3


def listed(flags: Sequence[Any], directions: Sequence[Vec3]) -> tuple[Flat, Flat]:
    """The first two directions whose flags are set."""
    none = Flat(flags[0] & ~flags[0], Vec3.zero_like(directions[0].x))
    first, second = none, none
    for flag, along in zip(flags, directions, strict=True):
        second = where(flag & first.there & ~second.there, Flat(flag, along), second)
        first = where(flag & ~first.there, Flat(flag, along), first)
    return first, second


def spanned_flats(start: Vec3, ends: Sequence[Vec3], out: Vec3) -> tuple[Flat, Flat]:
    """Two directions from the farthest corner to others that are as far."""
    state = _nothing(out)
    for end in ends:
        state = _looked(state, end - start, out)
    return state


def _nothing(out: Vec3) -> tuple[Flat, Flat]:
    none = Flat(out.x != out.x, Vec3.zero_like(out.x))
    return none, none


def _looked(state: tuple[Flat, Flat], e: Vec3, out: Vec3) -> tuple[Flat, Flat]:
    """The same after one more edge, which counts where it is flat and not along the first."""
    first, second = state
    length = jnp.sqrt(e.dot(e))
    flat = (length > 0) & (e.dot(out) > -FLAT * length)
    across = e.cross(first.along)
    apart = across.dot(across) > 1e-12 * e.dot(e) * first.along.dot(first.along)
    second = where(flat & first.there & ~second.there & apart, Flat(flat, e), second)
    return where(flat & ~first.there, Flat(flat, e), first), second


class _Sides(NamedTuple):
    """The sides of a polygon, or edges at a corner, that a point is on: the first of them, and their number."""

    along: Vec3
    count: Any


def _beside(state: _Sides, point: Vec3, start: Vec3, end: Vec3, close: Scalar) -> _Sides:
    """The same after one more side."""
    e, away = end - start, point - start
    square = e.dot(e)
    share = away.dot(e) / jnp.where(square > 0, square, jnp.ones_like(square))
    off = away - e * jnp.minimum(jnp.maximum(share, 0.0), 1.0)
    on = (square > 0) & (off.dot(off) <= close * close)
    return _Sides(where(on & (state.count == 0), e, state.along), state.count + jnp.where(on, 1, 0))


def _on_sides(sides: _Sides, inside: tuple[Flat, Flat]) -> tuple[Flat, Flat]:
    """Flat directions of a point: along the side that it is on, none at a corner, both of the face inside."""
    none = Flat(sides.count < 0, Vec3.zero_like(sides.along.x))
    edge = Flat(sides.count == 1, sides.along), none
    return where(sides.count > 0, (where(sides.count == 1, edge, (none, none))), inside)


class Facet(NamedTuple):
    """A face of a mesh along a direction: flat directions at a point, the cosine, and the normal."""

    flats: tuple[Flat, Flat]
    cosine: Scalar
    normal: Vec3


def facet_of_hull(geom: Geom, out: Vec3, point: Vec3) -> Facet:
    """The face of a mesh that looks most along a direction, and what of it a point is on."""
    hull = Corners(geom.hull, geom.which)
    search = hull.search
    number = search.chosen(out, search.farthest(out))
    corner, close = hull.corner(number), AT_SIDE * hull.radius
    first, width = hull.faces_at(number)

    def best(s: tuple) -> tuple:
        k, face, cosine = s
        own = hull.number(first + k)
        there = own != NOBODY
        new = hull.normal(jnp.where(there, own, 0)).dot(out)
        better = there & (new > cosine)
        return k + 1, jnp.where(better, own, face), jnp.where(better, new, cosine)

    zero = jnp.zeros_like(number)
    start = zero, zero, jnp.full_like(out.x, -1.0)
    _, face, cosine = while_loop(lambda s: s[0] < width, best, start)
    ring, most = hull.ring(face)
    none = _Sides(Vec3.zero_like(out.x), zero)

    def side(s: tuple) -> tuple:
        k, found, state = s
        following = jnp.where((k + 1 < most) & (hull.number(ring + jnp.minimum(k + 1, most - 1)) != NOBODY), k + 1, 0)
        ends = hull.corner(hull.number(ring + k)), hull.corner(hull.number(ring + following))
        return k + 1, found, _beside(state, point, *ends, close)

    def more(s: tuple) -> Any:
        return (s[0] < most) & (hull.number(ring + jnp.minimum(s[0], most - 1)) != NOBODY)

    around = while_loop(more, side, (zero, zero, none))[2]
    place, count = hull.neighbours(number)

    def look(s: tuple) -> tuple:
        k, state, edges = s
        end = hull.corner(hull.number(place + k))
        return k + 1, _looked(state, end - corner, out), _beside(edges, point, corner, end, close)

    start = zero, _nothing(out), none
    _, spanned, edges = while_loop(lambda s: s[0] < count, look, start)
    near = cosine > FACE_ALIGNED
    within = _nothing(out)
    t = hull.corner(hull.number(ring + 1)) - hull.corner(hull.number(ring))
    normal = hull.normal(face)
    inside = Flat(near, t), Flat(near, normal.cross(t))
    of_face = _on_sides(around, inside)
    of_edges = _on_sides(edges, where(spanned[1].there, within, spanned))
    return Facet(where(near, of_face, of_edges), cosine, normal)


class Cap(NamedTuple):
    """The end of a cylinder, a polygon in clip.py: flat directions at a point, and how it moves with the radius."""

    flats: tuple[Flat, Flat]
    size: Vec3


def cap_of_cylinder(size: Vec3, at: Vec3) -> Cap:
    """Of a point of an end, in the frame of the cylinder."""
    part = 2 * math.pi / CAP_CORNERS
    angle = jnp.arctan2(at.y, at.x)
    number = jnp.floor(angle / part)
    r = jnp.sqrt(at.x * at.x + at.y * at.y)
    zero, one = jnp.zeros_like(r), jnp.ones_like(r)
    ends = [
        Vec3(size.x * jnp.cos(part * k), size.x * jnp.sin(part * k), zero)
        for k in (number - 1, number, number + 1, number + 2)
    ]
    here = Vec3(at.x, at.y, zero)
    sides = _Sides(Vec3.zero_like(r), zero)
    for start, end in pairwise(ends):
        sides = _beside(sides, here, start, end, AT_SIDE * size.x)
    always = r == r
    inside = Flat(always, Vec3(one, zero, zero)), Flat(always, Vec3(zero, one, zero))
    return Cap(_on_sides(sides, inside), here * (1 / size.x))

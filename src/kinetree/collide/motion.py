"""How a point of contact moves with its two shapes, from where a search for it ended. One lane at a time.

Near the point each shape is known to second order by how its farthest point a moves with the direction n in which it is
sought, da = W dn, and by flat directions f along which n does not choose: none at a corner, one on an edge, two on a
face. With B moving by (ω, v) at its point against A, at the distance d, and flat directions taken up by t,

    (W_A + W_B + d) dn + f_A t_A − f_B t_B = v + W_B (ω × n),   f_A · dn = 0,   f_B · (dn − ω × n) = 0

in the plane of tangents. Its solution is exact for corners, edges and faces, and for ellipsoids, cylinders and what
is round. Where a face lies against a face or an edge there are several points, cut out by sides of both shapes: the
normal moves with its face, and these points are carried along by both shapes, each by half.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from kinetree.spatial import Scalar, Vec3

from .pool import Corners
from .shapes import Contact, Geom, where

FLAT = 1e-5  # cosine of the angle between an edge and the normal up to which the edge of a mesh counts as flat
ON_FACE = 1 - 1e-12  # cosine of the angle between a normal and that of a face from which they are the same
INSIDE = 1 - 1e-6  # of a size: a point that is nearer to the middle is not at its end
COLUMNS = 12  # how B turns and moves against A, about the point; then the sizes of A and of B
Pair = tuple[Scalar, Scalar]


class Flat(NamedTuple):
    """A direction along which a shape is flat, if any."""

    there: Any
    along: Vec3


class Local(NamedTuple):
    """A shape about its farthest point: W as a function, flat directions, how the point moves with the size."""

    bend: Any  # (direction) -> how the point moves
    flats: tuple[Flat, Flat]
    face: Any  # whether the direction is the normal of a face
    sizes: tuple[Vec3, Vec3, Vec3]


def _zero(like: Scalar) -> Vec3:
    return Vec3.zero_like(like)


def _sign(x: Scalar) -> Scalar:
    return jnp.where(x >= 0, jnp.ones_like(x), -jnp.ones_like(x))


def _listed(flags: Sequence[Any], directions: Sequence[Vec3]) -> tuple[Flat, Flat]:
    """The first two directions whose flags are set."""
    none = Flat(flags[0] & ~flags[0], _zero(directions[0].x))
    first, second = none, none
    for flag, along in zip(flags, directions, strict=True):
        second = where(flag & first.there & ~second.there, Flat(flag, along), second)
        first = where(flag & ~first.there, Flat(flag, along), first)
    return first, second


def _spanned(start: Vec3, ends: Sequence[Vec3], out: Vec3) -> tuple[Flat, Flat]:
    """Two directions from the farthest corner to others that are as far."""
    state = _nothing(out)
    for end in ends:
        state = _looked(state, end - start, out)
    return state


def _nothing(out: Vec3) -> tuple[Flat, Flat]:
    none = Flat(out.x != out.x, _zero(out.x))
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


def _hull(geom: Geom, out: Vec3) -> tuple[Flat, Flat]:
    """Flat edges at the farthest corner of a mesh."""
    hull = Corners(geom.hull, geom.which)
    number = hull.farthest(out)
    place, width = hull.neighbours(number)
    corner = hull.corner(number)

    def look(s: tuple) -> tuple:
        k, state = s
        return k + 1, _looked(state, hull.corner(hull.number(place + k)) - corner, out)

    return jax.lax.while_loop(lambda s: s[0] < width, look, (jnp.zeros_like(number), _nothing(out)))[1]


def local(kind: str, geom: Geom, out: Vec3, point: Vec3) -> Local:
    """A shape where its outward normal is `out`, at a point of its surface; both are in the world."""
    n, size, axes = geom.rotation.t_mul(out), geom.size, geom.rotation.T.rows
    at = geom.rotation.t_mul(point - geom.position)
    none = _zero(n.x)
    never = n.x != n.x
    flats, sizes, bend = (Flat(never, none),) * 2, (none,) * 3, lambda d: _zero(d.x)
    face = never

    def tangential(d: Vec3) -> Vec3:
        return (d - out * out.dot(d)) * size.x

    def turned(flats: tuple[Flat, Flat]) -> tuple[Flat, Flat]:
        return flats[0]._replace(along=geom.rotation @ flats[0].along), flats[1]._replace(
            along=geom.rotation @ flats[1].along
        )

    if kind == "plane":
        flats = _listed([~never, ~never], axes[:2])
    elif kind == "sphere":
        bend, sizes = tangential, (out, none, none)
    elif kind == "capsule":
        flat = jnp.abs(at.z - n.z * size.x) < INSIDE * size.y
        flats = _listed([flat, never], (axes[2], none))
        bend, sizes = tangential, (out, where(flat, none, axes[2] * _sign(n.z)), none)
    elif kind == "ellipsoid":
        scaled = Vec3(*(s * c for s, c in zip(size, n, strict=True)))
        h = jnp.sqrt(scaled.dot(scaled))
        far = Vec3(*(s * c / h for s, c in zip(size, scaled, strict=True)))

        def bend(d: Vec3) -> Vec3:
            e = geom.rotation.t_mul(d)
            along = far.dot(e)
            return geom.rotation @ Vec3(*((s * s * c - f * along) / h for s, c, f in zip(size, e, far, strict=True)))

        sizes = tuple(
            geom.rotation
            @ Vec3(*((2 * scaled[k] / h if i == k else 0.0) - far[i] * scaled[k] * n[k] / (h * h) for i in range(3)))
            for k in range(3)
        )
    elif kind == "cylinder":
        radial = jnp.sqrt(n.x * n.x + n.y * n.y)
        within = INSIDE * size.x
        cap, side = at.x * at.x + at.y * at.y < within * within, jnp.abs(at.z) < INSIDE * size.y
        safe = jnp.where(radial > 0, radial, jnp.ones_like(radial))
        around = geom.rotation @ Vec3(-n.y / safe, n.x / safe, 0 * n.x)
        outward = geom.rotation @ Vec3(n.x / safe, n.y / safe, 0 * n.x)
        scale = jnp.where(cap, jnp.zeros_like(radial), size.x / safe)
        bend = lambda d: around * (scale * around.dot(d))  # noqa: E731
        flats = _listed([cap, cap, side], axes)
        sizes = (where(cap, none, outward), where(side, none, axes[2] * _sign(n.z)), none)
        face = jnp.abs(n.z) > ON_FACE
    elif kind == "box":
        flats = _listed([jnp.abs(c) < INSIDE * s for c, s in zip(at, size, strict=True)], axes)
        sizes = tuple(a * (c / s) for a, c, s in zip(axes, at, size, strict=True))
        face = (jnp.abs(n.x) > ON_FACE) | (jnp.abs(n.y) > ON_FACE) | (jnp.abs(n.z) > ON_FACE)
    elif kind == "mesh":
        flats = turned(_hull(geom, n))
    else:
        heights = [p.dot(n) for p in geom.corners]
        best, height = geom.corners[0], heights[0]
        for p, far in zip(geom.corners[1:], heights[1:], strict=True):
            best, height = where(far > height, (p, far), (best, height))
        flats = turned(_spanned(best, geom.corners, n))
    return Local(bend, flats, face | flats[1].there, sizes)  # type: ignore[arg-type]


def _solved2(m: tuple[Scalar, ...], r: Pair) -> Pair:
    """The solution of two equations; 0 where there is none."""
    a, b, c, d = m
    whole = a * d - b * c
    inverse = 1 / jnp.where(whole != 0, whole, jnp.ones_like(whole))
    return (d * r[0] - b * r[1]) * inverse, (a * r[1] - c * r[0]) * inverse


class _Slot(NamedTuple):
    """A flat direction in the plane of tangents; its sign is 1 for A, −1 for B."""

    there: Any
    x: Scalar
    y: Scalar
    sign: Scalar


def motions(kinds: tuple[str, str], a: Geom, b: Geom, contact: Contact) -> list[tuple[Vec3, Vec3, Scalar]]:
    """How position, normal and distance move with each of COLUMNS changes, seen from A."""
    normal, t1, t2 = contact.frame.rows
    d = jnp.where(contact.active, contact.distance, jnp.zeros_like(contact.distance))
    one, two = contact.position - normal * (d / 2), contact.position + normal * (d / 2)
    A, B = local(kinds[0], a, normal, one), local(kinds[1], b, -normal, two)

    def flat(v: Vec3) -> Pair:
        return v.dot(t1), v.dot(t2)

    def slot(f: Flat, sign: float) -> _Slot:
        return _Slot(f.there, *flat(f.along), jnp.full_like(d, sign))

    a1, a2, b1, b2 = slot(A.flats[0], 1), slot(A.flats[1], 1), slot(B.flats[0], -1), slot(B.flats[1], -1)
    first = where(a1.there, a1, b1)
    second = where(a1.there, where(a2.there, a2, b1), b2)
    crowded = (a2.there & b1.there) | (a1.there & b2.there) | (A.face & ~a2.there) | (B.face & ~b2.there)
    along = [A.bend(t) + B.bend(t) for t in (t1, t2)]
    (m11, m21), (m12, m22) = (flat(x) for x in along)
    m11, m22 = m11 + d, m22 + d
    length2 = first.x * first.x + first.y * first.y
    length = jnp.sqrt(jnp.where(first.there, length2, jnp.ones_like(length2)))
    ux, uy = first.x / length, first.y / length

    def respond(omega: Vec3, v: Vec3, da: Vec3, db: Vec3) -> tuple[Vec3, Vec3, Scalar]:
        turn = omega.cross(normal)
        moved = v + turn * (d / 2)
        r = flat(moved + B.bend(turn) + db - da)
        w = flat(turn)

        def wanted(s: _Slot) -> Scalar:
            return jnp.where(s.sign < 0, s.x * w[0] + s.y * w[1], jnp.zeros_like(d))

        def rest(n: Pair) -> Pair:
            return r[0] - (m11 * n[0] + m12 * n[1]), r[1] - (m21 * n[0] + m22 * n[1])

        free = _solved2((m11, m12, m21, m22), r)
        # One flat direction u: n · u is known, and the equation across it gives the other part.
        known = wanted(first) / length
        left = rest((known * ux, known * uy))
        across = uy * (m11 * uy - m12 * ux) - ux * (m21 * uy - m22 * ux)
        part = (uy * left[0] - ux * left[1]) / jnp.where(across != 0, across, jnp.ones_like(across))
        edge = known * ux + part * uy, known * uy - part * ux
        both = _solved2((first.x, first.y, second.x, second.y), (wanted(first), wanted(second)))
        n = where(second.there, both, where(first.there, edge, free))
        after = rest(n)
        t_edge = (after[0] * ux + after[1] * uy) / length
        t_both = _solved2((first.x, second.x, first.y, second.y), after)
        t = where(second.there, t_both, (jnp.where(first.there, t_edge, jnp.zeros_like(d)), jnp.zeros_like(d)))
        dn = t1 * n[0] + t2 * n[1]
        slides = [_zero(d), _zero(d)]
        for s, amount in ((first, t[0]), (second, t[1])):
            along = (t1 * s.x + t2 * s.y) * jnp.where(s.there, amount, jnp.zeros_like(d))
            slides[0] = where(s.sign > 0, slides[0] + along, slides[0])
            slides[1] = where(s.sign > 0, slides[1], slides[1] - along)
        position = (A.bend(dn) + da + slides[0] + moved + B.bend(turn - dn) + db + slides[1]) * 0.5
        carried = (moved + da + db) * 0.5, where(B.face, turn, _zero(d))
        position, dn = where(crowded, carried, (position, dn))
        return position, dn, normal.dot(moved + db - da)

    zero = _zero(d)
    units = [Vec3(*(jnp.full_like(d, float(i == k)) for i in range(3))) for k in range(3)]
    found = [respond(u, zero, zero, zero) for u in units] + [respond(zero, u, zero, zero) for u in units]
    found += [respond(zero, zero, s, zero) for s in A.sizes]
    return found + [respond(zero, zero, zero, s) for s in B.sizes]

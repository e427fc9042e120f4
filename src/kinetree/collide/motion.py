"""How a point of contact moves with its two shapes, from where a search for it ended. One lane at a time.

Near the point each shape is known to second order by how its farthest point a moves with the direction n in which it is
sought, da = W dn, and by flat directions f, along which n leaves the point open: none at a corner, one on an edge, two
on a face. With B moving by (ω, v) at its point against A, at the distance d, and flat directions taken up by t,

    (W_A + W_B + d) dn + f_A t_A − f_B t_B = v + W_B (ω × n),   f_A · dn = 0,   f_B · (dn − ω × n) = 0

in the plane of tangents. Its solution is exact for corners, edges and faces, and for ellipsoids, cylinders and what
is round. Where the normal is that of a face it moves with that face, dn is known, and only the first equation counts:
flat directions are then those of the corner, edge or face that the point is on, so points that sides cut out of a face
slide along both sides. Of two faces that are not quite parallel (clip.py) the points are cut out along the normal m of
A's face, and the equation is about the point of B's face that is over that of A along m.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

from kinetree.spatial import Scalar, Vec3

from .facets import Flat, cap_of_cylinder, facet_of_hull, listed, spanned_flats
from .shapes import Contact, Geom, where
from .solids import FACE_ALIGNED

ON_FACE = 1e-12  # 1 less the cosine of the angle between a normal and that of a face up to which they are the same
ON_FACE_EPS = 8  # machine epsilons; the same where that is more
INSIDE = 1 - 1e-6  # share of a size; a point nearer to the middle is not at the end
COLUMNS = 12  # how B turns and moves against A, about the point; then the sizes of A and of B
Pair = tuple[Scalar, Scalar]


class Local(NamedTuple):
    """A shape about its farthest point: W as a function, flat directions, how the point moves with the size."""

    bend: Any  # (direction) -> how the point moves
    flats: tuple[Flat, Flat]
    face: Any  # True if the direction is the normal of a face
    sizes: tuple[Vec3, Vec3, Vec3]
    nearly: Any  # True if it is nearly that, so that several points are cut out of the face
    normal: Vec3  # of that face


def _zero(like: Scalar) -> Vec3:
    return Vec3.zero_like(like)


def _sign(x: Scalar) -> Scalar:
    return jnp.where(x >= 0, jnp.ones_like(x), -jnp.ones_like(x))


def local(kind: str, geom: Geom, out: Vec3, point: Vec3, facing: Any) -> Local:
    """A shape where its outward normal is `out`, at a point of its surface; both are in the world.

    `facing`: the other shape has a face there, so that points are cut out of faces.
    """
    n, size, axes = geom.rotation.t_mul(out), geom.size, geom.rotation.T.rows
    at = geom.rotation.t_mul(point - geom.position)
    none = _zero(n.x)
    never = n.x != n.x
    flats, sizes, bend = (Flat(never, none),) * 2, (none,) * 3, lambda d: _zero(d.x)
    face = nearly = never
    normal = out
    same = 1 - max(ON_FACE, ON_FACE_EPS * float(jnp.finfo(jnp.result_type(n.x)).eps))

    def tangential(d: Vec3) -> Vec3:
        return (d - out * out.dot(d)) * size.x

    def turned(flats: tuple[Flat, Flat]) -> tuple[Flat, Flat]:
        return flats[0]._replace(along=geom.rotation @ flats[0].along), flats[1]._replace(
            along=geom.rotation @ flats[1].along
        )

    if kind == "plane":
        flats, nearly = listed([~never, ~never], axes[:2]), ~never
    elif kind == "sphere":
        bend, sizes = tangential, (out, none, none)
    elif kind == "capsule":
        flat = jnp.abs(at.z - n.z * size.x) < INSIDE * size.y
        flats = listed([flat, never], (axes[2], none))
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
        flats = listed([cap, cap, side], axes)
        sizes = (where(cap, none, outward), where(side, none, axes[2] * _sign(n.z)), none)
        face, nearly = jnp.abs(n.z) > same, jnp.abs(n.z) > FACE_ALIGNED
        normal = axes[2] * _sign(n.z)
        cut, polygon = nearly & facing, cap_of_cylinder(size, at)
        flats = where(cut, turned(polygon.flats), flats)
        sizes = (where(cut, geom.rotation @ polygon.size, sizes[0]), where(cut, normal, sizes[1]), none)
        scale = jnp.where(cut, jnp.zeros_like(scale), scale)
    elif kind == "box":
        flats = listed([jnp.abs(c) < INSIDE * s for c, s in zip(at, size, strict=True)], axes)
        sizes = tuple(a * (c / s) for a, c, s in zip(axes, at, size, strict=True))
        most = jnp.maximum(jnp.maximum(jnp.abs(n.x), jnp.abs(n.y)), jnp.abs(n.z))
        face, nearly = most > same, most > FACE_ALIGNED
        for axis, c in zip(axes, n, strict=True):
            normal = where(nearly & (jnp.abs(c) == most), axis * _sign(c), normal)
    elif kind == "mesh":
        facet = facet_of_hull(geom, n, at)
        flats, face, nearly = turned(facet.flats), facet.cosine > same, facet.cosine > FACE_ALIGNED
        normal = geom.rotation @ facet.normal
    else:
        heights = [p.dot(n) for p in geom.corners]
        best, height = geom.corners[0], heights[0]
        for p, far in zip(geom.corners[1:], heights[1:], strict=True):
            best, height = where(far > height, (p, far), (best, height))
        flats = turned(spanned_flats(best, geom.corners, n))
        face = flats[1].there
    face = face if kind in ("box", "mesh", "cylinder") else face | flats[1].there
    return Local(bend, flats, face, sizes, nearly | face, normal)  # type: ignore[arg-type]


def _where_local(mask: Any, one: Local, two: Local) -> Local:
    """Select one of two. Both have the same form, and so have their bends."""
    return where(mask, one._replace(bend=()), two._replace(bend=()))._replace(bend=two.bend)


def _solved2(m: tuple[Scalar, ...], r: Pair) -> Pair:
    """The solution of two equations; 0 where there is none."""
    a, b, c, d = m
    whole = a * d - b * c
    inverse = 1 / jnp.where(whole != 0, whole, jnp.ones_like(whole))
    return (d * r[0] - b * r[1]) * inverse, (a * r[1] - c * r[0]) * inverse


class _Slot(NamedTuple):
    """A flat direction; its sign is 1 for A, −1 for B."""

    there: Any
    along: Vec3
    sign: Scalar


def _pick(a1: _Slot, a2: _Slot, b1: _Slot, b2: _Slot) -> tuple[_Slot, _Slot]:
    """The first two that are there."""
    first = where(a1.there, a1, b1)
    return first, where(a1.there, where(a2.there, a2, b1), b2)


def motions(kinds: tuple[str, str], a: Geom, b: Geom, contact: Contact) -> list[tuple[Vec3, Vec3, Scalar]]:
    """How position, normal and distance move with each of COLUMNS changes, seen from A."""
    normal, t1, t2 = contact.frame.rows
    d = jnp.where(contact.active, contact.distance, jnp.zeros_like(contact.distance))
    one, two = contact.position - normal * (d / 2), contact.position + normal * (d / 2)
    never = d != d
    A, B = local(kinds[0], a, normal, one, never), local(kinds[1], b, -normal, two, never)
    if "cylinder" in kinds:
        facing = A.nearly & B.nearly
        A, B = local(kinds[0], a, normal, one, facing), local(kinds[1], b, -normal, two, facing)
    # Two faces that are nearly parallel: the normal is B's, and points are cut out along A's.
    boxes = kinds == ("box", "box")
    of_a = A.face & (~B.face | boxes)
    cut = A.nearly & B.face & ~of_a & (not boxes)
    m = where(cut, A.normal, normal)
    over = one + m * (d / m.dot(normal))  # of B's face, over the point of A's
    at_b = where(cut, over, two)
    if not boxes:
        B = _where_local(cut, local(kinds[1], b, -normal, over, A.nearly), B)
    s1, s2 = t1 - m * m.dot(t1), t2 - m * m.dot(t2)
    known = A.face | B.face

    def flat(v: Vec3) -> Pair:
        return v.dot(s1), v.dot(s2)

    def slot(f: Flat, sign: float) -> _Slot:
        return _Slot(f.there, f.along, jnp.full_like(d, sign))

    a1, a2, b1, b2 = slot(A.flats[0], 1), slot(A.flats[1], 1), slot(B.flats[0], -1), slot(B.flats[1], -1)
    first, second = _pick(a1, a2, b1, b2)
    crowded = (a2.there & b1.there) | (a1.there & b2.there)
    along = [A.bend(t) + B.bend(t) for t in (t1, t2)]
    (m11, m21), (m12, m22) = (flat(x) for x in along)
    m11, m22 = m11 + d, m22 + d
    (fx, fy), (gx, gy) = flat(first.along), flat(second.along)
    length2 = fx * fx + fy * fy
    length = jnp.sqrt(jnp.where(first.there, length2, jnp.ones_like(length2)))
    ux, uy = fx / length, fy / length

    def respond(omega: Vec3, v: Vec3, da: Vec3, db: Vec3) -> tuple[Vec3, Vec3, Scalar]:
        turn = omega.cross(normal)
        moved = v + omega.cross(at_b - contact.position)
        r = flat(moved + B.bend(turn) + db - da)
        w = flat(turn)

        def wanted(s: _Slot, x: Scalar, y: Scalar) -> Scalar:
            return jnp.where(s.sign < 0, x * w[0] + y * w[1], jnp.zeros_like(d))

        def rest(n: Pair) -> Pair:
            return r[0] - (m11 * n[0] + m12 * n[1]), r[1] - (m21 * n[0] + m22 * n[1])

        free = _solved2((m11, m12, m21, m22), r)
        # One flat direction u: n · u is known, and the equation across it gives the other part.
        part_known = wanted(first, fx, fy) / length
        left = rest((part_known * ux, part_known * uy))
        across = uy * (m11 * uy - m12 * ux) - ux * (m21 * uy - m22 * ux)
        part = (uy * left[0] - ux * left[1]) / jnp.where(across != 0, across, jnp.ones_like(across))
        edge = part_known * ux + part * uy, part_known * uy - part * ux
        both = _solved2((fx, fy, gx, gy), (wanted(first, fx, fy), wanted(second, gx, gy)))
        n = where(second.there, both, where(first.there, edge, free))
        # The normal of a face moves with the face. Along A's face the distance does not depend on the normal.
        n = where(known, where(of_a, (jnp.zeros_like(d), jnp.zeros_like(d)), w), n)
        dn = where(known, where(of_a, _zero(d), turn), t1 * n[0] + t2 * n[1])
        after = where(cut, r, rest(n))
        t_edge = (after[0] * ux + after[1] * uy) / length
        t_both = _solved2((fx, gx, fy, gy), after)
        t = where(second.there, t_both, (jnp.where(first.there, t_edge, jnp.zeros_like(d)), jnp.zeros_like(d)))
        slides = [_zero(d), _zero(d)]
        for s, amount in ((first, t[0]), (second, t[1])):
            slid = s.along * jnp.where(s.there, amount, jnp.zeros_like(d))
            slides[0] = where(s.sign > 0, slides[0] + slid, slides[0])
            slides[1] = where(s.sign > 0, slides[1], slides[1] - slid)
        begin = A.bend(dn) + da + slides[0]
        end = v + omega.cross(two - contact.position) + B.bend(turn - dn) + db + slides[1]
        distance = normal.dot(end - begin)
        position = begin + dn * (d / 2) + normal * (distance / 2)
        carried = (moved + da + db) * 0.5
        return where(crowded, carried, position), dn, where(crowded, normal.dot(moved + db - da), distance)

    zero = _zero(d)
    units = [Vec3(*(jnp.full_like(d, float(i == k)) for i in range(3))) for k in range(3)]
    found = [respond(u, zero, zero, zero) for u in units] + [respond(zero, u, zero, zero) for u in units]
    found += [respond(zero, zero, s, zero) for s in A.sizes]
    return found + [respond(zero, zero, zero, s) for s in B.sizes]

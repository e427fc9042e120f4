"""A box against a box: the axis of least overlap, then the points where a face or a pair of edges touches.

Source: mjc_BoxBox of MuJoCo. Of 15 axes (faces of both boxes, cross products of edges) the one with the largest
separation decides. A face: the opposite face of the other box is clipped by its sides, up to eight points. Edges: one
point halfway between the two edges.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from kinetree.spatial import Mat3, Scalar, Vec3

from .shapes import MIN_VALUE, Contact, Geom, clip, contact, fold, frame_of, unit, where

POINTS = 8
EDGE_BIAS = 1e-6  # An edge must be better than the best face by this part of its separation.
EDGE_ALIGNED = 0.99  # cosine; an edge axis this close to the axis of the best face is given up for the face.
EDGE_GAIN = 0.05  # Such an edge is kept all the same if it is better by this part of the face's depth.


class _Rounding(NamedTuple):
    """Tolerances for each number type (MuJoCo's mjBOXBOX_*EPS)."""

    separation: float  # slack of the tests for separation, per sum of half sizes
    parallel: float  # squared sine below which edges are parallel
    sign: float  # component of an axis below which its sign is ignored
    same: float  # squared distance of two clipped points, per squared size of the face


def _rounding(dtype: jnp.dtype) -> _Rounding:
    return _Rounding(1e-13, 1e-16, 1e-9, 1e-14) if dtype == jnp.float64 else _Rounding(1e-6, 1e-7, 1e-5, 1e-10)


class _Axis(NamedTuple):
    """The best axis so far. `kind` is 0..2 for faces of the first box, 3..5 of the second, 6 + 3 i + j for edges."""

    separation: Scalar
    kind: Scalar
    direction: Vec3  # of an edge axis, in the first box's frame


def _best_axis(a: Vec3, b: Vec3, turn: Mat3, ab: Vec3, ba: Vec3, eps: _Rounding) -> tuple[_Axis, Scalar]:
    """The axis that decides, and the largest separation on any of them."""
    rows, columns = turn.rows, turn.T.rows
    spread = [Vec3(*map(jnp.abs, row)).dot(b) for row in rows] + [Vec3(*map(jnp.abs, c)).dot(a) for c in columns]
    gaps = [*map(jnp.abs, ab), *map(jnp.abs, ba)]
    separations = [g - s - r for g, s, r in zip(gaps, (*a, *b), spread, strict=True)]
    unused = Vec3.zero_like(separations[0])
    face = _Axis(separations[0], jnp.zeros(jnp.shape(separations[0]), jnp.int32), unused)
    for kind, s in enumerate(separations[1:], 1):
        face = where(s > face.separation, _Axis(s, jnp.full_like(face.kind, kind), unused), face)
    pairs = [(i, j) for i in range(3) for j in range(3)]
    units = np.eye(3)
    table = (
        Vec3(*units[[i for i, _ in pairs]].T),
        Vec3(*units[[j for _, j in pairs]].T),
        [6.0 + k for k in range(9)],
    )

    def try_edges(state: tuple[_Axis, Scalar], row: tuple[Vec3, Vec3, Scalar]) -> tuple[_Axis, Scalar]:
        (best, largest), (own, other, kind) = state, row
        axis = own.cross(turn @ other)
        squared = axis.dot(axis)
        usable = squared >= eps.parallel
        axis = axis * (1 / jnp.sqrt(jnp.where(usable, squared, 1.0)))
        radii = Vec3(*map(jnp.abs, axis)).dot(a) + Vec3(*map(jnp.abs, turn.t_mul(axis))).dot(b)
        s = jnp.abs(axis.dot(ab)) - radii
        better = usable & (s - EDGE_BIAS * jnp.abs(s) > best.separation) & (s > face.separation)
        found = _Axis(s, kind.astype(jnp.int32) + 0 * best.kind, axis)
        return where(better, found, best), jnp.where(usable & (s > largest), s, largest)

    best, largest = fold(try_edges, (face, face.separation), table, separations[0])
    normals = [Vec3(*(jnp.full_like(largest, float(k == i)) for k in range(3))) for i in range(3)] + list(columns)
    aligned = jnp.zeros_like(largest)
    for kind, normal in enumerate(normals):
        aligned = jnp.where(face.kind == kind, jnp.abs(best.direction.dot(normal)), aligned)
    gain = face.separation + EDGE_GAIN * jnp.abs(face.separation) + MIN_VALUE
    replaced = (best.kind >= 6) & (aligned > EDGE_ALIGNED) & (best.separation < gain)
    return where(replaced, face, best), largest


def _edges(a: Vec3, b: Vec3, turn: Mat3, ab: Vec3, best: _Axis, eps: _Rounding) -> tuple[Vec3, Vec3, Vec3]:
    """The normal and the two nearest points of the supporting edges, in the first box's frame."""
    axis = where(best.direction.dot(ab) < 0, -best.direction, best.direction)
    other = turn.t_mul(axis)
    kinds = [[best.kind == 6 + 3 * i + j for j in range(3)] for i in range(3)]
    runs1 = [row[0] | row[1] | row[2] for row in kinds]  # the edge of the first box is along its axis i
    runs2 = [kinds[0][j] | kinds[1][j] | kinds[2][j] for j in range(3)]
    zero = jnp.zeros_like(axis.x)
    d1 = Vec3(*(jnp.where(r, 1.0, zero) for r in runs1))
    d2 = Vec3(*(_pick(runs2, row) for row in turn.rows))
    reach1, reach2 = _pick(runs1, a), _pick(runs2, b)
    along = d1.dot(d2)
    sine2 = 1 - along * along

    def ambiguous(component: Vec3, runs: list[Scalar]) -> list[Scalar]:
        """At most one axis, in cyclic order after the edge's own, on which both sides support."""
        tiny = [(jnp.abs(c) < eps.sign) & ~r for c, r in zip(component, runs, strict=True)]
        first = [runs[(k - 1) % 3] & tiny[k] for k in range(3)]
        any_first = first[0] | first[1] | first[2]
        return [first[k] | (runs[(k - 2) % 3] & tiny[k] & ~any_first) for k in range(3)]

    unsure1, unsure2 = ambiguous(axis, runs1), ambiguous(other, runs2)

    def try_corners(state: tuple, flips: tuple[Scalar, Scalar]) -> tuple:
        corner1 = Vec3(*_corner(axis, a, runs1, unsure1, flips[0]))
        corner2 = turn @ -Vec3(*_corner(other, b, runs2, unsure2, flips[1])) + ab
        e = corner2 - corner1
        e1, e2 = d1.dot(e), d2.dot(e)
        s = jnp.where(sine2 < MIN_VALUE, 0.0, (e1 - along * e2) / jnp.where(sine2 < MIN_VALUE, 1.0, sine2))
        t = clip(along * clip(s, reach1) - e2, reach2)
        s = clip(e1 + along * t, reach1)
        p1, p2 = corner1 + d1 * s, corner2 + d2 * t
        gap = (p2 - p1).dot(p2 - p1)
        return where(gap < state[0], (gap, p1, p2), state)

    start = (jnp.full_like(sine2, jnp.inf), axis, axis)
    flips = ([False, False, True, True], [False, True, False, True])
    _, p1, p2 = fold(try_corners, start, flips, sine2)
    return axis, p1, p2


def _pick(flags: list[Scalar], items: tuple) -> Scalar:
    """The item whose flag is set; flags exclude each other."""
    return jnp.where(flags[0], items[0], jnp.where(flags[1], items[1], items[2]))


def _corner(axis: Vec3, size: Vec3, runs: list[Scalar], unsure: list[Scalar], flip: Scalar) -> list[Scalar]:
    """The middle of the edge that supports an axis, from the box's centre. A flip changes the side that is unsure."""
    signs = [jnp.where((c >= 0) ^ (u & flip), 1.0, -1.0) for c, u in zip(axis, unsure, strict=True)]
    return [
        jnp.where(r, 0.0, s.astype(jnp.result_type(half)) * half) for r, s, half in zip(runs, signs, size, strict=True)
    ]


class _Polygon(NamedTuple):
    """A convex polygon of up to eight corners, in order; the places after `count` are unused."""

    points: tuple[Vec3, ...]
    count: Scalar


def _clipped(polygon: _Polygon, side: Vec3, limit: Scalar) -> _Polygon:
    """The part of a polygon in the half plane side · point <= limit: it has at most one corner more.

    Corners inside are kept. One whose edge leaves the half plane is followed by the crossing; one outside whose edge
    enters is replaced by the crossing. Only one edge leaves, so all others move on by the same number of places.
    """
    points, count = polygon
    heights = [p.dot(side) - limit for p in points]
    slot = jnp.zeros_like(count)
    places, moved = [], []
    leaving, leaving_slot = points[0], jnp.full_like(count, -1)
    for i, (p, h) in enumerate(zip(points, heights, strict=True)):
        exists, last, beyond = count > i, count == i + 1, (i + 1) % POINTS
        q, g = where(last, (points[0], heights[0]), (points[beyond], heights[beyond]))
        leaves, enters = exists & (h < 0) & (g > 0), exists & (h > 0) & (g < 0)
        t = h / jnp.where(leaves | enters, h - g, 1.0)
        crossing = p + (q - p) * t
        kept = exists & ((h <= 0) | enters)
        places.append(jnp.where(kept, slot, -1))
        moved.append(where(enters, crossing, p))
        slot = slot + kept.astype(slot.dtype)
        leaving, leaving_slot = where(leaves, (crossing, slot), (leaving, leaving_slot))
        slot = slot + leaves.astype(slot.dtype)
    new = []
    for j in range(POINTS):
        chosen = where(leaving_slot == j, leaving, moved[j])
        for i in range(max(j - 1, 0), POINTS):
            chosen = where(places[i] == j, moved[i], chosen)
        new.append(chosen)
    return _Polygon(tuple(new), slot)


def _manifold(
    reference: Vec3, incident: Vec3, turn: Mat3, centre: Vec3, face: Scalar, margin: Scalar, eps: _Rounding
) -> tuple[list[tuple[Scalar, Vec3, Scalar]], Scalar]:
    """Points of the incident box's face over a face of the reference box, in the frame of the latter.

    The coordinates of a point are two along the face and the height over it. Also: on which side the face is.
    """
    is_face = [face == k for k in range(3)]

    def face_last(v: tuple) -> Vec3:
        """Components in the order: the two axes after the face's, the face's."""
        return Vec3(*(_pick(is_face, (v[s % 3], v[(s + 1) % 3], v[(s + 2) % 3])) for s in (1, 2, 0)))

    columns = [face_last(column) for column in turn.T.rows]  # axes of the incident box
    size, centre = face_last(reference), face_last(centre)
    side = jnp.where(centre.z >= 0, 1.0, -1.0).astype(jnp.result_type(centre.z))
    steep = [jnp.abs(column.z) for column in columns]
    first = steep[1] > steep[0]
    binc = jnp.where(steep[2] > jnp.where(first, steep[1], steep[0]), 2, jnp.where(first, 1, 0))
    is_incident = [binc == k for k in range(3)]

    def incident_axis(s: int) -> Vec3:
        sides = [columns[(k + s) % 3] * incident[(k + s) % 3] for k in range(3)]
        return where(is_incident[0], sides[0], where(is_incident[1], sides[1], sides[2]))

    across, u, v = incident_axis(0), incident_axis(1), incident_axis(2)
    opposed = jnp.where(side * across.z > 0, -1.0, 1.0)
    middle = centre + across * opposed
    middle, u, v = (Vec3(w.x, w.y, side * w.z) for w in (middle, u, v))
    middle = Vec3(middle.x, middle.y, middle.z - size.z)
    corners = [middle + u * su + v * sv for su, sv in ((1, 1), (-1, 1), (-1, -1), (1, -1))]
    polygon = _Polygon((*corners, *corners), jnp.full(jnp.shape(middle.x), 4, jnp.int32))
    sides = Vec3([1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0], [0.0] * 4)

    def clip_by(polygon: _Polygon, side: Vec3) -> _Polygon:
        return _clipped(polygon, side, jnp.abs(side.x) * size.x + jnp.abs(side.y) * size.y)

    points, count = fold(clip_by, polygon, sides, middle.x)

    same = eps.same * (size.x * size.x + size.y * size.y)
    accepted: list[Scalar] = []
    for i, p in enumerate(points):
        fine = (count > i) & (p.z <= margin)
        for j in range(i):
            x, y = points[j].x - p.x, points[j].y - p.y
            fine = fine & ~(accepted[j] & (x * x + y * y < same))
        accepted.append(fine)
    found = [(ok, Vec3(p.x, p.y, side * (size.z + 0.5 * p.z)), p.z) for ok, p in zip(accepted, points, strict=True)]

    def face_back(p: Vec3) -> Vec3:
        return Vec3(*(_pick(is_face, (p[(k + 2) % 3], p[(k + 1) % 3], p[k])) for k in range(3)))

    return [(ok, face_back(p), height) for ok, p, height in found], side


def box_box(first: Geom, second: Geom, margin: Scalar) -> tuple[Contact, ...]:
    """Up to eight points of two faces, or one of two edges."""
    a, b = first.size, second.size
    turn = Mat3(*(first.rotation.T @ second.rotation))
    ab = first.rotation.t_mul(second.position - first.position)
    ba = second.rotation.t_mul(first.position - second.position)
    eps = _rounding(jnp.result_type(ab.x))
    slack = margin + eps.separation * (sum(a) + sum(b))
    best, largest = _best_axis(a, b, turn, ab, ba, eps)
    touching = largest <= slack

    axis, p1, p2 = _edges(a, b, turn, ab, best, eps)
    by_edges = best.kind >= 6
    gap = (p2 - p1).dot(axis)

    of_first = best.kind < 3
    turn_in, centre, size, other, pose = where(
        of_first,
        (turn, ab, a, b, (first.position, first.rotation)),
        (Mat3(*turn.T), ba, b, a, (second.position, second.rotation)),
    )
    number = jnp.where(of_first, best.kind, best.kind - 3)
    points, side = _manifold(size, other, turn_in, centre, number, margin, eps)
    columns = pose[1].T.rows
    face_normal = where(number == 0, columns[0], where(number == 1, columns[1], columns[2]))
    face_normal = face_normal * jnp.where(of_first, side, -side)

    normal = where(by_edges, unit(first.rotation @ axis)[0], face_normal)
    frame = frame_of(normal)
    contacts = []
    for k, (accepted, p, height) in enumerate(points):
        position, active, distance = pose[1] @ p + pose[0], accepted & ~by_edges, height
        if k == 0:
            middle = first.rotation @ ((p1 + p2) * 0.5) + first.position
            position = where(by_edges, middle, position)
            active = jnp.where(by_edges, gap <= slack, accepted)
            distance = jnp.where(by_edges, gap, height)
        contacts.append(contact(touching & active, position, frame, distance))
    return tuple(contacts)

"""Flat features of shapes, one lane at a time: faces of boxes, hulls and cylinders, and edges."""

import math
from abc import ABC, abstractmethod
from typing import Any

import jax.numpy as jnp
import numpy as np

from kinetree.lanes.program.alone import get, put, room, while_loop
from kinetree.spatial import Vec3

from .hull import NOBODY, RING, Hull
from .pool import Corners, CornerSearch, Farthest
from .shapes import Geom

CAP_CORNERS = 16  # corners of the polygon that replaces the end of a cylinder
ON_RIM = 1e-5  # cosine between a cylinder's axis and a normal from which on it touches with a point of its rim
FACE_ALIGNED = 0.996  # MuJoCo's mjFACE_TOL: cosine from which two normals count as one
FLAT_FACES = 32  # faces at a corner that are tested
# Corner k of a box is at the side +x if bit 0 of k is set, +y with bit 1, +z with bit 2. Faces are +x, −x, +y, ...; the
# corners of each go around its normal. The order of all is MuJoCo's.
BOX_FACES = ((5, 1, 3, 7), (0, 4, 6, 2), (6, 7, 3, 2), (0, 1, 5, 4), (4, 5, 7, 6), (1, 0, 2, 3))


def _unit_box() -> Hull:
    corners = np.array([[1.0 if k & bit else -1.0 for bit in (1, 2, 4)] for k in range(8)])
    normals = np.array([sign * axis for axis in np.eye(3) for sign in (1, -1)])
    at = np.array([[f for f, face in enumerate(BOX_FACES) if k in face] for k in range(8)], np.int32)
    unused = np.zeros((8, 1), np.int32)
    faces, starts, cells = np.array(BOX_FACES, np.int32), np.zeros(27, np.int32), np.zeros((1, 4), np.int32)
    wide, box = np.zeros((8, 3, 3), np.int32), np.array([[0.0] * 3, [1.0] * 3])
    return Hull(corners, unused, starts, cells, np.zeros((1, 4)), faces, normals, at, wide, box, np.ones(()))


UNIT_BOX = _unit_box()


class Feature(ABC):
    """The features of a shape that may lie against another: the faces where it touches, and edges, in world axes."""

    dimension: Any  # 1 a corner, 2 an edge, 3 a face
    n_faces: Any  # flat ones, in order
    n_edges: Any
    width: int  # corners of a face, at most
    edge_counts: Any = True  # True if its edges count where the other shape comes first

    @abstractmethod
    def normal(self, face: Any) -> Vec3:
        """The normal of a flat face, outwards."""

    @abstractmethod
    def ring(self, face: Any) -> tuple[Any, Any]:
        """The ring of a flat face: what `corner` needs, and how many corners there are."""

    @abstractmethod
    def corner(self, ring: Any, k: Any) -> Vec3:
        """Corner k of a face, in order against the normal."""

    @abstractmethod
    def edge(self, k: Any) -> tuple[Vec3, Vec3]:
        """Both ends of an edge."""


def _in_world(geom: Geom, local: Vec3) -> Vec3:
    return geom.rotation @ local + geom.position


class _Capsule(Feature):
    """The line of its side that looks outward: as long as its segment, whose ends it is beside, as MuJoCo has it."""

    width = 2

    def __init__(self, geom: Geom, outward: Vec3):
        self.geom = geom
        self.side = geom.position + (outward - geom.axis * outward.dot(geom.axis)) * geom.size.x
        one = jnp.ones_like(geom.size.y).astype(jnp.int32)
        self.dimension, self.n_faces, self.n_edges = one, 0 * one, one

    def normal(self, face: Any) -> Vec3:
        return self.geom.axis

    def ring(self, face: Any) -> tuple[Any, Any]:
        return face, 0 * self.n_edges

    def corner(self, ring: Any, k: Any) -> Vec3:
        return self.geom.position

    def edge(self, k: Any) -> tuple[Vec3, Vec3]:
        along = self.geom.axis * self.geom.size.y
        return self.side - along, self.side + along


class _Cylinder(Feature):
    """The end that looks outward, as a polygon of 16 corners, as MuJoCo has it, and the line of the side.

    Of two cylinders, MuJoCo leaves out the line of the second where only an end of it is deepest.
    """

    width = CAP_CORNERS

    def __init__(self, geom: Geom, outward: Vec3):
        self.geom = geom
        self.local = geom.rotation.t_mul(outward)
        self.up = jnp.where(self.local.z >= 0, 1.0, -1.0).astype(self.local.z.dtype)
        flat = jnp.abs(self.local.z) > FACE_ALIGNED
        one = jnp.ones_like(self.up).astype(jnp.int32)
        self.dimension = jnp.where(flat, 3, 1).astype(jnp.int32)
        self.n_faces, self.n_edges = jnp.where(flat, one, 0), one
        self.edge_counts = jnp.abs(self.local.z) < ON_RIM

    def normal(self, face: Any) -> Vec3:
        return self.geom.axis * self.up

    def ring(self, face: Any) -> tuple[Any, Any]:
        return face, CAP_CORNERS * self.n_edges

    def corner(self, ring: Any, k: Any) -> Vec3:
        radius, half = self.geom.size.x, self.geom.size.y
        angle = k.astype(self.up.dtype) * (2 * math.pi / CAP_CORNERS)
        side = jnp.sin(angle) * -self.up
        return _in_world(self.geom, Vec3(radius * jnp.cos(angle), radius * side, self.up * half))

    def edge(self, k: Any) -> tuple[Vec3, Vec3]:
        radius, half = self.geom.size.x, self.geom.size.y
        x, y = self.local.x, self.local.y
        length = jnp.sqrt(x * x + y * y)
        scale = radius / jnp.where(length > 0, length, 1.0)
        low, high = (_in_world(self.geom, Vec3(x * scale, y * scale, z)) for z in (-half, half))
        return low, high


class _Solid(Feature):
    """A box or a hull. Rule of MuJoCo's meshNormals and boxNormals: faces that all corners share.

    Where these are no face or edge of a box (they may be a diagonal), the face along the normal stands for them. The
    edges of a corner lead to the corner before it in each of its faces.
    """

    width = RING

    def __init__(self, geom: Geom, is_box: bool, corners: tuple[Any, ...], outward: Vec3, known: Any):
        self.geom, self.hull = geom, Corners(geom.hull, geom.which)
        self.is_box = is_box
        a, b, c = corners
        b = jnp.where(a == b, c, b)
        self.dimension = jnp.where(a == b, 1, jnp.where((c == a) | (c == b), 2, 3)).astype(jnp.int32)
        self.a, self.b = a, b
        self.first, width = self.hull.faces_at(a)
        hull, dimension = self.hull, self.dimension

        def has(face: Any, corner: Any) -> Any:
            place, length = hull.faces_at(corner)

            def at(k: Any) -> Any:
                return hull.number(place + jnp.minimum(k, length - 1))

            def other(k: Any) -> Any:
                own = at(k)
                return (k < length) & (own != face) & (own != NOBODY)

            k = while_loop(other, lambda k: k + 1, jnp.zeros_like(length))
            return (k < length) & (at(k) == face)

        def look(state: tuple) -> tuple:
            k, count, faces, most, best = state
            face = hull.number(self.first + k)
            there = ((b == a) | has(face, b)) & ((c == a) | (c == b) | has(face, c)) & (count < FLAT_FACES)
            there = there & ((count == 0) | (dimension < 3))
            looks = self._turned(hull.normal(face)).dot(outward)
            better = there & (looks > most)
            most, best = jnp.where(better, looks, most), jnp.where(better, face, best)
            place = jnp.minimum(count, FLAT_FACES - 1)
            faces = put(faces, place, jnp.where(there, face, get(faces, place)))
            return k + 1, count + jnp.where(there, 1, 0), faces, most, best

        zero = jnp.zeros_like(a)
        lowest = jnp.full_like(outward.x, -jnp.inf)
        begin = (zero, zero, room(FLAT_FACES, a), lowest, zero)
        own, count, faces, _, best = while_loop(
            lambda s: (s[0] < width) & (hull.number(self.first + jnp.minimum(s[0], width - 1)) != NOBODY), look, begin
        )
        self.n_edges = jnp.where(dimension == 2, 1, own)  # as many as faces
        if is_box:
            lost = (dimension > 1) & (count != 4 - dimension)
            along, found = zero, zero > 0
            for face in range(len(BOX_FACES)):
                axis = self._turned(hull.normal(jnp.full_like(a, face)))
                here = ~found & (axis.dot(outward) > FACE_ALIGNED)
                along, found = jnp.where(here, face, along), found | here
            faces = put(faces, zero, jnp.where(lost, along, get(faces, zero)))
            count = jnp.where(lost, jnp.where(found, 1, 0), count)
            best = jnp.where(lost, along, best)
        single = ~known & (count > 0)
        faces = put(faces, zero, jnp.where(single, best, get(faces, zero)))
        self.faces, self.n_faces = faces, jnp.where(single, 1, count)

    def _turned(self, local: Vec3) -> Vec3:
        return self.geom.rotation @ local

    def _corner(self, number: Any) -> Vec3:
        local = self.hull.corner(number)
        if self.is_box:
            local = Vec3(*(c * s for c, s in zip(local, self.geom.size, strict=True)))
        return _in_world(self.geom, local)

    def normal(self, face: Any) -> Vec3:
        return self._turned(self.hull.normal(get(self.faces, face)))

    def _length(self, place: Any, most: Any) -> Any:
        return while_loop(
            lambda k: (k < most) & (self.hull.number(place + jnp.minimum(k, most - 1)) != NOBODY),
            lambda k: k + 1,
            jnp.zeros_like(most),
        )

    def ring(self, face: Any) -> tuple[Any, Any]:
        place, most = self.hull.ring(get(self.faces, face))
        count = self._length(place, most)
        return place + count - 1, count

    def corner(self, ring: Any, k: Any) -> Vec3:
        return self._corner(self.hull.number(ring - k))

    def edge(self, k: Any) -> tuple[Vec3, Vec3]:
        place, most = self.hull.ring(self.hull.number(self.first + k))
        count = self._length(place, most)
        own = while_loop(
            lambda j: (j < count - 1) & (self.hull.number(place + j) != self.a), lambda j: j + 1, jnp.zeros_like(count)
        )
        before = self.hull.number(place + jnp.where(own > 0, own - 1, count - 1))
        return self._corner(self.a), self._corner(jnp.where(self.dimension == 2, self.b, before))


def feature(kind: str, geom: Geom, corners: tuple[Any, ...], outward: Vec3, known: Any) -> Feature:
    """The feature of one lane's shape where its outward normal is `outward`.

    Arguments:
        kind, geom: the shape; that of a mesh or a box knows its hull.
        corners: of a box or mesh: of a face of the difference of both shapes, or the farthest corner three times.
        outward: a unit vector.
        known: whether the corners are those of a face; if not, the face that looks outward most is taken.
    """
    if kind == "capsule":
        return _Capsule(geom, outward)
    return _Cylinder(geom, outward) if kind == "cylinder" else _Solid(geom, kind == "box", corners, outward, known)


def search_of(kind: str, geom: Geom) -> CornerSearch | None:
    """What looks for the farthest corner of a mesh."""
    return Corners(geom.hull, geom.which).search if kind == "mesh" else None


def farthest_corner(kind: str, search: CornerSearch | None, direction: Vec3) -> Farthest:
    """The corner farthest along a direction of the shape's own frame; of several that are as far any of them.

    Round shapes have one, number 0.
    """
    if search is not None:
        return search.farthest(direction)
    number = jnp.zeros_like(direction.x).astype(jnp.int32)
    if kind == "box":
        number = sum(jnp.where(c >= 0, 1 << k, 0).astype(jnp.int32) for k, c in enumerate(direction))
    return Farthest(number, direction.x, direction.x != direction.x)


def chosen_corner(search: CornerSearch | None, direction: Vec3, found: Farthest) -> Any:
    """The number of the farthest corner that is MuJoCo's choice."""
    return found.number if search is None else search.chosen(direction, found)

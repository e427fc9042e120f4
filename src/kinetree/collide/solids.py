"""What of a shape may lie flat against another, one lane at a time: faces of boxes, hulls and cylinders, and edges."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from kinetree.spatial import Vec3

from .hull import Hull
from .shapes import Geom

NOBODY = -1  # fills up lists of corners and of faces
CAP_CORNERS = 16  # of the polygon that stands for the end of a cylinder
FACE_ALIGNED = 0.996  # MuJoCo's mjFACE_TOL: cosine from which two normals count as one
# Corner k of a box is at the side +x if bit 0 of k is set, +y with bit 1, +z with bit 2. Faces are +x, −x, +y, ...; the
# corners of each go around its normal. The order of all is MuJoCo's.
BOX_FACES = ((5, 1, 3, 7), (0, 4, 6, 2), (6, 7, 3, 2), (0, 1, 5, 4), (4, 5, 7, 6), (1, 0, 2, 3))


def _unit_box() -> Hull:
    corners = np.array([[1.0 if k & bit else -1.0 for bit in (1, 2, 4)] for k in range(8)])
    normals = np.array([sign * axis for axis in np.eye(3) for sign in (1, -1)])
    at = np.array([[f for f, face in enumerate(BOX_FACES) if k in face] for k in range(8)], np.int32)
    unused = np.zeros((8, 1), np.int32)
    faces = np.array(BOX_FACES, np.int32)
    return Hull(corners, unused, np.zeros(27, np.int32), faces, normals, at, np.zeros((8, 3, 3), np.int32), np.ones(()))


UNIT_BOX = _unit_box()


class Solid(NamedTuple):
    """A box or a hull in the world; hulls are stacked, and `which` is this lane's."""

    hull: Hull
    which: Any
    scale: Any  # (3,): of the corners, the half sizes of a box
    rotation: Any  # (3, 3)
    position: Any  # (3,)
    is_box: bool

    def corner(self, number: Any) -> Any:
        """(..., 3), in the world."""
        local = jnp.asarray(self.hull.vertices, self.position.dtype)[self.which, number] * self.scale
        return jnp.sum(self.rotation * local[..., None, :], -1) + self.position

    def normal(self, face: Any) -> Any:
        """(..., 3), outwards, in world axes."""
        local = jnp.asarray(self.hull.normals, self.position.dtype)[self.which, face]
        return jnp.sum(self.rotation * local[..., None, :], -1)

    def faces_at(self, corner: Any) -> Any:
        """(f,): numbers of the faces at a corner, filled up with NOBODY."""
        return jnp.asarray(self.hull.faces_at)[self.which, corner]

    def face(self, number: Any) -> Any:
        """(k,): the corners around a face, filled up with NOBODY."""
        return jnp.asarray(self.hull.faces)[self.which, number]


def solid(kind: str, geom: Geom) -> Solid:
    """One lane's box or mesh; of a mesh, `geom.hull` is stacked and `geom.which` a number."""
    rotation, position = geom.rotation.array(), geom.position.array()
    if kind == "box":
        stacked = Hull(*(np.asarray(x)[None] for x in UNIT_BOX))
        return Solid(stacked, 0, geom.size.array(), rotation, position, True)
    assert geom.hull is not None
    return Solid(geom.hull, geom.which, jnp.ones(3, position.dtype), rotation, position, False)


class Feature(NamedTuple):
    """What of a shape may lie against another: the faces where it touches, and the edges, in world axes."""

    dimension: Any  # 1 a corner, 2 an edge, 3 a face
    normals: Any  # (f, 3): of the faces, outwards, in order
    flat: Any  # (f,): which of them are there
    rings: Any  # (f, width, 3): their corners, in order against the normal
    counts: Any  # (f,): how many corners
    start: Any  # (3,): of all edges
    ends: Any  # (e, 3)
    straight: Any  # (e,): which of them are there

    @property
    def directions(self) -> Any:
        """(e, 3): unit vectors along the edges."""
        way = self.ends - self.start
        length = jnp.sqrt(jnp.sum(way * way, -1, keepdims=True))
        return way / jnp.where(length > 0, length, 1.0)


def feature(kind: str, geom: Geom, corners: Any, outward: Any, known: Any) -> Feature:
    """Of one lane's shape, where its outward normal is `outward` (3,).

    Arguments:
        kind, geom: the shape.
        corners: (3,), of a box or mesh: of a face of the difference of both shapes, or the farthest corner three times.
        outward: a unit vector.
        known: whether the corners are those of a face; if not, the face that looks outward most is taken.
    """
    if kind == "capsule":
        return _of_capsule(geom)
    return _of_cylinder(geom, outward) if kind == "cylinder" else _of_solid(solid(kind, geom), corners, outward, known)


def _of_solid(shape: Solid, corners: Any, outward: Any, known: Any) -> Feature:
    """Rule of MuJoCo's meshNormals and boxNormals: faces that all corners share.

    Where these are no face or edge of a box (they may be a diagonal), the face along the normal stands for them. The
    edges of a corner lead to the corner before it in each of its faces.
    """
    a, b, c = corners[0], corners[1], corners[2]
    b = jnp.where(a == b, c, b)
    dimension = jnp.where(a == b, 1, jnp.where((c == a) | (c == b), 2, 3))
    own = faces = shape.faces_at(a)

    def has(corner: Any) -> Any:
        return jnp.any(faces[:, None] == shape.faces_at(corner)[None], -1)

    there = (faces != NOBODY) & has(b) & has(c)
    first = jnp.arange(len(faces)) == jnp.argmax(there)
    there = there & (first | (dimension < 3))
    if shape.is_box:
        lost = (dimension > 1) & (jnp.sum(there) != 4 - dimension)
        along = jnp.sum(shape.normal(jnp.arange(len(BOX_FACES))) * outward, -1) > FACE_ALIGNED
        faces = jnp.where(lost, jnp.argmax(along).astype(faces.dtype), faces)
        there = jnp.where(lost, (jnp.arange(len(faces)) == 0) & jnp.any(along), there)
    rings = shape.face(jnp.maximum(own, 0))  # (f, k)
    before = (jnp.argmax(rings == a, -1) - 1) % jnp.sum(rings != NOBODY, -1)
    ends = jnp.where(dimension == 2, b, jnp.take_along_axis(rings, before[:, None], -1)[:, 0])
    straight = jnp.where(dimension == 2, jnp.arange(len(own)) == 0, own != NOBODY)
    around = shape.face(jnp.maximum(faces, 0))
    counts = jnp.sum(around != NOBODY, -1)
    backwards = jnp.maximum(counts[:, None] - 1 - jnp.arange(around.shape[1]), 0)
    around = shape.corner(jnp.take_along_axis(around, backwards, -1))
    normals = shape.normal(jnp.maximum(faces, 0))
    looks = jnp.where(there, jnp.sum(normals * outward, -1), -jnp.inf)
    there = there & (known | (jnp.arange(len(faces)) == jnp.argmax(looks)))
    return Feature(dimension, normals, there, around, counts, shape.corner(a), shape.corner(ends), straight)


def _in_world(geom: Geom, local: Any) -> Any:
    """Points (..., 3) of a shape's own frame."""
    return jnp.sum(geom.rotation.array() * local[..., None, :], -1) + geom.position.array()


def _of_capsule(geom: Geom) -> Feature:
    """Its segment; the radius is added elsewhere."""
    half = jnp.stack([jnp.zeros_like(geom.size.y), jnp.zeros_like(geom.size.y), geom.size.y])
    none, nowhere = jnp.zeros((1, 3), half.dtype), jnp.zeros((1, 1, 3), half.dtype)
    ends = _in_world(geom, jnp.stack([-half, half]))
    return Feature(
        jnp.array(1), none, jnp.zeros(1, bool), nowhere, jnp.ones(1, int), ends[0], ends[1:], jnp.ones(1, bool)
    )


def _of_cylinder(geom: Geom, outward: Any) -> Feature:
    """The end that looks outward, as a polygon of 16 corners, as MuJoCo has it, and the line of the side."""
    local = geom.rotation.t_mul(Vec3.from_array(outward))
    radius, half = geom.size.x, geom.size.y
    up = jnp.where(local.z >= 0, 1.0, -1.0).astype(outward.dtype)
    angle = -up * jnp.arange(CAP_CORNERS, dtype=outward.dtype) * (2 * np.pi / CAP_CORNERS)
    cap = jnp.stack([radius * jnp.cos(angle), radius * jnp.sin(angle), jnp.full_like(angle, 1.0) * up * half], -1)
    side = Vec3(local.x, local.y, jnp.zeros_like(local.z))
    length = jnp.sqrt(side.dot(side))
    side = (side * (radius / jnp.where(length > 0, length, 1.0))).array()
    along = jnp.zeros(3, outward.dtype).at[2].set(half)
    ends = _in_world(geom, jnp.stack([side - along, side + along]))
    flat = jnp.abs(local.z) > FACE_ALIGNED
    return Feature(
        jnp.where(flat, 3, 1),
        (geom.axis * up).array()[None],
        flat[None],
        _in_world(geom, cap)[None],
        jnp.full(1, CAP_CORNERS),
        ends[0],
        ends[1:],
        jnp.ones(1, bool),
    )


def support_corner(kind: str, geom: Geom, direction: Vec3) -> Any:
    """The number of the corner farthest along a direction of the shape's own frame; 0 for round shapes."""
    if kind == "box":
        return sum(jnp.where(c >= 0, 1 << k, 0).astype(jnp.int32) for k, c in enumerate(direction))
    if kind != "mesh":
        return jnp.zeros_like(direction.x, jnp.int32)
    assert geom.hull is not None
    vertices = jnp.asarray(geom.hull.vertices)[geom.which]
    heights = vertices[:, 0] * direction.x + vertices[:, 1] * direction.y + vertices[:, 2] * direction.z
    return jnp.argmax(heights).astype(jnp.int32)

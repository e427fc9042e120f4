"""Shapes in the world, contact points between them, and the small geometry that all pairs share.

Every function of this room is elementwise: components are scalars or arrays of any one shape, choices are selects, and
the number of points is fixed for each pair of kinds. The facts (which points, in which order, which rule in degenerate
cases) are MuJoCo's: its sources engine_collision_*.c settle them, and the tests compare with its package.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.spatial import Mat3, Scalar, Vec3

from .pool import pooled

MIN_VALUE = 1e-15  # MuJoCo's mjMINVAL, its smallest divisor, in any unit
NEVER = jnp.inf  # the distance of a point without contact

T = TypeVar("T")


class Geom(NamedTuple):
    """One shape in the world.

    `rotation` takes the shape's coordinates to the world's. `size` is MuJoCo's: radius, half lengths, half axes.
    """

    position: Vec3
    rotation: Mat3
    size: Vec3
    hull: Any = None  # of a mesh: a `Hull`, or a pool of hulls
    which: Any = None  # where in the pool each lane's own begins
    corners: Any = None  # of a prism: six points in the shape's coordinates

    @property
    def axis(self) -> Vec3:
        """The z axis in the world: of a capsule, a cylinder, the normal of a plane."""
        return self.rotation.T.rows[2]

    def with_hulls(self) -> "Geom":
        """Shapes with a pool of hulls, in which each lane has its own."""
        if self.hull is None or self.which is not None:
            return self
        pool, _ = pooled([self.hull], self.position.x.dtype)
        return self._replace(hull=jnp.asarray(pool), which=jnp.zeros(jnp.shape(self.position.x), jnp.int32))


class Contact(NamedTuple):
    """One point of contact.

    A point without contact has the distance +inf. Its position and frame are finite, but have no meaning.
    """

    position: Vec3  # halfway between the two surfaces
    frame: Mat3  # rows: the normal from the first shape to the second, two tangents
    distance: Scalar  # between the surfaces; negative where they overlap

    @property
    def active(self) -> Scalar:
        """True if this is a contact."""
        return self.distance < NEVER


def where(condition: Scalar, a: T, b: T) -> T:
    """Select between two trees of components."""
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), a, b)


def unit(v: Vec3) -> tuple[Vec3, Scalar]:
    """A vector's direction and its length. A vector without length points along x, and no gradient is infinite."""
    squared = v.dot(v)
    short = squared < MIN_VALUE * MIN_VALUE
    length = jnp.sqrt(jnp.where(short, 1.0, squared))
    one, zero = jnp.ones_like(length), jnp.zeros_like(length)
    return where(short, Vec3(one, zero, zero), v * (1 / length)), jnp.where(short, 0.0, length)


def ratio(a: Scalar, b: Scalar) -> Scalar:
    """a / b for a positive b; a huge number where b is 0."""
    return jnp.where(b > 0, a / jnp.where(b > 0, b, 1.0), 1e30)


def clip(x: Scalar, limit: Scalar) -> Scalar:
    """x, but between −limit and +limit."""
    return jnp.minimum(jnp.maximum(x, -limit), limit)


def frame_of(normal: Vec3, tangent: Vec3 | None = None) -> Mat3:
    """Normal and two tangents as rows (mju_makeFrame).

    The first tangent is the part of `tangent` that is orthogonal to the unit vector `normal`. By default it comes from
    y, or from z where the normal is within 60 degrees of y. A tangent along the normal becomes x: this is MuJoCo's
    rule, even where x is not orthogonal to the normal.
    """
    if tangent is None:
        near_y = jnp.abs(normal.y) >= 0.5
        zero, one = jnp.zeros_like(normal.y), jnp.ones_like(normal.y)
        tangent = Vec3(zero, jnp.where(near_y, zero, one), jnp.where(near_y, one, zero))
    first, _ = unit(tangent - normal * normal.dot(tangent))
    return Mat3(*normal, *first, *normal.cross(first))


def contact(active: Scalar, position: Vec3, frame: Mat3, distance: Scalar) -> Contact:
    """A contact where `active`; elsewhere its place is kept."""
    return Contact(position, frame, jnp.where(active, distance, NEVER))


def take_first(count: int, flags: Sequence[Scalar], items: Sequence[T]) -> list[tuple[Scalar, T]]:
    """The first `count` items whose flags are set, in order, each with whether there is such an item."""
    slots: list[tuple[Scalar, T]] = [(jnp.zeros_like(flags[0]), items[0])] * count
    seen = jnp.zeros(jnp.shape(flags[0]), jnp.int32)
    for i, (flag, item) in enumerate(zip(flags, items, strict=True)):
        for j in range(min(count, i + 1)):
            here = flag & (seen == j)
            slots[j] = (slots[j][0] | here, where(here, item, slots[j][1]))
        seen = seen + jnp.where(flag, 1, 0).astype(jnp.int32)
    return slots


def fold(step: Callable[[T, Any], T], state: T, rows: Any, like: Scalar) -> T:
    """Put the rows of constant tables into a state, one after the other.

    `rows` is a tree of sequences, whose numbers take the type of `like`. A loop keeps programs small: XLA takes minutes
    for the thousands of operations that some pairs would be when written out. Single numbers are written out: the
    steps of lane programs, which are not compiled by XLA.
    """
    dtype = jnp.result_type(like)
    tables = jax.tree.map(np.asarray, rows, is_leaf=lambda x: isinstance(x, list))
    if jnp.ndim(like) == 0:
        for k in range(len(jax.tree.leaves(tables)[0])):
            state = step(state, jax.tree.map(lambda x, k=k: x[k] if x.dtype == bool else x[k].astype(dtype), tables))
        return state
    tables = jax.tree.map(lambda x: jnp.asarray(x if x.dtype == bool else x.astype(dtype)), tables)
    state = jax.tree.map(lambda x: jnp.broadcast_to(x, jnp.shape(like)), state)
    return jax.lax.scan(lambda s, row: (step(s, row), None), state, tables)[0]

"""Hulls in one long array of numbers, where lanes look up corners, faces and neighbours by themselves.

Each hull begins with a head that says where its tables are, counted from there. Integers stand as numbers, too.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.lanes.program.alone import get, whole
from kinetree.spatial import Scalar, Vec3

from .hull import NOBODY, START_COSINE, Hull

MAX_NUMBERS = 1 << 24  # places that a float32 can name


def tables_of(kind: type) -> list[str]:
    """The tables of a hull, or of another tuple of arrays that has a radius."""
    return [name for name in kind._fields if name != "radius"]  # type: ignore[attr-defined]


def pooled(hulls: Sequence[Any], dtype: Any) -> tuple[Any, np.ndarray]:
    """All hulls, or height fields, as one array, and the places where they begin.

    Each has a head: the radius, then for each table where it begins and how long its rows are.
    """
    known = all(isinstance(x, np.ndarray) for h in hulls for x in h)
    library: Any = np if known else jnp
    parts: list[Any] = []
    starts, at = [], 0
    for hull in hulls:
        names = tables_of(type(hull))
        head, end, tables = [], 1 + 2 * len(names), []
        for name in names:
            table = getattr(hull, name)
            length = int(np.prod(table.shape[1:]))
            head += [end, length]
            end += table.shape[0] * length
            tables.append(library.asarray(table, dtype).reshape(-1))
        parts += [library.asarray(hull.radius, dtype).reshape(1), np.array(head, dtype), *tables]
        starts.append(at)
        at += end
    if at > MAX_NUMBERS:
        raise ValueError(f"the meshes of a model have {at} numbers, more than {MAX_NUMBERS}: simplify them")
    return library.concatenate(parts), np.array(starts, np.int64)


def place_of(kind: type, numbers: Any, at: Any, name: str) -> tuple[Any, Any]:
    """Where a table of a tuple in a pool begins, and how long its rows are."""
    k = 1 + 2 * tables_of(kind).index(name)
    return at + whole(get(numbers, at + k)), whole(get(numbers, at + k + 1))


class Corners(NamedTuple):
    """One hull of a pool, in the frame of its shape. One lane at a time."""

    numbers: Any  # of the pool
    at: Any

    def _table(self, name: str) -> tuple[Any, Any]:
        """Where a table begins, and how long its rows are."""
        return place_of(Hull, self.numbers, self.at, name)

    def _vector(self, name: str, row: Any) -> Vec3:
        first = self._table(name)[0] + 3 * row
        return Vec3(*(get(self.numbers, first + k) for k in range(3)))

    @property
    def radius(self) -> Scalar:
        """The radius of a ball about the shape's origin that holds it."""
        return get(self.numbers, self.at)

    def corner(self, number: Any) -> Vec3:
        """Where a corner is."""
        return self._vector("vertices", number)

    def normal(self, face: Any) -> Vec3:
        """The normal of a face, outwards."""
        return self._vector("normals", face)

    def ring(self, face: Any) -> tuple[Any, Any]:
        """Where the corners of a face begin in the pool, and how many there may be; NOBODY fills up."""
        first, length = self._table("faces")
        return first + face * length, length

    def faces_at(self, corner: Any) -> tuple[Any, Any]:
        """Where the faces at a corner begin in the pool, and how many there may be; NOBODY fills up."""
        first, length = self._table("faces_at")
        return first + corner * length, length

    def neighbours(self, corner: Any) -> tuple[Any, Any]:
        """Where the neighbours of a corner begin in the pool, and how many there may be; the corner itself fills up."""
        first, length = self._table("neighbours")
        return first + corner * length, length

    def wide(self, corner: Any, face: Any) -> list[Any]:
        """Three more corners of a face, spread wide; `face` counts those at the corner."""
        first, length = self._table("wide")
        return [whole(get(self.numbers, first + corner * length + 3 * face + k)) for k in range(3)]

    def number(self, place: Any) -> Any:
        """An integer of the pool."""
        return whole(get(self.numbers, place))

    def farthest(self, direction: Vec3) -> Any:
        """The number of the corner farthest along a unit vector.

        From a start, go to the neighbour that is farthest until none is farther. The neighbour first in order wins a
        tie, so ties end where they end in MuJoCo. A turn looks at one neighbour.
        """
        one = jnp.int32(1)
        numbers, direction = jax.lax.stop_gradient((self.numbers, direction))
        vertices, _ = self._table("vertices")
        rows, width = self._table("neighbours")
        x, y, z = (
            one + (c > START_COSINE).astype(jnp.int32) - (c < -START_COSINE).astype(jnp.int32) for c in direction
        )

        def height(number: Any) -> Scalar:
            first = vertices + 3 * number
            return direction.dot(Vec3(*(get(numbers, first + k) for k in range(3))))

        def look(state: tuple) -> tuple:
            at, to, best, k, _ = state
            neighbour = whole(get(numbers, rows + at * width + k))
            ended = (k >= width) | (neighbour == at)
            there = height(jnp.where(ended, at, neighbour))
            better = ~ended & (there > best)
            to, best = jnp.where(better, neighbour, to), jnp.where(better, there, best)
            moves = ended & (to != at)
            return jnp.where(ended, to, at), to, best, jnp.where(ended, 0, k + 1), ~ended | moves

        start = whole(get(numbers, self._table("starts")[0] + 9 * x + 3 * y + z))
        begin = (start, start, height(start), jnp.zeros_like(start), start == start)
        return jax.lax.while_loop(lambda s: s[4], look, begin)[0]


__all__ = ["NOBODY", "Corners", "pooled"]

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

from .cube import cell_of
from .hull import AT_ONCE, NOBODY, START_COSINE, Hull

# Of a hull's radius: corners that are as far along a direction. Corners are rounded to float32, so hulls are convex
# to 1e-7 of their radius only.
TIE = 1e-6
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

        From a start, go to the neighbour that is farthest until none is farther. Near the end the start does not
        matter, unless some corners are as far: MuJoCo's start then decides, and the neighbour first in order. So the
        search begins at a corner that is near, and once more where MuJoCo's does if it ends beside another as far.
        """
        numbers, direction = jax.lax.stop_gradient((self.numbers, direction))
        vertices, _ = self._table("vertices")
        rows, width = self._table("neighbours")
        close = TIE * self.radius

        def height(number: Any) -> Scalar:
            first = vertices + 3 * number
            return direction.dot(Vec3(*(get(numbers, first + k) for k in range(3))))

        def look(s: _Climb) -> _Climb:
            to, best, beside, last = s.to, s.best, s.beside, s.at
            for j in range(AT_ONCE):
                last = whole(get(numbers, rows + s.at * width + s.k + j))
                there = height(last)
                beside = jnp.where(last == s.at, beside, jnp.maximum(beside, there))
                to, best = jnp.where(there > best, last, to), jnp.maximum(there, best)
            ended = (last == s.at) | (s.k + AT_ONCE >= width)
            arrived = ended & (to == s.at)
            again = arrived & ~s.again & (beside >= best - close)
            at = jnp.where(again, begin, jnp.where(ended, to, s.at))
            best = jnp.where(again, first, best)
            beside = jnp.where(ended, -jnp.inf, beside)
            k = jnp.where(ended, 0, s.k + AT_ONCE)
            return _Climb(at, jnp.where(again, begin, to), best, beside, k, s.again | again, ~arrived | again)

        grid = (1 + (c > START_COSINE).astype(jnp.int32) - (c < -START_COSINE).astype(jnp.int32) for c in direction)
        x, y, z = grid
        begin = whole(get(numbers, self._table("starts")[0] + 9 * x + 3 * y + z))
        first = height(begin)
        near = whole(get(numbers, self._table("farthest")[0] + cell_of(direction)))
        start = height(near)
        none = jnp.zeros_like(near)
        state = _Climb(near, near, start, jnp.full_like(start, -jnp.inf), none, none != none, none == none)
        return jax.lax.while_loop(lambda s: s.goes_on, look, state).at


class _Climb(NamedTuple):
    """A search for the farthest corner."""

    at: Any  # the corner whose neighbours are looked at, from number k on
    to: Any  # the farthest of those seen, and how far it is
    best: Scalar
    beside: Scalar  # how far the farthest neighbour is
    k: Any
    again: Any  # whether it began where MuJoCo's does
    goes_on: Any


__all__ = ["NOBODY", "Corners", "pooled"]

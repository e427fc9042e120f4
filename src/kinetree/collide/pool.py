"""Hulls in one long array of numbers, where lanes look up corners, faces and neighbours by themselves.

Each hull begins with a head that says where its tables are, counted from there. Integers stand as numbers, too.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.lanes.program.alone import ROW, get, once, row, while_loop, whole
from kinetree.spatial import Scalar, Vec3

from .cube import FINER, Cell
from .hull import NOBODY, START_COSINE, TIE, Hull

MAX_NUMBERS = 1 << 24  # places that a float32 can name


def tables_of(kind: type) -> list[str]:
    """The tables of a hull, or of another tuple of arrays that has a radius."""
    return [name for name in kind._fields if name != "radius"]  # type: ignore[attr-defined]


def pooled(hulls: Sequence[Any], dtype: Any) -> tuple[Any, np.ndarray]:
    """All hulls, or height fields, as one array, and the places where they begin.

    Each has a head: the radius, then for each table where it begins and how long its rows are. Equal ones stand there
    once.
    """
    known = all(isinstance(x, np.ndarray) for h in hulls for x in h)
    library: Any = np if known else jnp
    parts: list[Any] = []
    starts, at = [], 0
    places: dict[bytes, int] = {}
    for hull in hulls:
        content = _digest(hull) if known else str(len(starts)).encode()
        if content in places:
            starts.append(places[content])
            continue
        names = tables_of(type(hull))
        head, end, tables = [], 1 + 2 * len(names), []
        for name in names:
            table = _as_rows(hull, name, dtype, library)
            length = int(np.prod(table.shape[1:]))
            head += [end, length]
            end += table.shape[0] * length
            tables.append(library.asarray(table, dtype).reshape(-1))
        parts += [library.asarray(hull.radius, dtype).reshape(1), np.array(head, dtype), *tables]
        places[content] = at
        starts.append(at)
        at += end
    if at > MAX_NUMBERS:
        raise ValueError(f"the meshes of a model have {at} numbers, more than {MAX_NUMBERS}: simplify them")
    return library.concatenate(parts), np.array(starts, np.int64)


def _digest(hull: Any) -> bytes:
    """What tells tuples of arrays apart."""
    found = blake2b(type(hull).__name__.encode())
    for array in hull:
        found.update(f"{array.shape}{array.dtype}".encode() + array.tobytes())
    return found.digest()


def _as_rows(hull: Any, name: str, dtype: Any, library: Any) -> Any:
    """A table as it stands in a pool: corners are read as one row, filled up with zeros."""
    table = getattr(hull, name)
    if name != "vertices":
        return table
    columns = table, np.zeros((len(table), ROW - table.shape[1]))
    return library.concatenate([library.asarray(x, dtype) for x in columns], 1)


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
        return Vec3(*row(self.numbers, self._table("vertices")[0] + ROW * number)[:3])

    def face_towards(self, direction: Vec3) -> tuple[Vec3, Scalar]:
        """The outward normal of a face about where a ray from the middle of the box leaves, and how far out it is."""
        place = self._table("facing")[0] + ROW * Cell.of(jax.lax.stop_gradient(direction)).number
        *normal, height = row(self.numbers, place)
        return Vec3(*normal), height

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

    @property
    def box(self) -> tuple[Vec3, Vec3]:
        """The box that holds it: its middle, and half of its sides."""
        row = jnp.zeros_like(self.at)
        return self._vector("box", row), self._vector("box", row + 1)

    @property
    def search(self) -> "CornerSearch":
        """What looks for the farthest corner."""
        return CornerSearch.of(self)


class CornerSearch(NamedTuple):
    """Looks for the farthest corner along a direction. It knows where the tables of its hull are."""

    numbers: Any  # of the pool
    radius: Scalar
    vertices: Any
    cells: Any
    neighbours: Any
    width: Any  # of the lists of neighbours
    starts: Any

    @staticmethod
    def of(hull: Corners) -> "CornerSearch":
        """That of one hull."""
        numbers, at = hull.numbers, hull.at
        places = [place_of(Hull, numbers, at, name) for name in ("vertices", "cells", "neighbours", "starts")]
        (vertices, _), (cells, _), (neighbours, width), (starts, _) = places
        found = CornerSearch(numbers, hull.radius, vertices, cells, neighbours, width, starts)
        return CornerSearch(*map(jax.lax.stop_gradient, found))

    def farthest(self, direction: Vec3) -> "Farthest":
        """The corner farthest along a unit vector; if several are equally far, any of them.

        Each cell of directions has a list of the corners that may be the farthest. If there are too many for a list,
        the search climbs from a near corner to its neighbours.
        """
        direction = jax.lax.stop_gradient(direction)

        def known(cell: Cell) -> tuple[Cell, tuple[Any, ...]]:
            return cell, row(self.numbers, self.cells + ROW * cell.number)

        def look(numbers: tuple[Any, ...], seen: _Seen) -> _Seen:
            best, far, second = seen
            for number in numbers:
                number = jnp.where(number < 0, numbers[0], number)
                there = direction.dot(self.corner(whole(number)))
                second = jnp.where(number == best, second, jnp.maximum(second, jnp.minimum(there, far)))
                best, far = jnp.where(there > far, number, best), jnp.maximum(there, far)
            return _Seen(best, far, second)

        def further(state: tuple[Any, _Seen]) -> tuple[Any, _Seen]:
            numbers = row(self.numbers, self.cells - ROW * whole(state[0]))
            return numbers[-1], look(numbers, state[1])

        _, numbers = while_loop(
            lambda s: s[1][0] < 0, lambda s: known(s[0].part(FINER, whole(-s[1][0]))), known(Cell.of(direction))
        )
        lowest = jnp.full_like(direction.x, -jnp.inf)
        seen = look(numbers, _Seen(jnp.full_like(direction.x, NOBODY), lowest, lowest))
        _, found = while_loop(lambda s: s[0] < 0, further, (numbers[-1], seen))
        number = jnp.maximum(whole(found.best), 0)  # A direction that is NaN has none.
        there = Farthest(number, found.far, found.second >= found.far - TIE * self.radius)
        return once(numbers[1] < 0, lambda there: self._climbed(direction, there.number), there)

    def chosen(self, direction: Vec3, found: "Farthest") -> Any:
        """The number of the farthest corner at which MuJoCo's search ends: this decides ties.

        The search starts at a corner and goes to the neighbour that is farthest, the first in order, until none is
        farther. Corners are rounded, so it may end before the farthest known corner: then that one counts.
        """
        direction = jax.lax.stop_gradient(direction)
        grid = (1 + (c > START_COSINE).astype(jnp.int32) - (c < -START_COSINE).astype(jnp.int32) for c in direction)
        x, y, z = grid
        level = 4 * float(jnp.finfo(direction.x.dtype).eps) * self.radius

        def climb(number: Any) -> Any:
            begin = whole(get(self.numbers, self.starts + 9 * x + 3 * y + z))
            end = self._climbed(direction, begin)
            return jnp.where(end.height >= found.height - level, end.number, number)

        return once(found.tied, climb, found.number)

    def corner(self, number: Any) -> Vec3:
        """Where a corner is."""
        return Vec3(*row(self.numbers, self.vertices + ROW * number)[:3])

    def _climbed(self, direction: Vec3, begin: Any) -> "Farthest":
        """From corner to corner, to one that has no farther neighbour."""

        def look(s: _Climb) -> _Climb:
            to, best, beside, last = s.to, s.best, s.beside, s.at
            for number in row(self.numbers, self.neighbours + s.at * self.width + s.k):
                last = whole(number)
                there = direction.dot(self.corner(last))
                beside = jnp.where(last == s.at, beside, jnp.maximum(beside, there))
                to, best = jnp.where(there > best, last, to), jnp.maximum(there, best)
            ended = (last == s.at) | (s.k + ROW >= self.width)
            arrived = ended & (to == s.at)
            at = jnp.where(ended, to, s.at)
            beside = jnp.where(ended & ~arrived, -jnp.inf, beside)
            return _Climb(at, to, best, beside, jnp.where(ended, 0, s.k + ROW), ~arrived)

        first, none = direction.dot(self.corner(begin)), jnp.zeros_like(begin)
        start = _Climb(begin, begin, first, jnp.full_like(first, -jnp.inf), none, none == none)
        end = while_loop(lambda s: s.goes_on, look, start)
        return Farthest(end.at, end.best, end.beside >= end.best - TIE * self.radius)


class Farthest(NamedTuple):
    """A corner that is farthest along a direction."""

    number: Any
    height: Scalar
    tied: Any  # True if others are as far, or nearly so


class _Seen(NamedTuple):
    """Of some corners the farthest, how far it is, and how far the next is."""

    best: Any
    far: Scalar
    second: Scalar


class _Climb(NamedTuple):
    """The state of a climb to the farthest corner."""

    at: Any  # the corner whose neighbours are looked at, from number k on
    to: Any  # the farthest of those seen, and how far it is
    best: Scalar
    beside: Scalar  # how far the farthest neighbour is
    k: Any
    goes_on: Any


__all__ = ["NOBODY", "Corners", "Farthest", "CornerSearch", "pooled"]

"""The blocks of a part of a tree: addresses of the arrays of their cells, and calls to read and write given arrays."""

from functools import cached_property, lru_cache
from typing import Any

import jax
import numpy as np

from kinetree.dynamics.recursion import APPLIED
from kinetree.lanes.blocks.lists import GIVEN, OWN, call, place
from kinetree.lanes.blocks.moves import FieldGroup
from kinetree.model import Model, Structure
from kinetree.tree.blocks import Blocks

from .block_walks import AlgorithmCode, BlockPass, fields_held
from .stages import COUNT, SHIFT

TAKEN = "taken"  # the array of values taken from the inputs


GHOST = [1.0] + [0.0] * (COUNT - 1)  # the identity, no axis, no mass


class Region:
    """The blocks of a part of a tree, and the addresses of the arrays of their cells: in memory of a thread, or shared.

    `lines` are the lines of the largest task, and `before` the lines of a task before each of its blocks. Cells beyond
    the end of a lane are ghosts: rows without mass that do not move in their parents.
    """

    def __init__(self, code: AlgorithmCode, blocks: Blocks, model: Model, shared: bool, lines: int, before: Any):
        fields, self.code, self.native, dtype = code.fields, code, code.native, code.native.dtype
        self.kept: list[np.ndarray] = []  # arrays whose addresses native code has
        self.blocks, self.line = blocks, dtype.itemsize * code.native.width  # bytes of one field of a line
        self.first = blocks.first[:-1]  # the first line of each block
        self.widths = fields.widths() | {TAKEN: len(fields.inputs)}
        self.places = {"row": blocks.rows} | {
            g.place: _places(blocks, of_rows(model)[g.place]) for g in fields.groups if g.place != "row"
        }
        held = fields_held(fields.plan.hinges)._asdict()
        self.arrays = {name: _constants(blocks, model, dtype, places) for name, places in held.items()}
        self._before, self._own, self.own_bytes, self._rows_of_tree = before, {}, 0, model.tree.n
        for name, width in self.widths.items():
            if name in self.arrays:
                continue
            if name == SHIFT:  # it stays zero for all rows except those of quaternion joints
                self.arrays[name] = np.zeros((len(blocks.rows), width, self.native.width), dtype)
            elif shared or name.startswith("kept"):
                self.arrays[name] = np.empty((len(blocks.rows), width, self.native.width), dtype)
            else:  # One spare line absorbs writes of padding cells.
                self._own[name] = self.own(width * (lines + 1))

    @cached_property
    def cells(self) -> np.ndarray:
        """For each row the number of its cell; −1 if it is not in this region."""
        return self.blocks.cell_of(self._rows_of_tree)

    def own(self, vectors: int) -> Any:
        """Reserve vectors in a thread's own memory."""
        start, self.own_bytes = self.own_bytes, self.own_bytes + vectors * self.line
        return place(OWN, start)

    def at(self, name: str, first: Any = None) -> Any:
        """The address of an array, for each block, or for whole tasks that begin with these lines."""
        line = self.widths[name] * self.line
        if name in self.arrays:
            return self.arrays[name].ctypes.data + (self.first if first is None else first) * line
        return self._own[name] + (self._before * line if first is None else 0)

    def cell(self, name: str, field: int, cell: Any, task_cell: Any) -> tuple[int, Any]:
        """A base, and byte offsets of cells, whose numbers in the region and within their task are given."""
        if name in self.arrays:
            return 0, self.arrays[name].ctypes.data + self.bytes_before(cell, self.widths[name], field)
        return self._own[name], self.bytes_before(task_cell, self.widths[name], field)

    def bytes_before(self, cell: np.ndarray, fields: int, field: int) -> np.ndarray:
        """Bytes before a field of given cells, numbered through all lines."""
        lanes = self.native.width
        return (cell // lanes * fields + field) * self.line + cell % lanes * self.native.dtype.itemsize

    def walk(self, p: BlockPass, start: Any, *final: Any) -> np.ndarray:
        """Calls of a pass's function, one for each block."""
        taken = [self.at(TAKEN)] if p.taken else []
        streams, results = ([self.at(n) for n in names] for names in (p.streams, p.results))
        operands = (start, *streams, *taken, self._rows(self.first), *results, *final)
        return call(self.native.address[p.name], self.blocks.turns, *operands)

    def take(self, *lines: Any) -> list[np.ndarray]:
        """Calls that take the inputs of blocks, or of a count of lines from given first ones."""
        return [
            self._moved("take", TAKEN, g.first, g.given, self.places[g.place], g.place == "force", *lines)
            for g in self.code.fields.groups
        ]

    def put(self, i: int, *lines: Any) -> list[np.ndarray]:
        """Calls that write the results of pass i to their places, if it has any."""
        before = len(self.code.fields.arrays)
        return [
            self._moved(
                "put",
                f"out{i}",
                g.first,
                tuple((before + array, k) for array, k in g.given),
                self._places_of(g.numbers),
                g.numbers > 1,
                *lines,
            )
            for g in self.code.put[i]
        ]

    def _places_of(self, numbers: int) -> np.ndarray:
        """The places of rows in arrays with this count of numbers for each."""
        if numbers == 1:
            return self.blocks.rows
        name = f"{numbers} numbers"
        if name not in self.places:
            self.places[name] = _places(self.blocks, numbers * np.arange(self.blocks.rows.max(initial=-1) + 1))
        return self.places[name]

    def _moved(
        self,
        move: str,
        name: str,
        field: int,
        given: tuple[tuple[int, int], ...],
        places: np.ndarray,
        apart: bool,
        first: Any = None,
        count: Any = None,
    ) -> np.ndarray:
        """Calls that move fields of an array's cells from, or to, scalars of given arrays at these places.

        `apart`: the places of neighbours are not consecutive.
        """
        group = FieldGroup(len(given), self.widths[name])
        ways: Any = self.native.address[group.named(move)]
        array = self.at(name, first) + field * self.line
        if first is None:
            first, count, lanes = self.first, self.blocks.turns, self.native.width
            # lanes of consecutive rows, all of full length, are read and written a vector at a time
            last = places[self.blocks.first[1:] - 1]
            along = (last == places[first] + count[:, None] - 1).all(1) & (places[first] >= 0).all(1)
            along &= (count % lanes == 0) & (not apart)
            ways = np.where(along, self.native.address[group.named(f"{move}_along")], ways)
            count = np.where(along, count // lanes, count)
        size = self.native.dtype.itemsize
        operands = (place(GIVEN + number, scalar * size) for number, scalar in given)
        return call(ways, count, _lines_of(places, first), array, *operands)

    def _rows(self, first: Any) -> Any:
        """The addresses of the rows of blocks that begin with these lines."""
        return _lines_of(self.blocks.rows, first)


def _lines_of(places: np.ndarray, first: Any) -> Any:
    """The addresses of lines of places."""
    return places.ctypes.data + first * places.strides[0]


def of_rows(model: Model) -> dict[str, np.ndarray]:
    """The places of rows in given arrays, −1 for none: their coordinates in q, and forces on them."""
    return {"coordinate": model.structure.q_of_row, "force": len(APPLIED) * force_of_row(model)}


def force_of_row(model: Model) -> np.ndarray:
    """For each row, the number of its force: that of its body if no row has several bodies, else that of the row."""
    carrier = model.structure.row_of_body
    if shares_rows(model.structure):
        return np.arange(model.tree.n)
    bodies, found = np.flatnonzero(carrier >= 0), np.full(model.tree.n, -1)
    found[carrier[bodies]] = bodies
    return found


@lru_cache(maxsize=16)
def shares_rows(structure: Structure) -> bool:
    """True if some rows carry several bodies."""
    carrier = structure.row_of_body
    return bool((np.bincount(carrier[carrier >= 0]) > 1).any())


def _places(blocks: Blocks, of_row: np.ndarray) -> np.ndarray:
    """Places of the rows of all cells, −1 for none."""
    return np.where(blocks.rows >= 0, of_row[np.maximum(blocks.rows, 0)], -1).clip(-1).astype(np.int32)


def _constants(blocks: Blocks, model: Model, dtype: np.dtype, fields: tuple[int, ...]) -> np.ndarray:
    """Some constants of the rows in all cells, (lines, fields, lanes)."""
    ghost, rows, known = blocks.rows < 0, np.maximum(blocks.rows, 0), jax.tree.leaves(model.rows)
    return np.stack([np.where(ghost, GHOST[k], np.asarray(known[k], dtype)[rows]).astype(dtype) for k in fields], 1)

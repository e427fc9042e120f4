"""The cells of blocks as native code sees them: constants of their rows, and which rows they hold.

What is not there, beyond the end of a lane, is a ghost: a row without mass that does not move against its parent. Of a
tree of hinges without rotors cells do not hold axes and armatures: three numbers of twenty.
"""

from typing import Any, NamedTuple

import jax
import numpy as np

from kinetree.lanes.blocks.lists import GIVEN, BlockCode, call, place
from kinetree.model import Model
from kinetree.tree.blocks import Blocks

from .stages import CONSTANT, COUNT

GHOST = [1.0] + [0.0] * (COUNT - 1)  # the identity, no axis, no mass


class CellFields(NamedTuple):
    """Fields that place a row, and those that load it: each lie together, or a core would read past the others."""

    frame: tuple[int, ...]
    load: tuple[int, ...]


def fields_held(hinges: bool) -> CellFields:
    """The fields that cells hold, for trees of hinges without rotors or for any trees."""
    leaves = jax.tree.leaves
    frame, load = leaves((CONSTANT.orientation, CONSTANT.position)), leaves(CONSTANT.inertia)
    if not hinges:
        frame, load = frame + leaves(CONSTANT.axis), load + leaves(CONSTANT.armature)
    return CellFields(tuple(frame), tuple(load))


class Cells:
    """The cells of some blocks of a model."""

    def __init__(self, blocks: Blocks, model: Model, dtype: np.dtype, held: CellFields):
        self.blocks = blocks
        self.lanes = blocks.rows.shape[1]
        self.line = dtype.itemsize * self.lanes  # bytes of one field of a line
        ghost, rows = blocks.rows < 0, np.maximum(blocks.rows, 0)
        known = jax.tree.leaves(model.rows)
        self.frame, self.load = (
            np.stack([np.where(ghost, GHOST[k], np.asarray(known[k], dtype)[rows]).astype(dtype) for k in fields], 1)
            for fields in held
        )
        self.first = blocks.first[:-1]  # the first line of each block

    def within(self, fields: int, line: Any = None) -> Any:
        """Byte offsets of the blocks, or of given lines, in an array whose cells have `fields` fields."""
        return (self.first if line is None else line) * (fields * self.line)

    def cell(self, cell: np.ndarray, fields: int, field: int) -> np.ndarray:
        """Bytes before a field of given cells, numbered through all lines."""
        number = self.line // self.lanes
        return (cell // self.lanes * fields + field) * self.line + cell % self.lanes * number

    def taking(self, code: BlockCode, state: Any, arrays: int, first: Any = None, count: Any = None) -> np.ndarray:
        """Calls that take the states of blocks, or of so many lines from first ones on, from as many given arrays."""
        take, rows, count = self._lines(code, "take", first, count)
        return call(take, count, rows, state, *(place(GIVEN + k, 0) for k in range(arrays)))

    def putting(self, code: BlockCode, results: Any, arrays: range, first: Any = None, count: Any = None) -> np.ndarray:
        """Calls that put their results where they belong, in given arrays."""
        put, rows, count = self._lines(code, "put", first, count)
        return call(put, count, rows, results, *(place(GIVEN + k, 0) for k in arrays))

    def _lines(self, code: BlockCode, name: str, first: Any, count: Any) -> tuple[Any, Any, Any]:
        """A function for each block or run of lines, their rows, and how often it turns."""
        ways: Any = code.address[name]
        if first is None:
            first, count, rows = self.first, self.blocks.turns, self.blocks.rows
            # lanes that go along consecutive rows, and all to their ends, are read and written a vector at a time
            last = rows[self.blocks.first[1:] - 1]
            along = (last == rows[first] + count[:, None] - 1).all(1) & (count % self.lanes == 0)
            ways = np.where(along, code.address[f"{name}_along"], ways)
            count = np.where(along, count // self.lanes, count)
        return ways, self.blocks.rows.ctypes.data + first * (4 * self.lanes), count

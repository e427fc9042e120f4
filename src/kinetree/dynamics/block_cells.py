"""The cells of blocks as native code sees them: constants of their rows, and which rows they hold.

What is not there, beyond the end of a lane, is a ghost: a row without mass that does not move against its parent.
"""

from typing import Any

import jax
import numpy as np

from kinetree.lanes.block_list import GIVEN, BlockCode, call, place
from kinetree.model import Model
from kinetree.tree.blocks import Blocks

from .stage_rows import CONSTANT, COUNT

# Fields that place a row, and those that load it: each lie together, or a core would read past the others.
FRAME = len(jax.tree.leaves((CONSTANT.orientation, CONSTANT.position, CONSTANT.axis)))
LOAD = COUNT - FRAME
GHOST = [1.0] + [0.0] * (COUNT - 1)  # the identity, no axis, no mass

STATE = (0, 1, 2)  # q, qd and qdd among what is taken from the given arrays; the fourth is the result


class Cells:
    """Of some blocks of a model."""

    def __init__(self, blocks: Blocks, model: Model, dtype: np.dtype):
        self.blocks = blocks
        self.lanes = blocks.rows.shape[1]
        self.line = dtype.itemsize * self.lanes  # bytes of one field of a line
        ghost, rows = blocks.rows < 0, np.maximum(blocks.rows, 0)
        fields = [
            np.where(ghost, nothing, np.asarray(x, dtype)[rows]).astype(dtype)
            for nothing, x in zip(GHOST, jax.tree.leaves(model.rows), strict=True)
        ]
        self._frame, self._load = np.stack(fields[:FRAME], 1), np.stack(fields[FRAME:], 1)
        self._rows = rows.astype(np.int32)
        self.first = blocks.first[:-1]  # the first line of each block

    def within(self, fields: int, line: Any = None) -> Any:
        """Bytes before each block, or before given lines, in an array with so many fields in a cell."""
        return (self.first if line is None else line) * (fields * self.line)

    def cell(self, cell: np.ndarray, fields: int, field: int) -> np.ndarray:
        """Bytes before a field of given cells, numbered through all lines."""
        number = self.line // self.lanes
        return (cell // self.lanes * fields + field) * self.line + cell % self.lanes * number

    @property
    def constants(self) -> tuple[Any, Any]:
        """Addresses of frames and loads of each block."""
        return self._frame.ctypes.data + self.within(FRAME), self._load.ctypes.data + self.within(LOAD)

    def transfers(self, code: BlockCode, state: Any, result: Any) -> tuple[np.ndarray, np.ndarray]:
        """Calls that take each block's state from the given arrays, and put its results where they belong."""
        turns, rows = self.blocks.turns, self.blocks.rows
        # lanes that go along consecutive rows, and all to their ends, are read and written a vector at a time
        last = rows[self.blocks.first[1:] - 1]
        along = (last == rows[self.first] + turns[:, None] - 1).all(1) & (turns % self.lanes == 0)
        return self._moved(code, state, result, self.first, np.where(along, turns // self.lanes, turns), along)

    def transfers_of_lines(
        self, code: BlockCode, state: Any, result: Any, first: np.ndarray, count: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same for so many lines from a first one on, whatever blocks they belong to."""
        return self._moved(code, state, result, first, count, np.zeros(len(first), bool))

    def _moved(
        self, code: BlockCode, state: Any, result: Any, first: np.ndarray, count: np.ndarray, along: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        take, put = (np.where(along, code.address[f"{name}_along"], code.address[name]) for name in ("take", "put"))
        arrays = [place(GIVEN + k, 0) for k in (*STATE, len(STATE))]
        taken, returned = (x.ctypes.data + first * (4 * self.lanes) for x in (self._rows, self.blocks.rows))
        return call(take, count, taken, state, *arrays[:-1]), call(put, count, returned, result, arrays[-1])

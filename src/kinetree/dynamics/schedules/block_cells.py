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

STATE = (0, 1, 2)  # q, qd and qdd among what is taken from the given arrays; the fourth is the result


class Fields(NamedTuple):
    """Fields that place a row, and those that load it: each lie together, or a core would read past the others."""

    frame: tuple[int, ...]
    load: tuple[int, ...]


def fields_held(hinges: bool) -> Fields:
    """Of trees of hinges without rotors, or of any trees."""
    leaves = jax.tree.leaves
    frame, load = leaves((CONSTANT.orientation, CONSTANT.position)), leaves(CONSTANT.inertia)
    if not hinges:
        frame, load = frame + leaves(CONSTANT.axis), load + leaves(CONSTANT.armature)
    return Fields(tuple(frame), tuple(load))


class Cells:
    """Of some blocks of a model."""

    def __init__(self, blocks: Blocks, model: Model, dtype: np.dtype, held: Fields):
        self.blocks = blocks
        self.lanes = blocks.rows.shape[1]
        self.line = dtype.itemsize * self.lanes  # bytes of one field of a line
        ghost, rows = blocks.rows < 0, np.maximum(blocks.rows, 0)
        known = jax.tree.leaves(model.rows)
        self._frame, self._load = (
            np.stack([np.where(ghost, GHOST[k], np.asarray(known[k], dtype)[rows]).astype(dtype) for k in fields], 1)
            for fields in held
        )
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
        frame, load = (x.ctypes.data + self.within(x.shape[1]) for x in (self._frame, self._load))
        return frame, load

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
        rows = self.blocks.rows.ctypes.data + first * (4 * self.lanes)
        return call(take, count, rows, state, *arrays[:-1]), call(put, count, rows, result, arrays[-1])

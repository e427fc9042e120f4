"""Many control steps in one native call, if all controls are known in advance: each lane goes through all steps.

States of all steps are in one array (steps + 1, lanes, width): each step reads the result of the one before. Records
are parts of this array. Longer runs are done in pieces.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from kinetree._arrays import flattened, there
from kinetree.lanes.target import compiled
from kinetree.model import State

from .stepper import Stepper

MAX_PIECE_BYTES = 1 << 26  # bytes of the states of one piece


class Rolled(NamedTuple):
    """A piece of a run."""

    steps: slice
    before: State  # (steps, lanes, ...), at the start of each step
    after: State  # (lanes, ...)


def can_roll(stepper: Stepper, dtype: Any, work: int) -> bool:
    """True if there is native code for NumPy arrays. It is compiled if needed."""
    return compiled(stepper.program(work), np.dtype(dtype).name) is not None


def rolled(stepper: Stepper, state: State, ctrl: Any, f_ext: Any, steps: int, substeps: int) -> Iterator[Rolled]:
    """The run, piece by piece.

    Arguments:
        stepper: of the model.
        state: NumPy arrays (lanes, ...) of one type.
        ctrl: (steps, lanes, nu), or None without actuators.
        f_ext: (lanes, n_bodies, 6), or None.
        steps, substeps: how many.
    """
    lanes, dtype, names = len(state.q), state.q.dtype, stepper.variant.inputs
    code = there(compiled(stepper.program(lanes * steps * substeps), dtype.name))
    size = max(1, MAX_PIECE_BYTES // max(1, lanes * stepper.width * dtype.itemsize))
    first = stepper.inputs(state, None, None)
    constants = stepper.constants_for(substeps, dtype)
    for begin in range(0, steps, size):
        piece = slice(begin, min(begin + size, steps))
        count = piece.stop - piece.start
        whole = code.room((count + 1, lanes, stepper.width))
        given: dict[str, Any] = {}
        for name, column in stepper.columns.items():
            at = column if isinstance(column, slice) else slice(column, column + 1)
            whole[0, :, at] = first[names.index(name)]
            given[name] = whole[:count, :, at]
        if "ctrl" in names:
            given["ctrl"] = _plain(ctrl[piece], dtype)
        if "f_ext" in names:
            flat = _plain(flattened(f_ext), dtype)
            given["f_ext"] = np.broadcast_to(flat, (count, *flat.shape))
        code.frames(stepper.slots, stepper.tables, constants, tuple(given[n] for n in names), (whole[1:],))
        still = State(**{n: np.broadcast_to(x, (count, *x.shape)) for n, x in state.arrays.items()})
        state = stepper.split(whole[-1].copy(), state)
        first = stepper.inputs(state, None, None)
        yield Rolled(piece, stepper.split(whole[:count], still), state)


def _plain(x: np.ndarray, dtype: Any) -> np.ndarray:
    """Numbers of a type, in a row along the last axis."""
    x = np.asarray(x, dtype)
    return x if x.shape[-1] < 2 or x.strides[-1] == dtype.itemsize else np.ascontiguousarray(x)

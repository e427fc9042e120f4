"""Tables of loops, and the blocks of slots that they name."""

from typing import Any, NamedTuple

import numpy as np


def table(*columns: Any) -> np.ndarray:
    """Columns side by side."""
    wide = np.broadcast_arrays(*(np.atleast_1d(np.asarray(c, np.int64)) for c in columns))
    return np.ascontiguousarray(np.stack(wide, -1).astype(np.int32))


def with_skips(turns: np.ndarray, column: int) -> np.ndarray:
    """A table, and for each turn how many of the next ones have the same number in a column (`Loop.skips`)."""
    ends = np.append(np.flatnonzero(np.diff(turns[:, column])) + 1, len(turns))
    own = np.arange(len(turns))
    return np.concatenate([turns, table(ends[np.searchsorted(ends, own, "right")] - own - 1)], 1)


def split(x: Any) -> tuple:
    """Columns of an array."""
    return tuple(x[:, k] for k in range(x.shape[1]))


class SlotBlocks(NamedTuple):
    """Blocks of one size in the memory of a world, one after the other. Called with numbers, it gives first slots."""

    first: int
    size: int
    count: int

    @property
    def end(self) -> int:
        """The slot after the last block."""
        return self.first + self.size * self.count

    def __call__(self, number: Any) -> Any:
        return self.first + np.asarray(number, np.int64) * self.size

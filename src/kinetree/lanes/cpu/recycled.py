"""Large arrays whose memory is used again.

The kernel clears each page of new memory before a program may write to it, and results of several megabytes get new
memory at every call: for matrices of a batch that takes as long as computing them. So memory of large results goes
back to a list here when the last array on it is gone, and the next result of that size takes it.
"""

import math
import sys
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np

from .. import tuning


class _Shelf:
    """Memory that no array uses any more. Where there is too much of it, the oldest is freed.

    It has no lock, because a fork could leave one locked: each step here is atomic in Python.
    """

    def __init__(self) -> None:
        self._blocks: dict[int, np.ndarray] = {}  # in the order in which they came back
        self._numbers = count()

    def take(self, size: int) -> np.ndarray:
        """Memory of this size, old or new, and what it takes to begin at a line of the cache."""
        whole = size + tuning.RECYCLED_ALIGNMENT
        for number, block in list(self._blocks.items()):
            if block.nbytes == whole and self._blocks.pop(number, None) is not None:
                return block
        return np.empty(whole, np.uint8)

    def put_back(self, block: np.ndarray) -> None:
        """Take memory back."""
        self._blocks[next(self._numbers)] = block
        held = list(self._blocks.items())
        total = sum(block.nbytes for _, block in held)
        for number, oldest in held:
            if total <= tuning.RECYCLED_MAX_BYTES:
                break
            self._blocks.pop(number, None)
            total -= oldest.nbytes


_shelf = _Shelf()


class _Loan:
    """The owner of an array's memory. It dies with the last array on that memory, and then gives the memory back."""

    def __init__(self, block: np.ndarray, shape: tuple[int, ...], kind: np.dtype):
        self._block = block
        start = block.ctypes.data
        self.__array_interface__ = {
            "data": (start + -start % tuning.RECYCLED_ALIGNMENT, False),
            "shape": tuple(shape),
            "typestr": kind.str,
            "version": 3,
        }

    def __del__(self, shelf: _Shelf = _shelf, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not ending():  # Then the modules that put_back needs may be gone.
            shelf.put_back(self._block)


def empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """As `numpy.empty`."""
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    if size < tuning.RECYCLED_MIN_BYTES:
        return np.empty(shape, kind)
    return np.asarray(_Loan(_shelf.take(size), shape, kind))

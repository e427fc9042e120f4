"""Large arrays whose memory is used again.

The kernel clears each page of new memory, and results of several megabytes get new memory at every call. For matrices
of a batch that takes as long as to compute them. So the memory of a large result goes back to a list here when the last
array on it is gone, and the next result of that size takes it.

The *reach* of a result is the number of bytes of large results that were handed out since its memory was last used,
itself included. A cache of that size still holds the memory. In a smaller cache results are better written past the
caches: three Jacobians of 7 MB, one after the other, are as bad for a cache as one result of 21 MB.
"""

import ctypes
import math
import sys
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from .. import tuning

last_reach = ctypes.c_int64()  # of the array that `empty` made last; native code reads it, too


class _Block(NamedTuple):
    """Memory, and the total of bytes handed out when this memory was handed out last."""

    memory: np.ndarray
    stamp: int


class _Shelf:
    """Memory that no array uses any more. If there is too much of it, the oldest is freed.

    It has no lock, because a fork could leave a lock held; each step here is atomic in Python. If two threads hand out
    memory at the same moment, the sum may miss some bytes. That only costs a little speed.
    """

    def __init__(self) -> None:
        self._blocks: dict[int, _Block] = {}  # in the order in which they came back
        self._numbers = count()
        self._handed_out = 0  # bytes

    def take(self, size: int) -> _Block:
        """Memory of this size plus alignment to a cache line: the block used last, or a new one."""
        whole = size + tuning.RECYCLED_ALIGNMENT
        memory, reach = None, size
        self._handed_out = stamp = self._handed_out + size
        for number, block in reversed(list(self._blocks.items())):
            if block.memory.nbytes == whole and self._blocks.pop(number, None) is not None:
                memory, reach = block.memory, stamp - block.stamp
                break
        last_reach.value = reach
        return _Block(np.empty(whole, np.uint8) if memory is None else memory, stamp)

    def put_back(self, block: _Block) -> None:
        """Take memory back."""
        self._blocks[next(self._numbers)] = block
        held = list(self._blocks.items())
        total = sum(block.memory.nbytes for _, block in held)
        for number, oldest in held:
            if total <= tuning.RECYCLED_MAX_BYTES:
                break
            self._blocks.pop(number, None)
            total -= oldest.memory.nbytes


_shelf = _Shelf()


class _Loan:
    """The owner of an array's memory. It dies with the last array on that memory, and then gives the memory back."""

    def __init__(self, block: _Block, shape: tuple[int, ...], kind: np.dtype):
        self._block = block
        start = block.memory.ctypes.data
        self.__array_interface__ = {
            "data": (start + -start % tuning.RECYCLED_ALIGNMENT, False),
            "shape": tuple(shape),
            "typestr": kind.str,
            "version": 3,
        }

    def __del__(self, shelf: _Shelf = _shelf, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not ending():  # at exit the modules that put_back needs may be gone
            shelf.put_back(self._block)


def empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """As `numpy.empty`."""
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    if size < tuning.RECYCLED_MIN_BYTES:
        return np.empty(shape, kind)
    return np.asarray(_Loan(_shelf.take(size), shape, kind))


def reach_of(results: Iterable[np.ndarray]) -> int:
    """The reach of results that `empty` has just made. For small results and all other arrays it is their size."""
    sizes = [x.nbytes for x in results]
    return max(sum(sizes), last_reach.value if max(sizes) >= tuning.RECYCLED_MIN_BYTES else 0)

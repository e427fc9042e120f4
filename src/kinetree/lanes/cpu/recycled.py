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
from contextlib import suppress
from typing import Any

import numpy as np

from .. import tuning

last_reach = ctypes.c_int64()  # of the array that `empty` made last; native code reads it, too


class _Block:
    """Memory, and the total of bytes handed out when this memory was handed out last."""

    __slots__ = ("_described", "_interface", "_memory", "size", "stamp")

    def __init__(self, size: int):
        self.size, self.stamp = size, 0
        self._memory = np.empty(size + tuning.RECYCLED_ALIGNMENT, np.uint8)
        self._described: Any = None

    def interface(self, shape: tuple[int, ...], dtype: np.dtype) -> dict[str, Any]:
        """The memory as an array. The last answer is kept, because to find it takes as long as a small batch."""
        if self._described != (shape, dtype):
            start = self._memory.ctypes.data
            at = start + -start % tuning.RECYCLED_ALIGNMENT
            self._interface = {"data": (at, False), "shape": shape, "typestr": dtype.str, "version": 3}
            self._described = shape, dtype
        return self._interface


class _Shelf:
    """Memory that no array uses any more, by its size. If there is too much of it, the oldest is freed.

    It has no lock, because a fork could leave a lock held; each step here is atomic in Python. If two threads hand out
    memory at the same moment, the sums may miss some bytes. That only costs a little speed.
    """

    def __init__(self) -> None:
        self._blocks: dict[int, list[_Block]] = {}  # of one size, in the order in which they came back
        self._unused = self._handed_out = 0  # bytes

    def take(self, size: int) -> _Block:
        """Memory of this size: the block used last, or a new one."""
        self._handed_out = stamp = self._handed_out + size
        try:
            block = self._blocks[size].pop()
        except LookupError:
            block, reach = _Block(size), size
        else:
            self._unused -= size
            reach = stamp - block.stamp
        block.stamp = stamp
        last_reach.value = reach
        return block

    def put_back(self, block: _Block) -> None:
        """Take memory back."""
        self._blocks.setdefault(block.size, []).append(block)
        self._unused += block.size
        while self._unused > tuning.RECYCLED_MAX_BYTES:
            held = [block for blocks in list(self._blocks.values()) for block in list(blocks)]
            with suppress(ValueError):  # another thread took it, or all of them
                oldest = min(held, key=lambda block: block.stamp)
                self._blocks[oldest.size].remove(oldest)
                held.remove(oldest)
            self._unused = sum(block.size for block in held)


_shelf = _Shelf()


class _Loan:
    """The owner of an array's memory. It dies with the last array on that memory, and then gives the memory back."""

    __slots__ = ("__array_interface__", "_block")

    def __init__(self, block: _Block, shape: tuple[int, ...], dtype: np.dtype):
        self._block, self.__array_interface__ = block, block.interface(shape, dtype)

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

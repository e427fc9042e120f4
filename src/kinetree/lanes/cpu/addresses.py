"""Addresses of arrays that programs read again and again: tables, and the constants of a model.

A step with contact has a hundred such arrays. NumPy takes half a microsecond to return the address of one, and for all
of them that is more than the step itself takes. So the address of an array is kept until the array dies.
"""

import ctypes
from collections.abc import Iterable
from typing import Any
from weakref import ref

import numpy as np

_kept: dict[int, tuple[Any, int]] = {}  # by the array's `id`: a weak reference, and the address


def address(array: np.ndarray) -> int:
    """The address of an array whose memory stays where it is."""
    key = id(array)
    try:
        return _kept[key][1]
    except KeyError:
        # The reference is called when the array dies, before another object can have its `id`.
        _kept[key] = ref(array, lambda _: _kept.pop(key, None)), array.ctypes.data
        return _kept[key][1]


def addresses(arrays: Iterable[np.ndarray]) -> Any:
    """The addresses of some arrays, as an array of C pointers."""
    found = [address(x) for x in arrays]
    return (ctypes.c_void_p * max(1, len(found)))(*found)

"""NumPy arrays for machine code: the offsets of an array's parts in memory, and the function that makes an array.

Both belong to the ABI that NumPy keeps for compiled extensions: the struct behind `PyArrayObject`, and the table
`_ARRAY_API`. To read an array so costs a few loads. A buffer of CPython's stable ABI costs 35 ns to take and give back.
All offsets are checked once on real arrays. If one is wrong, there are no direct calls.
"""

import ctypes
import sys
from typing import Any
from weakref import ref

import numpy as np

from ..kept.once import once

HEADER = object.__basicsize__  # bytes of an object's reference count and type
TYPE = HEADER - 8  # Offsets in an array, and in its dtype.
DATA, NDIM, SHAPE, STRIDES, DESCRIPTION, FLAGS, WEAK = (HEADER + k for k in (0, 8, 16, 24, 40, 48, 56))
KIND = HEADER + 9  # Two letters of a dtype: its type and its byte order.
ALIGNED = 0x100
PLAIN = 0x1 | ALIGNED  # C-contiguous and aligned
OWN = PLAIN | 0x4 | 0x400  # with memory of its own, that can be written to
NEW_ARRAY, ARRAY_TYPE, SET_BASE = 94, 2, 282  # Places in NumPy's table.
NEW_KIND = "ptr (ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)"  # subtype, dtype (taken over), ndim, shape, four options


def kind_letters(dtype: np.dtype) -> int:
    """The two letters of a dtype in native byte order, as one number of 16 bits."""
    return int.from_bytes(f"{dtype.char}=".encode(), sys.byteorder)


@once
def set_base() -> int:
    """The address of NumPy's `PyArray_SetBaseObject`; 0 where arrays or NumPy's floats are not as described here."""
    numbers = (np.float64(1.5), ctypes.c_double), (np.float32(1.5), ctypes.c_float)
    plain = all(kind.from_address(id(x) + HEADER).value == x for x, kind in numbers)
    return _table(SET_BASE)[SET_BASE] or 0 if new_array() and plain else 0


@once
def new_array() -> int:
    """The address of NumPy's `PyArray_NewFromDescr`; 0 if arrays do not have the layout described here."""
    try:
        return _find()
    except (AttributeError, ValueError, TypeError):
        return 0


def _table(last: int) -> Any:
    """NumPy's table of addresses, up to one of them."""
    core: Any = sys.modules.get("numpy._core._multiarray_umath") or sys.modules["numpy.core._multiarray_umath"]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return (ctypes.c_void_p * (last + 1)).from_address(pointer(core._ARRAY_API, None))


def _find() -> int:
    table = _table(NEW_ARRAY)
    return table[NEW_ARRAY] or 0 if table[ARRAY_TYPE] == id(np.ndarray) and all(map(_as_described, _samples())) else 0


def _samples() -> list[np.ndarray]:
    whole = np.zeros((3, 4))
    return [whole, whole[:, 1], whole.astype(np.float32), whole.astype(">f8"), np.zeros(0, np.int64), np.zeros(())]


def _as_described(array: np.ndarray) -> bool:
    """True if all parts of an array are at the offsets above."""

    def word(place: int, kind: Any = ctypes.c_void_p) -> int:
        return kind.from_address(place).value or 0

    here, described = id(array), id(array.dtype)
    shape, strides = (
        (ctypes.c_int64 * array.ndim).from_address(word(here + at)) if array.ndim else () for at in (SHAPE, STRIDES)
    )
    plain = array.flags.c_contiguous and array.flags.aligned
    owns = array.flags.owndata and array.flags.writeable
    letters = f"{array.dtype.char}{array.dtype.byteorder}".encode()
    return (
        word(here + TYPE) == id(np.ndarray)
        and word(here + DATA) == array.ctypes.data
        and word(here + NDIM, ctypes.c_int) == array.ndim
        and tuple(shape) == array.shape
        and tuple(strides) == array.strides
        and word(here + DESCRIPTION) == described
        and (word(here + FLAGS, ctypes.c_int) & PLAIN == PLAIN) == plain
        and (word(here + FLAGS, ctypes.c_int) & OWN == OWN) == (plain and owns)
        and _finds_weak_references(array)
        and ctypes.string_at(described + KIND, 2) == letters
    )


def _finds_weak_references(array: np.ndarray) -> bool:
    """True if the first weak reference to an array is at the offset above."""
    before = ctypes.c_void_p.from_address(id(array) + WEAK).value
    weak = ref(array)
    return before is None and ctypes.c_void_p.from_address(id(array) + WEAK).value == id(weak)

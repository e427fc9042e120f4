"""Functions of CPython's stable ABI, for LLVM text to call by name; builtins of machine code."""

import ctypes
import platform
from collections.abc import Iterable
from typing import Any

import llvmlite.binding as llvm
import numpy as np

METH_FASTCALL, METH_KEYWORDS = 0x80, 0x2  # flags of builtins


def has_functions(names: Iterable[str]) -> bool:
    """True if this interpreter has all of these functions. Gives LLVM their addresses."""
    if platform.python_implementation() != "CPython":
        return False
    try:
        for name in names:
            llvm.add_symbol(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)
    except (AttributeError, ValueError):
        return False
    return True


class _MethodDef(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("call", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


def builtin_of(address: int, name: str, flags: int, record: np.ndarray, *owned: Any) -> Any:
    """A builtin that owns its record, and all that this points to. Its `self` is a tuple; the address comes first."""
    definition = _MethodDef(name.encode(), address, flags, None)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(definition), (record.ctypes.data, record, definition, owned), None)

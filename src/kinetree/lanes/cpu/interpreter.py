"""Functions of CPython's stable ABI, for LLVM text to call by name."""

import ctypes
import platform
from collections.abc import Iterable

import llvmlite.binding as llvm


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

"""Functions of CPython's stable ABI, for LLVM text to call by name; builtins of machine code."""

import ctypes
import platform
import sys
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from ..ffi import native_enabled
from ..kept.once import once
from ..llvm.text import Text
from .host import MachineCode, loaded

METH_FASTCALL, METH_KEYWORDS = 0x80, 0x2  # flags of builtins
PYTHON = {  # that LLVM text calls, and their types
    "PyDict_GetItemWithError": "ptr (ptr, ptr)",
    "PyErr_Clear": "void ()",
    "PyEval_RestoreThread": "void (ptr)",
    "PyEval_SaveThread": "ptr ()",
    "PyList_GetItem": "ptr (ptr, i64)",
    "PyList_SetItem": "i32 (ptr, i64, ptr)",
    "PyLong_AsVoidPtr": "ptr (ptr)",
    "PyLong_FromLongLong": "ptr (i64)",
    "PyObject_CallFunctionObjArgs": "ptr (ptr, ...)",
    "PyObject_GenericSetAttr": "i32 (ptr, ptr, ptr)",
    "PyObject_GetAttr": "ptr (ptr, ptr)",
    "PyObject_Vectorcall": "ptr (ptr, ptr, i64, ptr)",
    "PyThread_acquire_lock": "i32 (ptr, i32)",
    "PyThread_release_lock": "void (ptr)",
    "PyTuple_GetItem": "ptr (ptr, i64)",
    "PyTuple_New": "ptr (i64)",
    "PyTuple_SetItem": "i32 (ptr, i64, ptr)",
    "PyType_GenericAlloc": "ptr (ptr, i64)",
    "Py_DecRef": "void (ptr)",
    "Py_IncRef": "void (ptr)",
}
LIBRARY = {
    "clock_gettime": "i32 (i32, ptr)",
    "sched_getaffinity": "i32 (i32, i64, ptr)",
    "sched_getcpu": "i32 ()",
    "sched_setaffinity": "i32 (i32, i64, ptr)",
    "sched_yield": "i32 ()",
}
LINUX = sys.platform == "linux"
if LINUX:
    PYTHON["PyThread_get_thread_native_id"] = "i64 ()"
BY_ADDRESS = (  # that Python code calls, or whose addresses types have
    "PyCFunction_NewEx",
    "PyObject_GenericGetDict",
    "PyObject_GenericSetDict",
    "PyThread_allocate_lock",
    "PyThread_start_new_thread",
    "PyType_FromSpec",
    "PyType_GetSlot",
    "PyVectorcall_Call",
)


@once
def available() -> bool:
    """True if this interpreter has all of these functions. Gives LLVM their addresses."""
    if platform.python_implementation() != "CPython":
        return False
    try:
        for name in (*PYTHON, *BY_ADDRESS):
            llvm.add_symbol(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)
    except (AttributeError, ValueError):
        return False
    return True


class Caller(Text):
    """A text that calls functions of Python and of C by name."""

    def call(self, name: str, *arguments: str) -> str:
        """Call a function; return its result, empty if it has none. Arguments are written as "ptr %x"."""
        kind = PYTHON.get(name) or LIBRARY[name]
        result = kind.split(" ", 1)[0]
        self.declare(kind.replace(" (", f" @{name}("))
        text = f"call {kind if '...' in kind else result} @{name}({', '.join(arguments)})"
        if result != "void":
            return self.op(text)
        self.do(text)
        return ""

    def __str__(self) -> str:
        return "\n".join([*sorted(self.declarations), *self.lines])


def code_of(name: str, text: Callable[[], str]) -> MachineCode | None:
    """The machine code of a module that calls Python's functions; None if there can be none."""
    if not native_enabled() or not available():
        return None
    try:
        return loaded(name, text(), np.dtype(np.float64), text)
    except RuntimeError:
        return None


class _MethodDef(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("call", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


def builtin_of(address: int, name: str, flags: int, record: np.ndarray, *owned: Any) -> Any:
    """A builtin that owns its record, and all that this points to. Its `self` is a tuple; the address comes first."""
    definition = _MethodDef(name.encode(), address, flags, None)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(definition), (record.ctypes.data, record, definition, owned), None)

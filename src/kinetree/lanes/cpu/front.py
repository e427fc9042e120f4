"""A public function that first tries a builtin of its model, without a Python frame between caller and builtin.

To enter a Python function with keyword-only parameters takes 100 ns or more, as long as the inverse dynamics of a small
robot. So what users call is an object of a special type, which the interpreter calls as it calls a builtin
(vectorcall). It looks up the builtin that the model keeps, calls it with the other arguments, and returns its result.
If the call is not plain, the model has no builtin, or the builtin refuses (returns None), it calls the Python function
with the same arguments. In all else it behaves as that function: it has its name, docstring and signature, is pickled
by name, and is documented as a function.

Such objects live as long as the process. Their type takes no part in garbage collection, and CPython does not clear the
weak references to an object of such a type when it dies: JAX keeps weak references to what it compiles.

Only functions that CPython exports are used. If one is missing, users call the Python function itself.
"""

import ctypes
from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from ..kept.once import immortal, once
from ..llvm.text import module_of
from .host import MachineCode
from .interpreter import Caller, code_of

HEADER = object.__basicsize__
DICT, WEAK, CALL, FUNCTION, NAME, COUNT, FACTS, DEFAULT, NOTHING, END = (HEADER + 8 * k for k in range(10))
TP_CALL, TP_MEMBERS, TP_GETSET = 50, 72, 73  # slots of a type
HAVE_VECTORCALL, DEFAULT_FLAGS = 1 << 11, 1 << 18
SIZE, READ_ONLY = 19, 1  # of a member: its kind and flag


def front_text(name: str, passing: bool) -> str:
    """Definition of `name(self, arguments, count, names)`, a vectorcall function.

    If it is `passing`, all arguments go on to the builtin that is found; else only plain calls do.
    """
    to = Caller("f")
    to.begin(f"ptr @{name}(ptr %self, ptr %given, i64 %flagged, ptr %names)")
    count, facts, lacking = to.op("and i64 %flagged, 9223372036854775807"), "0", ""
    if passing:
        to.require(to.op(f"icmp ne i64 {count}, 0"), otherwise="other")
    else:
        wanted, usual = to.load("i64", "%self", COUNT), to.load("ptr", "%self", DEFAULT)
        one_less = to.op(f"icmp eq i64 {to.op(f'add i64 {count}, 1')}, {wanted}")
        lacking = to.op(f"and i1 {one_less}, {to.op(f'icmp ne ptr {usual}, null')}")
        enough = to.op(f"or i1 {lacking}, {to.op(f'icmp eq i64 {count}, {wanted}')}")
        to.require(to.op(f"and i1 {enough}, {to.op('icmp eq ptr %names, null')}"), otherwise="other")
        count = wanted
    found = to.call("PyObject_GetAttr", f"ptr {to.load('ptr', '%given')}", f"ptr {to.load('ptr', '%self', NAME)}")
    to.require(to.op(f"icmp ne ptr {found}, null"), otherwise="missing")
    call = to.variable("ptr", found)
    if not passing:
        facts = to.load("i64", "%self", FACTS)
        with to.when(to.op(f"icmp ne i64 {facts}, 0")):  # the builtin that belongs to the last argument, or its default
            place = to.at("%given", to.op(f"sub i64 {count}, 1"), "ptr")
            given = to.op(f"select i1 {lacking}, ptr {to.at('%self', DEFAULT)}, ptr {place}")
            last = to.load("ptr", given)
            one = to.call("PyDict_GetItemWithError", f"ptr {found}", f"ptr {last}")
            to.require(to.op(f"icmp ne ptr {one}, null"), otherwise="unknown")
            to.call("Py_IncRef", f"ptr {one}")
            to.call("Py_DecRef", f"ptr {found}")
            to.store("ptr", one, call)
    builtin, arrays = to.load("ptr", call), to.op(f"sub i64 {to.op(f'sub i64 {count}, 1')}, {facts}")
    given = f"ptr {to.at('%given', 8)}", f"i64 {arrays}", f"ptr {'%names' if passing else 'null'}"
    result = to.call("PyObject_Vectorcall", f"ptr {builtin}", *given)
    to.call("Py_DecRef", f"ptr {builtin}")
    nothing = to.load("ptr", "%self", NOTHING)
    with to.when(to.op(f"icmp ne ptr {result}, {nothing}")):  # or an exception
        to.give(f"ptr {result}")
    to.call("Py_DecRef", f"ptr {nothing}")
    to.go("other")
    to.label("unknown")
    to.call("Py_DecRef", f"ptr {found}")
    to.into("missing")
    to.call("PyErr_Clear")
    to.into("other")
    given = f"ptr {to.load('ptr', '%self', FUNCTION)}", "ptr %given", "i64 %flagged", "ptr %names"
    to.end(f"ptr {to.call('PyObject_Vectorcall', *given)}")
    return str(to)


class _Member(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("text", ctypes.c_char_p),
    )


class _Property(ctypes.Structure):
    _fields_ = tuple((n, ctypes.c_char_p if n == "name" else ctypes.c_void_p) for n in ("name", *"abcd"))


class _Slot(ctypes.Structure):
    _fields_ = (("number", ctypes.c_int), ("value", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("size", ctypes.c_int),
        ("item", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


def _address(name: str) -> int:
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


@once
def _kind() -> tuple[type, MachineCode] | None:
    """The type of such objects, and the code of their call functions; None if there can be none."""
    code = code_of("front", lambda: module_of(front_text("front", False), front_text("passing", True)))
    if code is None:
        return None
    offsets = {b"__vectorcalloffset__": CALL, b"__dictoffset__": DICT, b"__weaklistoffset__": WEAK}
    members = (_Member * 4)(*(_Member(n, SIZE, offset, READ_ONLY, None) for n, offset in offsets.items()))
    getters = [_address(f"PyObject_Generic{x}Dict") for x in ("Get", "Set")]
    properties = (_Property * 2)(_Property(b"__dict__", *getters, None, None))
    values = ((TP_CALL, _address("PyVectorcall_Call")), (TP_MEMBERS, members), (TP_GETSET, properties), (0, None))
    slots = (_Slot * 4)(*(_Slot(n, x if x is None or isinstance(x, int) else ctypes.addressof(x)) for n, x in values))
    spec = _Spec(b"kinetree.function", END, 0, DEFAULT_FLAGS | HAVE_VECTORCALL, slots)
    make = ctypes.pythonapi.PyType_FromSpec
    make.restype, make.argtypes = ctypes.py_object, [ctypes.POINTER(_Spec)]
    kind: Any = make(ctypes.byref(spec))
    kind.__repr__ = lambda self: f"<function {self.__qualname__} of {self.__module__}>"
    kind.__reduce__ = lambda self: self.__qualname__
    kind.__get__ = lambda self, _, __=None: self  # As static methods; so it is documented as functions are.
    for owner in (code.engine, members, properties, spec, slots):
        immortal(owner)
    return kind, code


def before(
    function: Callable[..., Any], name: str, arrays: int, about: bool, default: Any = None
) -> Callable[..., Any]:
    """Put a builtin, which a model keeps under `name`, in front of a function.

    The builtin takes as many arrays as `arrays` says; they come right after the model. With `about` the model keeps a
    dictionary of builtins instead. Its key is the argument right after the arrays, or its `default`.
    """
    return _before(function, name, "front", 1 + arrays + about, about, default)


def before_all(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Put a builtin, which a model keeps under `name`, in front of a function. It takes all other arguments."""
    return _before(function, name, "passing", 0, False)


def _before(
    function: Callable[..., Any], name: str, how: str, count: int, about: bool, default: Any = None
) -> Callable[..., Any]:
    found = _kind()
    if found is None:
        return function
    kind, code = found
    front: Any = immortal(update_wrapper(kind(), function))
    front.__wrapped__ = getattr(function, "__wrapped__", function)
    held = front.__dict__.setdefault("_held", (function, name, default))
    usual = 0 if default is None else id(held[2])
    numbers = (code.address(how), id(held[0]), id(held[1]), count, int(about), usual, id(None))
    for offset, number in zip((CALL, FUNCTION, NAME, COUNT, FACTS, DEFAULT, NOTHING), numbers, strict=True):
        ctypes.c_int64.from_address(id(front) + offset).value = number
    return front

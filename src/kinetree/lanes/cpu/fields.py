"""A builtin on an object whose fields are arrays, such as a state: it takes them, and makes another such object.

A step of a small robot takes two microseconds. Python takes as long again to fetch five fields, to cut the result in
five, and to make a new state. Here machine code does all three, around the builtin of the program (direct.py). An input
is a field of the first argument, or another argument. Nothing is copied: an array for one lane serves all lanes, one
number becomes a column, and the last two axes of a matrix become one. The fields of the result are parts of one array.
Only exact types are taken. For anything else, and if the program's builtin refuses, the result is None.
"""

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..kept.once import once
from ..llvm.text import module_of
from . import arrays
from .arrays import HEADER, new_array, set_base
from .host import MachineCode
from .interpreter import METH_FASTCALL, Caller, builtin_of, code_of

TP_NEW = 65  # a slot of a type
MAX_INPUTS = 8
VIEW_FLAGS = arrays.ALIGNED | 0x400  # that can be written to
SCALAR, COLUMNS, MATRIX = 0, 1, 2  # how many axes an input has in one lane

# Offsets in the record of a builtin on fields. Its inputs follow, then its results.
KIND, NOTHING, DIRECT, ARRAY_TYPE, DTYPE, NEW, SET_BASE, MAKE, EMPTY, NUMBER_TYPE = range(0, 80, 8)
MOST, INPUTS, PASSED, MADE, KEPT, WIDTH, OTHERS, LISTS = range(80, 144, 8)
ENTRY = 40  # bytes of an input: name or null, argument, array in its place or null, axes, width
PART = 24  # bytes of a result: name, first column, width (negative: one number, and no axis)


class Input(NamedTuple):
    """The source of an input."""

    name: str | None  # a field of the first argument; None: the input is an argument
    argument: int  # the number of that argument
    absent: np.ndarray | None  # stands for an argument that is None; without it the call is refused
    axes: int  # in one lane
    width: int  # numbers in one lane
    passed: bool = True  # False: it is checked, but the program does not take it


class ResultField(NamedTuple):
    """A field of the result: columns of the output."""

    name: str
    first: int
    width: int  # numbers; -1 for one number without an axis


def _view_text() -> Caller:
    """`view(record, axes, lanes, apart, width, step, data)`: an array on memory of another, or null."""
    to = Caller("v")
    to.begin("internal ptr @view(ptr %record, i32 %axes, i64 %lanes, i64 %apart, i64 %width, i64 %step, ptr %data)")
    to.do("%sizes = alloca [2 x i64]")
    to.do("%steps = alloca [2 x i64]")
    for place, values in (("%sizes", ("%lanes", "%width")), ("%steps", ("%apart", "%step"))):
        for k, value in enumerate(values):
            to.store("i64", value, place, 8 * k)
    kind, described, new = (to.load("ptr", "%record", x) for x in (ARRAY_TYPE, DTYPE, NEW))
    to.call("Py_IncRef", f"ptr {described}")  # the new array's
    given = f"ptr {kind}, ptr {described}, i32 %axes, ptr %sizes, ptr %steps, ptr %data, i32 {VIEW_FLAGS}, ptr null"
    to.end(f"ptr {to.op(f'call {arrays.NEW_KIND} {new}({given})')}")
    return to


def _take_text(dtype: np.dtype) -> Caller:
    """`take(record, source, given, count, batch, lanes, held, passed)`: an input as the program's builtin takes it.

    `batch` is the number of axes of lanes, 0 or 1. `held` gets the object, `passed` the array for the program. The
    caller releases both. Returns false if the input is not plain.
    """
    to = Caller("t")
    to.begin(
        "internal i1 @take(ptr %record, ptr %source, ptr %given, i64 %count, i64 %batch, i64 %lanes, "
        "ptr %held, ptr %passed)"
    )
    name, thing = to.load("ptr", "%source"), to.variable("ptr")
    start, gap, inner = to.variable("ptr"), to.variable("i64"), to.variable("i64")
    with to.when(to.op(f"icmp ne ptr {name}, null")):
        field = to.call("PyObject_GetAttr", f"ptr {to.load('ptr', '%given')}", f"ptr {name}")
        to.require(to.op(f"icmp ne ptr {field}, null"), otherwise="missing")
        to.store("ptr", field, thing)
        to.go("found")
    number = to.load("i64", "%source", 8)
    to.store("ptr", to.load("ptr", "%source", 16), thing)  # stands for an absent one, or is null
    with to.when(to.op(f"icmp slt i64 {number}, %count")):
        one = to.load("ptr", "%given", number, "ptr")
        with to.when(to.op(f"icmp ne ptr {one}, {to.load('ptr', '%record', NOTHING)}")):
            to.store("ptr", one, thing)
    own = to.load("ptr", thing)
    to.require(to.op(f"icmp ne ptr {own}, null"), otherwise="refuse")
    to.call("Py_IncRef", f"ptr {own}")
    to.into("found")
    thing = to.load("ptr", thing)
    to.store("ptr", thing, "%held")
    axes, width = (to.load("i64", "%source", at) for at in (24, 32))
    kind = to.load("ptr", thing, arrays.TYPE)

    def make(data: str, apart: str, step: str | int) -> None:
        """The array is on this memory, with these bytes between lanes, and between numbers."""
        for kind, value, place in (("ptr", data, start), ("i64", apart, gap), ("i64", step, inner)):
            to.store(kind, value, place)
        to.go("make")

    with to.when(to.op(f"icmp ne ptr {kind}, {to.load('ptr', '%record', ARRAY_TYPE)}")):
        same = to.op(f"icmp eq ptr {kind}, {to.load('ptr', '%record', NUMBER_TYPE)}")
        alone = to.op(f"icmp eq i64 {to.op(f'or i64 {axes}, %batch')}, 0")
        to.require(to.op(f"and i1 {same}, {alone}"), otherwise="refuse")  # NumPy's own float, of one lane
        make(to.at(thing, HEADER), "0", dtype.itemsize)
    letters = to.load("i16", to.load("ptr", thing, arrays.DESCRIPTION), arrays.KIND, extra=", align 1")
    to.require(to.op(f"icmp eq i16 {letters}, {arrays.kind_letters(dtype)}"), otherwise="refuse")
    flags = to.op(f"and i32 {to.load('i32', thing, arrays.FLAGS)}, {arrays.ALIGNED}")
    to.require(to.op(f"icmp ne i32 {flags}, 0"), otherwise="refuse")
    ndim = to.op(f"sext i32 {to.load('i32', thing, arrays.NDIM)} to i64")
    more = to.op(f"sub i64 {ndim}, {axes}")  # axes of lanes
    to.require(to.op(f"icmp ule i64 {more}, %batch"), otherwise="refuse")
    sizes, strides, data = (to.load("ptr", thing, at) for at in (arrays.SHAPE, arrays.STRIDES, arrays.DATA))
    apart = to.variable("i64", 0)
    with to.when(to.op(f"icmp ne i64 {more}, 0")):
        to.require(to.op(f"icmp eq i64 {to.load('i64', sizes)}, %lanes"), otherwise="refuse")
        to.store("i64", to.load("i64", strides), apart)
    between = to.load("i64", apart)
    with to.when(to.op(f"icmp eq i64 {axes}, {SCALAR}")):
        make(data, between, dtype.itemsize)
    last = to.op(f"sub i64 {ndim}, 1")
    columns, step = (to.load("i64", x, last, "i64") for x in (sizes, strides))
    with to.when(to.op(f"icmp eq i64 {axes}, {COLUMNS}")):
        to.require(to.op(f"icmp eq i64 {columns}, {width}"), otherwise="refuse")
        with to.when(to.op(f"icmp eq i64 {more}, %batch")):  # as it is
            to.call("Py_IncRef", f"ptr {thing}")
            to.store("ptr", thing, "%passed")
            to.give("i1 true")
        make(data, between, step)
    row = to.op(f"sub i64 {ndim}, 2")  # a matrix, with rows right after one another
    rows, row_step = (to.load("i64", x, row, "i64") for x in (sizes, strides))
    good = to.op(f"icmp eq i64 {to.op(f'mul i64 {rows}, {columns}')}, {width}")
    for fact in (
        f"icmp eq i64 {columns}, 6",
        f"icmp eq i64 {step}, {dtype.itemsize}",
        f"icmp eq i64 {row_step}, {6 * dtype.itemsize}",
    ):
        good = to.op(f"and i1 {good}, {to.op(fact)}")
    to.require(good, otherwise="refuse")
    make(data, between, dtype.itemsize)
    to.label("make")
    data, between, step = to.load("ptr", start), to.load("i64", gap), to.load("i64", inner)
    single = to.op("icmp eq i64 %batch, 0")
    size, further = (to.op(f"select i1 {single}, i64 {a}, i64 {b}") for a, b in ((width, "%lanes"), (step, between)))
    batch = to.op("trunc i64 %batch to i32")
    given = f"i32 {to.op(f'add i32 {batch}, 1')}, i64 {size}, i64 {further}, i64 {width}, i64 {step}, ptr {data}"
    made = to.op(f"call ptr @view(ptr %record, {given})")
    to.store("ptr", made, "%passed")
    to.require(to.op(f"icmp eq ptr {made}, null"), otherwise="done")
    to.into("missing")
    to.call("PyErr_Clear")
    to.into("refuse")
    to.give("i1 false")
    to.label("done")
    to.end("i1 true")
    return to


def _part_text(dtype: np.dtype) -> Caller:
    """`put(record, part, new, whole, batch, lanes)`: set one field of the new object; false on failure."""
    to = Caller("p")
    to.begin("internal i1 @put(ptr %record, ptr %part, ptr %new, ptr %whole, i64 %batch, i64 %lanes)")
    name = to.load("ptr", "%part")
    first, width = (to.load("i64", "%part", at) for at in (8, 16))
    data = to.at(to.load("ptr", "%whole", arrays.DATA), first, f"i{8 * dtype.itemsize}")
    apart = to.op(f"mul i64 {to.load('i64', '%record', WIDTH)}, {dtype.itemsize}")
    alone = to.op(f"icmp slt i64 {width}, 0")
    axes = to.op(f"add i64 %batch, {to.op(f'select i1 {alone}, i64 0, i64 1')}")
    single = to.op("icmp eq i64 %batch, 0")
    size, step = (
        to.op(f"select i1 {single}, i64 {a}, i64 {b}") for a, b in ((width, "%lanes"), (dtype.itemsize, apart))
    )
    given = f"i32 {to.op(f'trunc i64 {axes} to i32')}, i64 {size}, i64 {step}, i64 {width}, i64 {dtype.itemsize}"
    made = to.op(f"call ptr @view(ptr %record, {given}, ptr {data})")
    with to.when(to.op(f"icmp eq ptr {made}, null")):
        to.give("i1 false")
    to.call("Py_IncRef", "ptr %whole")  # taken over
    based = to.op(f"call i32 {to.load('ptr', '%record', SET_BASE)}(ptr {made}, ptr %whole)")
    found = to.call("PyObject_GenericSetAttr", "ptr %new", f"ptr {name}", f"ptr {made}")
    to.call("Py_DecRef", f"ptr {made}")
    both = to.op(f"or i32 {based}, {found}")
    to.end(f"i1 {to.op(f'icmp eq i32 {both}, 0')}")
    return to


def _fields_text() -> Caller:
    """`fields(self, given, count)`, a builtin: the first of `given` is the object, arguments of inputs follow."""
    to = Caller("f")
    to.begin("ptr @fields(ptr %self, ptr %given, i64 %count)")
    to.do(f"%held = alloca [{2 * MAX_INPUTS} x ptr]")  # the second half: arrays for the program
    to.do("%result = alloca ptr")
    record = to.call("PyLong_AsVoidPtr", f"ptr {to.call('PyTuple_GetItem', 'ptr %self', 'i64 0')}")
    nothing = to.load("ptr", record, NOTHING)
    passed = to.at("%held", MAX_INPUTS, "ptr")
    for k in range(2 * MAX_INPUTS):
        to.store("ptr", "null", "%held", k, "ptr")
    to.store("ptr", nothing, "%result")
    to.call("Py_IncRef", f"ptr {nothing}")
    old = to.load("ptr", "%given")
    kind = to.load("ptr", record, KIND)
    to.require(to.op(f"icmp eq ptr {to.load('ptr', old, arrays.TYPE)}, {kind}"))
    # The first input says how many lanes there are.
    entries = to.at(record, LISTS)
    first = to.call("PyObject_GetAttr", f"ptr {old}", f"ptr {to.load('ptr', entries)}")
    to.require(to.op(f"icmp ne ptr {first}, null"), otherwise="failed")
    to.call("Py_DecRef", f"ptr {first}")  # which the object holds
    plain = to.op(f"icmp eq ptr {to.load('ptr', first, arrays.TYPE)}, {to.load('ptr', record, ARRAY_TYPE)}")
    to.require(plain)
    ndim = to.op(f"sub i32 {to.load('i32', first, arrays.NDIM)}, 1")
    to.require(to.op(f"icmp ult i32 {ndim}, 2"))
    batch = to.op(f"zext i32 {ndim} to i64")
    several = to.op(f"icmp eq i64 {batch}, 1")
    lanes = to.op(f"select i1 {several}, i64 {to.load('i64', to.load('ptr', first, arrays.SHAPE))}, i64 1")
    to.require(to.op(f"icmp ule i64 {lanes}, {to.load('i64', record, MOST)}"))
    count = to.load("i64", record, INPUTS)

    with to.each(count) as k:
        entry = to.at(entries, to.op(f"mul i64 {k}, {ENTRY}"))
        places = (to.at(x, k, "ptr") for x in ("%held", passed))
        given = f"ptr %given, i64 %count, i64 {batch}, i64 {lanes}, {', '.join(f'ptr {x}' for x in places)}"
        to.require(to.op(f"call i1 @take(ptr {record}, ptr {entry}, {given})"))

    call = f"ptr {to.load('ptr', record, DIRECT)}", f"ptr {passed}", f"i64 {to.load('i64', record, PASSED)}"
    whole = to.call("PyObject_Vectorcall", *call, "ptr null")
    to.require(to.op(f"icmp ne ptr {whole}, null"), otherwise="failed")
    with to.when(to.op(f"icmp eq ptr {whole}, {nothing}")):
        to.call("Py_DecRef", f"ptr {nothing}")
        to.go("leave")
    make, empty = (to.load("ptr", record, x) for x in (MAKE, EMPTY))
    new = to.op(f"call ptr {make}(ptr {kind}, ptr {empty}, ptr null)")
    to.require(to.op(f"icmp ne ptr {new}, null"), otherwise="unmade")
    parts = to.at(entries, to.op(f"mul i64 {count}, {ENTRY}"))
    made, kept = (to.load("i64", record, x) for x in (MADE, KEPT))
    with to.each(made) as k:
        part = to.at(parts, to.op(f"mul i64 {k}, {PART}"))
        given = f"ptr {record}, ptr {part}, ptr {new}, ptr {whole}, i64 {batch}, i64 {lanes}"
        to.require(to.op(f"call i1 @put({given})"), otherwise="half")
    names = to.at(parts, to.op(f"mul i64 {made}, {PART}"))
    with to.each(kept) as k:
        name = to.load("ptr", names, k, "ptr")
        value = to.call("PyObject_GetAttr", f"ptr {old}", f"ptr {name}")
        to.require(to.op(f"icmp ne ptr {value}, null"), otherwise="half")
        done = to.call("PyObject_GenericSetAttr", f"ptr {new}", f"ptr {name}", f"ptr {value}")
        to.call("Py_DecRef", f"ptr {value}")
        to.require(to.op(f"icmp eq i32 {done}, 0"), otherwise="half")
    to.store("ptr", new, "%result")
    to.call("Py_DecRef", f"ptr {nothing}")
    to.call("Py_DecRef", f"ptr {whole}")
    to.go("leave")
    to.label("half")
    to.call("Py_DecRef", f"ptr {new}")
    to.into("unmade")
    to.call("Py_DecRef", f"ptr {whole}")
    to.into("failed")  # The ordinary path will raise this exception again.
    to.call("PyErr_Clear")
    to.into("leave")
    with to.each(2 * MAX_INPUTS) as k:
        thing = to.load("ptr", "%held", k, "ptr")
        with to.when(to.op(f"icmp ne ptr {thing}, null")):
            to.call("Py_DecRef", f"ptr {thing}")
    result, others = to.load("ptr", "%result"), to.load("ptr", record, OTHERS)
    refused = to.op(f"icmp eq ptr {result}, {nothing}")
    with to.when(to.op(f"and i1 {refused}, {to.op(f'icmp ne ptr {others}, null')}")):
        to.call("Py_DecRef", f"ptr {nothing}")
        to.give(f"ptr {to.call('PyObject_Vectorcall', f'ptr {others}', 'ptr %given', 'i64 %count', 'ptr null')}")
    to.end(f"ptr {result}")
    return to


def _text(dtype: np.dtype) -> str:
    texts = _view_text(), _take_text(dtype), _part_text(dtype), _fields_text()
    return module_of(*map(str, texts))


@once
def _code(dtype: np.dtype) -> MachineCode | None:
    """The machine code of such builtins; None if there can be none."""
    return code_of("fields", lambda: _text(dtype)) if new_array() and set_base() else None


def _make_of(kind: type) -> int:
    """The address of `object.__new__`, which makes objects without a constructor; 0 for types that have another."""
    slot = ctypes.pythonapi.PyType_GetSlot
    slot.restype, slot.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_int]
    own, plain = slot(kind, TP_NEW), slot(object, TP_NEW)
    return plain if own == plain else 0


def over_fields(
    call: Any,
    dtype: np.dtype,
    kind: type,
    inputs: Sequence[Input],
    parts: Sequence[ResultField],
    kept: Sequence[str],
    width: int,
    most: int,
    others: Any = None,
) -> Any:
    """A builtin on an object of a type and on arguments, which returns such an object; None if there is none.

    `call` is the builtin of a program. It takes the inputs that are `passed`, which come first; the first is a field
    with an axis of numbers. The output has `width` numbers. `parts` are fields of the result that are columns of the
    output, and `kept` are fields that the result takes from the object. `most` is the largest number of lanes. `others`
    is another such builtin, if any, which gets the calls that this one refuses.
    """
    code, make = _code(dtype), _make_of(kind)
    if code is None or not make or len(inputs) > MAX_INPUTS:
        return None
    sizes = len(inputs), sum(x.passed for x in inputs), len(parts), len(kept), width
    objects = kind, None, call, np.ndarray, dtype, dtype.type, others
    empty: tuple[()] = ()
    numbers = [*map(id, objects[:5]), new_array(), set_base(), make, id(empty), id(dtype.type), most, *sizes]
    numbers.append(0 if others is None else id(others))
    for x in inputs:
        numbers += [0 if x.name is None else id(x.name), x.argument, 0 if x.absent is None else id(x.absent)]
        numbers += [x.axes, x.width]
    for x in parts:
        numbers += [id(x.name), x.first, x.width]
    record = np.array([*numbers, *map(id, kept)], np.int64)
    return builtin_of(
        code.address("fields"),
        "fields",
        METH_FASTCALL,
        record,
        code.engine,
        objects,
        empty,
        tuple(inputs),
        tuple(parts),
        tuple(kept),
    )

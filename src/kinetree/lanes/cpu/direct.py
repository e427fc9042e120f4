"""A lane program as a Python builtin on NumPy arrays: one call, with no Python inside.

For a single state everything around the program costs more than the program. So each module also holds `direct`, a
function that the interpreter calls as it calls `len`: it looks at the arrays, makes the result, runs the lanes. It
serves the plain case only: exact `numpy.ndarray`s of the program's dtype, C-contiguous, all (width,) or all
(lanes, width), and finite results. Each output has the shape that the model gives it; several come as a tuple, or as
what the model makes of them. Large batches it shares with helpers (helpers.py). For anything else, and while
nobody has counted the helpers, it returns None, and the ordinary path, which knows how to convert, broadcast and
complain, does it all.

Only CPython's stable ABI is used (`Py_buffer` is part of it since 3.11), by address: where a function is missing there
is no `direct`, and nothing else changes. Nothing is shared between calls: scratch is on the stack, or allocated.
"""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import tuning
from ..kept.once import once
from ..llvm.text import Text
from ..program.program import Program
from .helpers import team
from .interpreter import has_functions
from .shared import part_lanes
from .threads import helper_count

API = {
    "PyTuple_GetItem": "ptr (ptr, i64)",
    "PyLong_AsVoidPtr": "ptr (ptr)",
    "PyObject_Type": "ptr (ptr)",
    "Py_IncRef": "void (ptr)",
    "Py_DecRef": "void (ptr)",
    "PyObject_GetBuffer": "i32 (ptr, ptr, i32)",
    "PyBuffer_Release": "void (ptr)",
    "PyErr_Clear": "void ()",
    "Py_BuildValue": "ptr (ptr, ...)",
    "PyObject_Call": "ptr (ptr, ptr, ptr)",
    "PyEval_SaveThread": "ptr ()",
    "PyEval_RestoreThread": "void (ptr)",
}
METH_FASTCALL = 0x80
WRITABLE, FORMAT, CONTIGUOUS = 0x1, 0x4, 0x8  # PyBUF_WRITABLE, PyBUF_FORMAT, PyBUF_ND
VIEW, DATA, NDIM, KIND, SHAPE = 80, 0, 36, 40, 48  # size of a Py_buffer, and offsets in it

# Offsets in a record, which binds the function to one model. Pointers to constants and tables, numbers of turns and
# widths follow, as the lane functions take them; then, for each output, what makes it for one state, and its shape.
ARRAY_TYPE, EMPTY, RESULT, DTYPE, NOTHING, TURNS, GRAIN, SLOTS, HELPERS, TEAM, LISTS = range(0, 88, 8)


@once
def available() -> bool:
    """Whether this interpreter has what a direct call takes; tells LLVM where it is."""
    return has_functions((*API, "PyCFunction_NewEx"))


class Caller(Text):
    """A text that calls the interpreter."""

    def python(self, name: str, *arguments: str) -> str:
        """The result of a function of the API."""
        kind = API[name]
        result = kind.split(" ", 1)[0]
        call = f"call {kind if '...' in kind else result} @{name}({', '.join(arguments)})"
        if result != "void":
            return self.op(call)
        self.do(call)
        return ""

    def require(self, condition: str, then: str, otherwise: str = "leave") -> None:
        """Go on at a new label if the condition holds."""
        self.branch(condition, then, otherwise)
        self.label(then)


def direct_text(program: Program, dtype: np.dtype, width: int) -> str:
    """Definition of `direct`; the module has `lanes` and `lane`."""
    declarations = [f"declare {kind.replace(' (', f' @{name}(')}" for name, kind in API.items()]
    forms = [_form(k, f"(({'n' * (1 + rank)})O)") for k, rank in enumerate(program.output_ranks)]
    forms.append(_form(program.n_outputs, f"({'O' * program.n_outputs})"))
    return "\n".join([*declarations, *forms, str(_run(program, dtype, width)), str(_direct(program, dtype))])


def _form(number: int, text: str) -> str:
    """A format of Py_BuildValue, as a constant."""
    return f'@form{number} = internal unnamed_addr constant [{len(text) + 1} x i8] c"{text}\\00"'


def _direct(program: Program, dtype: np.dtype) -> Text:
    to, inputs, outputs = Caller("d"), program.n_inputs, program.n_outputs
    to.lines.append("define ptr @direct(ptr %self, ptr %given, i64 %count) {")
    to.label("entry")
    to.do(f"%views = alloca [{VIEW * (inputs + outputs)} x i8], align 8")
    to.do(f"%arrays = alloca [{inputs + outputs} x ptr]")
    to.do(f"%made = alloca [{outputs} x ptr]")  # arrays of results that are ours
    to.do("%held = alloca i64")  # views that are ours to release
    to.do("%result = alloca ptr")
    record = to.python("PyLong_AsVoidPtr", f"ptr {to.python('PyTuple_GetItem', 'ptr %self', 'i64 0')}")
    nothing = to.load("ptr", record, NOTHING)
    to.store("i64", 0, "%held")
    to.store("ptr", nothing, "%result")
    for k in range(outputs):
        to.store("ptr", "null", "%made", 8 * k)
    to.require(to.op(f"icmp eq i64 %count, {inputs}"), "inputs")
    shape = _take_inputs(to, record, program, dtype)
    work, helpers = _count_work(to, record, shape[1])
    for k in range(outputs):
        _make_output(to, record, program, shape, k)
    _compute(to, record, program, (shape[1], helpers), work)
    to.label("failed")  # an exception is the ordinary path's to raise
    to.python("PyErr_Clear")
    to.go("leave")
    to.label("leave")
    for k in range(outputs):
        array = to.load("ptr", "%made", 8 * k)
        to.branch(to.op(f"icmp eq ptr {array}, null"), f"left{k}", f"drop{k}")
        to.label(f"drop{k}")
        to.python("Py_DecRef", f"ptr {array}")  # its view still holds it
        to.go(f"left{k}")
        to.label(f"left{k}")
    result = to.load("ptr", "%result")
    to.branch(to.op(f"icmp eq ptr {result}, {nothing}"), "refuse", "release")
    to.label("refuse")
    to.python("Py_IncRef", f"ptr {nothing}")
    to.go("release")
    to.label("release")
    left = to.load("i64", "%held")
    to.require(to.op(f"icmp sgt i64 {left}, 0"), "one_more", "done")
    before = to.op(f"sub i64 {left}, 1")
    to.store("i64", before, "%held")
    to.python("PyBuffer_Release", f"ptr {to.at('%views', to.op(f'mul i64 {before}, {VIEW}'))}")
    to.go("release")
    to.label("done")
    to.do(f"ret ptr {result}")
    to.lines.append("}")
    return to


def _view(to: Caller, k: int, array: str, flags: int) -> str:
    """A view of an array, put among those to release."""
    view = to.at("%views", VIEW * k)
    failed = to.python("PyObject_GetBuffer", f"ptr {array}", f"ptr {view}", f"i32 {flags}")
    to.require(to.op(f"icmp eq i32 {failed}, 0"), f"have{k}", "failed")
    to.store("i64", k + 1, "%held")
    to.store("ptr", to.load("ptr", view, DATA), "%arrays", 8 * k)
    return view


def _take_inputs(to: Caller, record: str, program: Program, dtype: np.dtype) -> tuple[str, str]:
    """Views of all inputs; returns how many axes they have, and how many lanes."""
    array_type = to.load("ptr", record, ARRAY_TYPE)
    ndim = lanes = ""
    for k in range(program.n_inputs):
        array = to.load("ptr", "%given", 8 * k)
        kind = to.python("PyObject_Type", f"ptr {array}")
        to.python("Py_DecRef", f"ptr {kind}")
        to.require(to.op(f"icmp eq ptr {kind}, {array_type}"), f"array{k}")
        view = _view(to, k, array, CONTIGUOUS | FORMAT)
        letter = to.load("i16", to.load("ptr", view, KIND), extra=", align 1")
        to.require(to.op(f"icmp eq i16 {letter}, {ord(dtype.char)}"), f"kind{k}")  # one letter and the end
        axes = to.load("i32", view, NDIM)
        if not ndim:
            to.require(to.op(f"icmp ult i32 {to.op(f'sub i32 {axes}, 1')}, 2"), "axes")
            ndim = axes
        else:
            to.require(to.op(f"icmp eq i32 {axes}, {ndim}"), f"axes{k}")
        sizes = to.load("ptr", view, SHAPE)
        last = to.load("i64", sizes, to.op(f"sext i32 {to.op(f'sub i32 {axes}, 1')} to i64"), "i64")
        single = to.op(f"icmp eq i32 {axes}, 1")
        rows = to.op(f"select i1 {single}, i64 1, i64 {to.load('i64', sizes)}")
        lanes = lanes or rows
        wanted = to.load("i64", record, LISTS + 8 * (3 * len(program.loops) + k))
        same = to.op(f"icmp eq i64 {rows}, {lanes}")
        fits = to.op(f"and i1 {same}, {to.op(f'icmp eq i64 {last}, {wanted}')}")
        address = to.op(f"ptrtoint ptr {to.load('ptr', view, DATA)} to i64")
        odd = to.op(f"and i64 {address}, {dtype.itemsize - 1}")
        to.require(to.op(f"and i1 {fits}, {to.op(f'icmp eq i64 {odd}, 0')}"), f"taken{k}")
    return ndim, lanes


def _count_work(to: Caller, record: str, lanes: str) -> tuple[str, str]:
    """Turns over all lanes, of which there must be some, and how many helpers to share them with, if known."""
    work = to.op(f"mul i64 {lanes}, {to.load('i64', record, TURNS)}")
    known = to.op(f"load atomic i64, ptr {to.load('ptr', record, HELPERS)} monotonic, align 8")
    large = to.op(f"icmp sge i64 {work}, {tuning.SHARED_MIN_TURNS}")
    helpers = to.op(f"select i1 {large}, i64 {known}, i64 0")
    some = to.op(f"icmp sgt i64 {work}, 0")
    to.require(to.op(f"and i1 {some}, {to.op(f'icmp sge i64 {helpers}, 0')}"), "output")
    return work, helpers


def _make_output(to: Caller, record: str, program: Program, shape: tuple[str, str], k: int) -> None:
    """A new array for output k."""
    ndim, lanes = shape
    empty, dtype = to.load("ptr", record, EMPTY), to.load("ptr", record, DTYPE)
    ranks = program.output_ranks
    first = LISTS + 8 * (3 * len(program.loops) + program.n_inputs + program.n_outputs + k + sum(ranks[:k]))
    to.branch(to.op(f"icmp eq i32 {ndim}, 1"), f"single{k}", f"batch{k}")
    to.label(f"single{k}")
    kept = to.load("ptr", record, first)
    to.python("Py_IncRef", f"ptr {kept}")
    to.go(f"make{k}")
    to.label(f"batch{k}")
    sizes = [lanes, *(to.load("i64", record, first + 8 * (1 + i)) for i in range(ranks[k]))]
    built = to.python("Py_BuildValue", f"ptr @form{k}", *(f"i64 {n}" for n in sizes), f"ptr {dtype}")
    to.branch(to.op(f"icmp eq ptr {built}, null"), "failed", f"make{k}")
    to.label(f"make{k}")
    arguments = to.op(f"phi ptr [ {kept}, %single{k} ], [ {built}, %batch{k} ]")
    array = to.python("PyObject_Call", f"ptr {empty}", f"ptr {arguments}", "ptr null")
    to.python("Py_DecRef", f"ptr {arguments}")
    to.require(to.op(f"icmp ne ptr {array}, null"), f"made{k}", "failed")
    to.store("ptr", array, "%made", 8 * k)
    _view(to, program.n_inputs + k, array, WRITABLE | CONTIGUOUS)


def _compute(to: Caller, record: str, program: Program, numbers: tuple[str, str], work: str) -> None:
    """Run the lanes, without the interpreter's lock where that pays; refuse a result that is not finite."""
    run = f"call i1 @run(ptr {record}, ptr %arrays, {', '.join(f'i64 {n}' for n in numbers)})"
    to.branch(to.op(f"icmp slt i64 {work}, {tuning.UNLOCKED_MIN_TURNS}"), "short", "long")
    to.label("short")
    quick = to.op(run)
    to.go("check")
    to.label("long")
    state = to.python("PyEval_SaveThread")
    slow = to.op(run)
    to.python("PyEval_RestoreThread", f"ptr {state}")
    to.go("check")
    to.label("check")
    good = to.op(f"phi i1 [ {quick}, %short ], [ {slow}, %long ]")
    to.branch(good, "answer", "leave")
    to.label("answer")
    arrays = [to.load("ptr", "%made", 8 * k) for k in range(program.n_outputs)]
    if program.n_outputs == 1:
        to.store("ptr", arrays[0], "%result")
        to.store("ptr", "null", "%made")
        to.go("leave")
        return
    together = to.python("Py_BuildValue", f"ptr @form{program.n_outputs}", *(f"ptr {x}" for x in arrays))
    to.require(to.op(f"icmp ne ptr {together}, null"), "together", "failed")
    kind = to.load("ptr", record, RESULT)
    plain = to.op(f"icmp eq ptr {kind}, {to.load('ptr', record, NOTHING)}")
    to.branch(plain, "tuple", "named")
    to.label("tuple")
    to.store("ptr", together, "%result")
    to.go("leave")
    to.label("named")
    named = to.python("PyObject_Call", f"ptr {kind}", f"ptr {together}", "ptr null")
    to.python("Py_DecRef", f"ptr {together}")
    to.require(to.op(f"icmp ne ptr {named}, null"), "have_named", "failed")
    to.store("ptr", named, "%result")
    to.go("leave")


def _run(program: Program, dtype: np.dtype, width: int) -> Text:
    """`run(record, arrays, lanes, helpers)`: whether the lanes were run and every result is finite."""
    to, size = Text("r"), dtype.itemsize
    for declaration in ("ptr @aligned_alloc(i64, i64)", "void @free(ptr)"):
        to.lines.append(f"declare {declaration}")
    to.lines.append("define internal i1 @run(ptr %record, ptr %arrays, i64 %lanes, i64 %helpers) {")
    to.label("entry")
    starts = [to.at("%record", LISTS + 8 * k * len(program.loops)) for k in range(4)]
    lists = ", ".join(f"ptr {x}" for x in ("%arrays", to.at("%arrays", 8 * program.n_inputs), *starts))
    to.branch(to.op("icmp sgt i64 %helpers, 0"), "together", "alone")
    to.label("together")
    grain, slots = (to.load("i64", "%record", offset) for offset in (GRAIN, SLOTS))
    numbers = ", ".join(f"i64 {n}" for n in ("%lanes", grain, slots, "%helpers"))
    verdict = to.op(f"call i64 @shared({lists}, {numbers}, ptr {to.load('ptr', '%record', TEAM)})")
    to.do(f"ret i1 {to.op(f'icmp eq i64 {verdict}, 0')}")
    to.label("alone")
    few = to.op(f"icmp slt i64 %lanes, {width}")
    block = to.op(f"select i1 {few}, i64 {size}, i64 {size * width}")
    needed = to.op(f"mul i64 {to.load('i64', '%record', SLOTS)}, {block}")
    bytes_ = to.op(f"and i64 {to.op(f'add i64 {needed}, 63')}, -64")
    small = to.op(f"icmp sle i64 {bytes_}, {tuning.STACK_BYTES}")
    to.branch(small, "stack", "heap")
    to.label("stack")
    near = to.op(f"alloca i8, i64 {bytes_}, align 64")
    to.go("go")
    to.label("heap")
    far = to.op(f"call ptr @aligned_alloc(i64 64, i64 {bytes_})")
    to.branch(to.op(f"icmp eq ptr {far}, null"), "out_of_memory", "go")
    to.label("out_of_memory")
    to.do("ret i1 false")
    to.label("go")
    scratch = to.op(f"phi ptr [ {near}, %stack ], [ {far}, %heap ]")
    to.branch(few, "scalars", "vectors")
    for label, name in (("scalars", "lane"), ("vectors", "lanes")):
        to.label(label)
        to.do(f"call void @{name}({lists}, i64 0, i64 %lanes, ptr {scratch})")
        to.go("ran")
    to.label("ran")
    to.branch(small, "begin", "give_back")
    to.label("give_back")
    to.do(f"call void @free(ptr {scratch})")
    to.go("begin")
    to.label("begin")
    finite = "true"
    for k in range(program.n_inputs, program.n_inputs + program.n_outputs):
        total = to.op(f"mul i64 {to.load('i64', starts[3], 8 * k)}, %lanes")
        one = to.op(f"call i1 @all_finite(ptr {to.load('ptr', '%arrays', 8 * k)}, i64 {total})")
        finite = to.op(f"and i1 {finite}, {one}")
    to.do(f"ret i1 {finite}")
    to.lines.append("}")
    return to


class _MethodDef(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("call", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


def bind(
    code: Any,
    slots: int,
    widths: tuple[int, ...],
    tables: tuple,
    constants: tuple,
    shapes: tuple[tuple[int, ...], ...],
    result: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """The builtin of a compiled program for one model.

    `widths` are those of the inputs, then of the outputs; `shapes` are the outputs' for one state; `result` makes what
    is returned of several outputs.
    """
    objects = (np.ndarray, np.empty, result, code.dtype, None)
    singles = tuple((shape, code.dtype) for shape in shapes)
    turns = [len(t) for t in tables]
    addresses = [x.ctypes.data for x in (*constants, *tables)]
    numbers = (sum(turns), part_lanes(sum(turns), code.width), slots, ctypes.addressof(helper_count), team())
    made = [n for single in singles for n in (id(single), *single[0])]
    record = np.array([*map(id, objects), *numbers, *addresses, *turns, *widths, *made], np.int64)
    definition = _MethodDef(b"direct", code.direct, METH_FASTCALL, None)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    # the builtin owns its `self`: everything it needs, and first of all the address of the record
    kept = (record.ctypes.data, record, definition, objects, singles, tables, constants, code, helper_count)
    return make(ctypes.addressof(definition), kept, None)

"""A lane program as a Python builtin on NumPy arrays: one call, with no Python inside.

For a single state the code around the program costs more than the program. So each module also holds `direct`, a
function that the interpreter calls as it calls `len`: it checks the arrays, makes the result, and runs the lanes. It
serves the plain case only: exact `numpy.ndarray`s of the program's dtype, all (width,) or all (lanes, width), with the
numbers of a row next to each other. Forces on bodies come last, (bodies, 6) for each state, without gaps.
Results must be finite, and small enough that memory need not be checked first.
Rows may be any distance apart, because parts of states are columns of one array. Each output has the shape that the
model gives it; several come as a tuple or a named tuple. Large batches are shared with helpers (helpers.py). In all
other cases, and before the helpers were counted, it returns None. Then the ordinary path converts, broadcasts, or
raises.

Only the stable ABI of CPython and that of NumPy (arrays.py) are used, by address. If a function is missing there is no
`direct`, and nothing else changes. Calls share only hints (order.py) and free scratch memory (scratch.py).
"""

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .. import tuning
from ..llvm.scratch import leave_scratch, take_scratch
from ..llvm.text import Text
from ..program.program import Program
from . import arrays, interpreter, kept_results
from .arrays import new_array
from .helpers import SCRATCH_PLACES, team
from .interpreter import METH_FASTCALL, Caller, builtin_of
from .recycled import empty, last_reach
from .shared import NO_MEMORY, ONE_FRAME, part_lanes
from .threads import helper_count

# Offsets in a record, which binds the function to one model. Pointers to constants and tables, numbers of turns and
# widths follow, in the form of the lane functions; then the function for large outputs, and their shapes for one state.
ARRAY_TYPE, NEW, RESULT, DTYPE, NOTHING, KEPT, TURNS, GRAIN, SLOTS, ROOM, HELPERS, TEAM, MOST = range(0, 104, 8)
LAST_REACH, UNCHECKED, FORCES, LISTS = 104, 112, 120, 128
FORCE = 6  # numbers of a force on a body


def available() -> bool:
    """True if this interpreter and its NumPy have all functions of a direct call."""
    return interpreter.available() and new_array() != 0


def direct_text(program: Program, dtype: np.dtype, width: int) -> str:
    """Definition of `direct`; the module has `lane` and `some_lanes`."""
    return "\n".join([str(_run(program, dtype, width)), str(_direct(program, dtype))])


def _direct(program: Program, dtype: np.dtype) -> Text:
    to, inputs, outputs = Caller("d"), program.n_inputs, program.n_outputs
    to.begin("ptr @direct(ptr %self, ptr %given, i64 %count)")
    to.do(f"%arrays = alloca [{inputs + outputs} x ptr]")
    to.do(f"%made = alloca [{outputs} x ptr]")  # result arrays that this call holds
    to.do(f"%sizes = alloca [{1 + max(program.output_ranks)} x i64]")
    for name in ("taken", "reach"):  # bytes of all results, and their reach (recycled.py)
        to.do(f"%{name} = alloca i64")
        to.store("i64", 0, f"%{name}")
    to.do(f"%widths = alloca [{2 * (inputs + outputs)} x i64]")  # how far lanes are apart in arrays, then columns
    to.do("%result = alloca ptr")
    to.do("%again = alloca ptr")  # an earlier result that is used again; this call holds it until it returns it
    to.store("ptr", "null", "%again")
    record = to.call("PyLong_AsVoidPtr", f"ptr {to.call('PyTuple_GetItem', 'ptr %self', 'i64 0')}")
    nothing = to.load("ptr", record, NOTHING)
    to.store("ptr", nothing, "%result")
    for k in range(outputs):
        to.store("ptr", "null", "%made", 8 * k)
    to.require(to.op(f"icmp eq i64 %count, {inputs}"))
    shape = _take_inputs(to, record, program, dtype)
    work, helpers = _count_work(to, record, shape[1])
    _take_kept(to, record, program, shape[0])
    for k in range(outputs):
        _make_output(to, record, program, dtype, shape, k)
    to.into("run")
    _compute(to, record, program, (shape[1], helpers), work)
    to.label("keep")  # The list has one reference, the caller the other.
    kept = to.load("ptr", record, KEPT)
    one = to.op(f"icmp eq i32 {shape[0]}, 1")
    with to.when(to.op(f"and i1 {one}, {to.op(f'icmp ne ptr {kept}, null')}")):
        last = to.call("PyList_GetItem", f"ptr {kept}", "i64 0")
        made = to.load("ptr", "%result")
        for number, thing in ((1, last), (0, made)):
            to.call("Py_IncRef", f"ptr {thing}")
            to.call("PyList_SetItem", f"ptr {kept}", f"i64 {number}", f"ptr {thing}")
    to.go("leave")
    to.label("failed")  # The ordinary path will raise this exception again.
    to.call("PyErr_Clear")
    to.into("leave")
    for place in (("%again", 0), *(("%made", 8 * k) for k in range(outputs))):
        array = to.load("ptr", *place)
        with to.when(to.op(f"icmp ne ptr {array}, null")):
            to.call("Py_DecRef", f"ptr {array}")
    result = to.load("ptr", "%result")
    with to.when(to.op(f"icmp eq ptr {result}, {nothing}")):
        to.call("Py_IncRef", f"ptr {nothing}")
    to.end(f"ptr {result}")
    return to


def _take_inputs(to: Caller, record: str, program: Program, dtype: np.dtype) -> tuple[str, str]:
    """Load the addresses of all inputs. Return how many axes the arrays have, and how many lanes."""
    array_type = to.load("ptr", record, ARRAY_TYPE)
    ndim = lanes = ""
    for k in range(program.n_inputs):
        array = to.load("ptr", "%given", 8 * k)
        kind = to.load("ptr", array, arrays.TYPE)
        to.require(to.op(f"icmp eq ptr {kind}, {array_type}"))
        letters = to.load("i16", to.load("ptr", array, arrays.DESCRIPTION), arrays.KIND, extra=", align 1")
        to.require(to.op(f"icmp eq i16 {letters}, {arrays.kind_letters(dtype)}"))
        flags = to.op(f"and i32 {to.load('i32', array, arrays.FLAGS)}, {arrays.ALIGNED}")
        to.require(to.op(f"icmp eq i32 {flags}, {arrays.ALIGNED}"))
        axes = to.load("i32", array, arrays.NDIM)
        sizes, strides = (to.load("ptr", array, at) for at in (arrays.SHAPE, arrays.STRIDES))
        axis = to.op(f"sext i32 {to.op(f'sub i32 {axes}, 1')} to i64")
        last, step = (to.load("i64", x, axis, "i64") for x in (sizes, strides))
        if not ndim:
            to.require(to.op(f"icmp ult i32 {to.op(f'sub i32 {axes}, 1')}, 2"))
            ndim = axes
        else:
            more = to.op(f"zext i32 {to.op(f'sub i32 {axes}, {ndim}')} to i64")
            wanted = to.load("i64", record, FORCES) if k == program.n_inputs - 1 else "0"
            to.require(to.op(f"icmp eq i64 {more}, {wanted}"))
            last = _numbers(to, to.op(f"icmp ne i64 {more}, 0"), (sizes, strides, axis), last, dtype)
        single = to.op(f"icmp eq i32 {ndim}, 1")
        rows = to.op(f"select i1 {single}, i64 1, i64 {to.load('i64', sizes)}")
        lanes = lanes or rows
        wanted = to.load("i64", record, LISTS + 8 * (3 * len(program.loops) + k))
        same = to.op(f"icmp eq i64 {rows}, {lanes}")
        to.require(to.op(f"and i1 {same}, {to.op(f'icmp eq i64 {last}, {wanted}')}"))
        close = to.op(f"icmp eq i64 {step}, {dtype.itemsize}")
        to.require(to.op(f"or i1 {close}, {to.op(f'icmp slt i64 {last}, 2')}"))
        between = to.load("i64", strides)  # aligned ones are whole numbers apart
        to.store("i64", to.op(f"sdiv i64 {between}, {dtype.itemsize}"), "%widths", 8 * k)
        to.store("ptr", to.load("ptr", array, arrays.DATA), "%arrays", 8 * k)
    count = program.n_inputs + program.n_outputs
    for k in range(count):
        columns = to.load("i64", record, LISTS + 8 * (3 * len(program.loops) + k))
        to.store("i64", columns, "%widths", 8 * (count + k))
        if k >= program.n_inputs:
            to.store("i64", columns, "%widths", 8 * k)
    return ndim, lanes


def _numbers(to: Caller, pairs: str, given: tuple[str, str, str], last: str, dtype: np.dtype) -> str:
    """How many numbers a state has in an input: the last axis, or with `pairs` (bodies, 6) forces without gaps."""
    sizes, strides, axis = given
    total = to.variable("i64", last)
    with to.when(pairs):
        before = to.op(f"sub i64 {axis}, 1")
        bodies, apart = (to.load("i64", x, before, "i64") for x in (sizes, strides))
        whole = to.op(f"icmp eq i64 {apart}, {FORCE * dtype.itemsize}")
        to.require(to.op(f"and i1 {whole}, {to.op(f'icmp eq i64 {last}, {FORCE}')}"))
        to.store("i64", to.op(f"mul i64 {bodies}, {FORCE}"), total)
    return to.load("i64", total)


def _count_work(to: Caller, record: str, lanes: str) -> tuple[str, str]:
    """Count the turns of all lanes, and choose how many helpers share them. Refuse a call without lanes."""
    work = to.op(f"mul i64 {lanes}, {to.load('i64', record, TURNS)}")
    known = to.op(f"load atomic i64, ptr {to.load('ptr', record, HELPERS)} monotonic, align 8")
    large = to.op(f"icmp sge i64 {work}, {tuning.SHARED_MIN_TURNS}")
    helpers = to.op(f"select i1 {large}, i64 {known}, i64 0")
    some = to.op(f"icmp sgt i64 {work}, 0")
    to.require(to.op(f"and i1 {some}, {to.op(f'icmp sge i64 {helpers}, 0')}"))
    return work, helpers


def _take_kept(to: Caller, record: str, program: Program, ndim: str) -> None:
    """Go to `run` with an earlier result of one state that is free (kept_results.py), else go on."""
    count, ranks = program.n_outputs, program.output_ranks
    kept, dtype = to.load("ptr", record, KEPT), to.load("ptr", record, DTYPE)
    sizes_at = LISTS + 8 * (3 * len(program.loops) + 2 * program.n_inputs + 3 * count)
    one = to.op(f"icmp eq i32 {ndim}, 1")
    to.require(to.op(f"and i1 {one}, {to.op(f'icmp ne ptr {kept}, null')}"), "look0", "fresh")
    for number in range(kept_results.KEPT):
        following = f"look{number + 1}" if number + 1 < kept_results.KEPT else "fresh"
        thing = to.call("PyList_GetItem", f"ptr {kept}", f"i64 {number}")
        to.require(to.op(f"icmp ne ptr {thing}, {to.load('ptr', record, NOTHING)}"), otherwise=following)
        to.require(kept_results.is_free(to, thing), otherwise=following)
        for k in range(count):
            array = to.call("PyTuple_GetItem", f"ptr {thing}", f"i64 {k}") if count > 1 else thing
            first = sizes_at + 8 * sum(ranks[:k])
            sizes = [to.load("i64", record, first + 8 * i) for i in range(ranks[k])]
            to.require(kept_results.is_as_made(to, array, dtype, sizes), otherwise=following)
            to.require(kept_results.has_shape(to, array, sizes), otherwise=following)
            to.store("ptr", to.load("ptr", array, arrays.DATA), "%arrays", 8 * (program.n_inputs + k))
        to.call("Py_IncRef", f"ptr {thing}")
        to.store("ptr", thing, "%again")
        to.go("run")
        to.label(following)


def _make_output(to: Caller, record: str, program: Program, dtype: np.dtype, shape: tuple[str, str], k: int) -> None:
    """A new array for output k. A large one is on the memory of an earlier result that is gone (recycled.py)."""
    ndim, lanes = shape
    ranks = program.output_ranks
    first_width = LISTS + 8 * (3 * len(program.loops) + program.n_inputs)
    makers = first_width + 8 * (program.n_outputs + program.n_inputs + program.n_outputs)
    sizes_at = makers + 8 * (program.n_outputs + sum(ranks[:k]))
    numbers = to.op(f"mul i64 {to.load('i64', record, first_width + 8 * k)}, {lanes}")
    taken = to.op(f"mul i64 {numbers}, {dtype.itemsize}")
    to.require(to.op(f"icmp sle i64 {taken}, {to.load('i64', record, MOST)}"))
    to.store("i64", to.op(f"add i64 {to.load('i64', '%taken')}, {taken}"), "%taken")
    single = to.op(f"icmp eq i32 {ndim}, 1")
    few = to.op(f"icmp slt i64 {numbers}, {tuning.RECYCLED_MIN_BYTES // dtype.itemsize}")
    to.branch(to.op(f"or i1 {single}, {few}"), f"new{k}", f"used{k}")
    to.label(f"new{k}")
    to.store("i64", lanes, "%sizes")
    for i in range(ranks[k]):
        to.store("i64", to.load("i64", record, sizes_at + 8 * i), "%sizes", 8 * (1 + i))
    sizes = to.op(f"select i1 {single}, ptr {to.at('%sizes', 8)}, ptr %sizes")
    rank = to.op(f"add i32 {ndim}, {ranks[k] - 1}")
    kind, described, new = (to.load("ptr", record, x) for x in (ARRAY_TYPE, DTYPE, NEW))
    to.call("Py_IncRef", f"ptr {described}")  # the new array's
    given = f"ptr {kind}, ptr {described}, i32 {rank}, ptr {sizes}, ptr null, ptr null, i32 0, ptr null"
    fresh = to.op(f"call {arrays.NEW_KIND} {new}({given})")
    to.go(f"array_of{k}")
    to.label(f"used{k}")
    count = to.call("PyLong_FromLongLong", f"i64 {lanes}")
    to.require(to.op(f"icmp ne ptr {count}, null"), f"counted{k}", "failed")
    make = to.load("ptr", record, makers + 8 * k)
    used = to.call("PyObject_CallFunctionObjArgs", f"ptr {make}", f"ptr {count}", "ptr null")
    reach = to.op(f"load atomic i64, ptr {to.load('ptr', record, LAST_REACH)} monotonic, align 8")
    to.store("i64", reach, "%reach")
    to.call("Py_DecRef", f"ptr {count}")
    to.into(f"array_of{k}")
    array = to.op(f"phi ptr [ {fresh}, %new{k} ], [ {used}, %counted{k} ]")
    to.require(to.op(f"icmp ne ptr {array}, null"), otherwise="failed")
    to.store("ptr", array, "%made", 8 * k)
    to.store("ptr", to.load("ptr", array, arrays.DATA), "%arrays", 8 * (program.n_inputs + k))


def _compute(to: Caller, record: str, program: Program, numbers: tuple[str, str], work: str) -> None:
    """Run the lanes, without the interpreter's lock if that pays. Refuse a result that is not finite."""
    taken, last = (to.load("i64", f"%{name}") for name in ("taken", "reach"))
    more = ", ".join(f"i64 {n}" for n in (*numbers, to.larger(taken, last)))
    run = f"call i1 @run(ptr {record}, ptr %arrays, ptr %widths, {more})"
    long, state = to.op(f"icmp sge i64 {work}, {tuning.UNLOCKED_MIN_TURNS}"), to.variable("ptr")
    with to.when(long):
        to.store("ptr", to.call("PyEval_SaveThread"), state)
    good = to.op(run)
    with to.when(long):
        to.call("PyEval_RestoreThread", f"ptr {to.load('ptr', state)}")
    to.require(good)
    again = to.load("ptr", "%again")
    with to.when(to.op(f"icmp ne ptr {again}, null")):
        to.store("ptr", again, "%result")
        to.store("ptr", "null", "%again")
        to.go("leave")
    found = [to.load("ptr", "%made", 8 * k) for k in range(program.n_outputs)]
    if program.n_outputs == 1:
        to.store("ptr", found[0], "%result")
        to.store("ptr", "null", "%made")
        to.go("keep")
        return
    kind = to.load("ptr", record, RESULT)
    plain = to.op(f"icmp eq ptr {kind}, {to.load('ptr', record, NOTHING)}")
    to.branch(plain, "tuple", "named")
    count = f"i64 {program.n_outputs}"
    to.label("tuple")
    unnamed = to.call("PyTuple_New", count)
    to.go("together")
    to.label("named")  # A named tuple is a tuple with another type: its constructor would take a quarter microsecond.
    named = to.call("PyType_GenericAlloc", f"ptr {kind}", count)
    to.into("together")
    together = to.op(f"phi ptr [ {unnamed}, %tuple ], [ {named}, %named ]")
    to.require(to.op(f"icmp ne ptr {together}, null"), otherwise="failed")
    for k, array in enumerate(found):
        to.call("PyTuple_SetItem", f"ptr {together}", f"i64 {k}", f"ptr {array}")  # takes the array over
        to.store("ptr", "null", "%made", 8 * k)
    to.store("ptr", together, "%result")
    to.go("keep")


def _run(program: Program, dtype: np.dtype, width: int) -> Text:
    """`run(record, arrays, widths, lanes, helpers, reach)`: true if the lanes ran and every result is finite."""
    to, size = Text("r"), dtype.itemsize
    to.begin("internal i1 @run(ptr %record, ptr %arrays, ptr %widths, i64 %lanes, i64 %helpers, i64 %reach)")
    starts = [to.at("%record", LISTS + 8 * k * len(program.loops)) for k in range(3)]
    lists = ", ".join(f"ptr {x}" for x in ("%arrays", to.at("%arrays", 8 * program.n_inputs), *starts, "%widths"))
    any_number = to.op(f"icmp ne i64 {to.load('i64', '%record', UNCHECKED)}, 0")
    with to.when(to.op("icmp sgt i64 %helpers, 0")):
        grain, slots = (to.load("i64", "%record", offset) for offset in (GRAIN, ROOM))
        numbers = ", ".join(f"i64 {n}" for n in ("%reach", "%lanes", grain, slots, "%helpers"))
        team = to.load("ptr", "%record", TEAM)
        verdict = to.op(f"call i64 @shared({lists}, {numbers}, ptr {team}, i64 0, ptr {ONE_FRAME})")
        faults = to.op(f"select i1 {any_number}, i64 {NO_MEMORY}, i64 -1")
        verdict = to.op(f"and i64 {verdict}, {faults}")
        to.give(f"i1 {to.op(f'icmp eq i64 {verdict}, 0')}")
    one = to.op("icmp eq i64 %lanes, 1")
    of_one, of_block = (
        to.op(f"mul i64 {to.load('i64', '%record', offset)}, {n * size}") for offset, n in ((SLOTS, 1), (ROOM, width))
    )
    needed = to.op(f"select i1 {one}, i64 {of_one}, i64 {of_block}")
    bytes_ = to.op(f"and i64 {to.op(f'add i64 {needed}, 63')}, -64")
    small = to.op(f"icmp sle i64 {bytes_}, {tuning.STACK_BYTES}")
    to.branch(small, "stack", "heap")
    to.label("stack")
    near = to.op(f"alloca i8, i64 {bytes_}, align 64")
    to.go("go")
    to.label("heap")
    places = to.at(to.load("ptr", "%record", TEAM), SCRATCH_PLACES)
    far = take_scratch(to, places, bytes_)
    with to.when(to.op(f"icmp eq ptr {far}, null")):
        to.give("i1 false")
    heap = to.block
    to.into("go")
    scratch = to.op(f"phi ptr [ {near}, %stack ], [ {far}, %{heap} ]")
    function = to.op(f"select i1 {one}, ptr @lane, ptr @some_lanes")
    finite = to.op(f"call i1 {function}({lists}, i64 %reach, i64 0, i64 %lanes, ptr {scratch})")
    with to.when(to.op(f"xor i1 {small}, true")):
        leave_scratch(to, to.at(to.load("ptr", "%record", TEAM), SCRATCH_PLACES), scratch)
    to.end(f"i1 {to.op(f'or i1 {finite}, {any_number}')}")
    return to


def _used(shape: tuple[int, ...], dtype: np.dtype, lanes: int) -> np.ndarray:
    return empty((lanes, *shape), dtype)


def bind(
    code: Any,
    slots: int,
    widths: tuple[int, ...],
    tables: tuple,
    constants: tuple,
    shapes: tuple[tuple[int, ...], ...],
    result: type[tuple] | None = None,
    most: int = 1 << 62,
    unchecked: bool = False,
    forces: bool = False,
) -> Callable[..., Any]:
    """The builtin of a compiled program for one model.

    `widths` are those of the inputs, then of the outputs. `shapes` are those of the outputs, for one state. `result` is
    the named tuple for several outputs, or None for a plain tuple. `most` is the limit of an output in bytes.
    With `unchecked`, results that are not finite are given back, too. With `forces` the last input is forces on bodies.
    """
    objects = (np.ndarray, result, code.dtype, None)
    turns = [len(t) for t in tables]
    addresses = [x.ctypes.data for x in (*constants, *tables)]
    grain, room = part_lanes(sum(turns), code.width), slots + sum(widths)
    helpers, reach = map(ctypes.addressof, (helper_count, last_reach))
    numbers = (sum(turns), grain, slots, room, helpers, team(), most, reach, int(unchecked), int(forces))
    last_results = kept_results.new_list(code.dtype.itemsize * sum(widths[-len(shapes) :]))
    head = (id(np.ndarray), new_array(), *map(id, objects[1:]), id(last_results) if last_results else 0)
    makers = tuple(partial(_used, shape, code.dtype) for shape in shapes)
    sizes = [n for shape in shapes for n in shape]
    record = np.array([*head, *numbers, *addresses, *turns, *widths, *widths, *map(id, makers), *sizes], np.int64)
    owned = objects, makers, tables, constants, code, helper_count, last_reach, last_results
    return builtin_of(code.direct, "direct", METH_FASTCALL, record, *owned)

"""The XLA FFI handler of a compiled lane program, as LLVM text.

XLA calls `handler(call frame)`. The frame (versions 0.3 to 0.5 of XLA's C API, c_api.h) is decoded here, at fixed
offsets; `supported()` checks once that the JAX at hand has one of them. Operands are the tables, the constants, then
the lane inputs; the one attribute is the number of slots. Lanes are cut into tasks of `grain` lanes. XLA's threads take
them one after the other from a counter. Errors are returned to XLA, and JAX raises them.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .. import tuning
from ..kept.once import once
from ..program.program import Program
from .scratch import KEPT_SCRATCH, leave_scratch, scratch_text, take_scratch
from .text import Text

VERSIONS = ((0, 3), (0, 4), (0, 5))  # whose call frames have the offsets used here

RESOURCE_EXHAUSTED, INTERNAL = 8, 13  # error codes of XLA
CORES = "cores"
CLOSED = 1 << 62  # the counter of a record, if no part may be taken


def text_constant(name: str, text: str) -> str:
    """Definition of a string that ends with a zero byte."""
    raw = text.encode() + b"\0"
    letters = "".join(rf"\{byte:02X}" for byte in raw)
    return f'@{name} = internal unnamed_addr constant [{len(raw)} x i8] c"{letters}"'


# Declarations of the functions that tasks and handlers call; the number of cores, which is written when the module is
# loaded; and the number of calls of the handler that run now.
MEMORY = f"""declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare i32 @madvise(ptr, i64, i32)
@{CORES} = global i64 1
@calls = internal global i64 0
{text_constant("no_memory", "kinetree: there is no memory for the slots of a lane program; use fewer threads")}"""

# offsets in a task's record
COUNTER, TASKS, DONE, OWNERS, LANES, GRAIN, SCRATCH, REACH, POINTERS = range(0, 72, 8)


@once
def version() -> tuple[int, ...]:
    """Version of the FFI of the installed JAX; empty if unknown."""
    try:
        text = (Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h").read_text()
    except OSError:
        return ()
    found = (re.search(rf"#define XLA_FFI_API_{part} (\d+)", text) for part in ("MAJOR", "MINOR"))
    return tuple(int(m.group(1)) for m in found if m)


def supported() -> bool:
    """True if the installed JAX can call handlers written here."""
    return version() in VERSIONS


def answer_metadata(to: Text, traits: int) -> None:
    """Start a handler. XLA asks for our version when it registers it; stages other than execution do nothing."""
    extension = to.load("ptr", "%frame", 8)
    with to.when(to.op(f"icmp ne ptr {extension}, null")):
        metadata = to.load("ptr", extension, 24)
        major, minor = version() or VERSIONS[0]
        for value, offset in ((major, 24), (minor, 28), (traits, 32)):
            to.store("i32", value, metadata, offset)
        to.give("ptr null")
    with to.when(to.op(f"icmp ne i32 {to.load('i32', '%frame', 32)}, 3")):
        to.give("ptr null")


def handler_text(program: Program, dtype: np.dtype, width: int, grain: int, ordered: bool = False) -> str:
    """Definitions of `task` and `handler`. If `ordered`, the lanes of a part are sorted."""
    count = len(program.loops)
    arrays = program.n_inputs + program.n_outputs
    groups = [program.n_inputs, program.n_outputs, count, count, count, 2 * arrays]
    starts = [POINTERS + 8 * sum(groups[:k]) for k in range(len(groups) + 1)]

    def arguments(to: Text) -> str:
        return ", ".join([*(f"ptr {to.at('%job', o)}" for o in starts[:6]), f"i64 {to.load('i64', '%job', REACH)}"])

    task = task_text(arguments, scratch=True)
    handler = _handler(program, dtype, (width, grain), starts, ordered)
    return "\n".join([MEMORY, scratch_text(), str(task), str(handler)])


def enough_to_sort(to: Text, grain: str | int, lanes: str, threads: str, width: int) -> str:
    """Lanes of a part: enough that sorting brings similar lanes together, but at most the share of a thread."""
    share = to.op(f"and i64 {to.op(f'sdiv i64 {lanes}, {threads}')}, {-width}")
    return to.larger(to.smaller(share, tuning.ORDERED_PART_LANES), grain)


def task_text(arguments: Callable[[Text], str], width: int = 0, scratch: bool = False) -> Text:
    """`task(job)`: run parts until none is left. The last thread to leave frees the record.

    A part is a call with `arguments`, its first and its last lane: of `some_lanes`, with scratch memory, or of `lanes`,
    or `lane` if there are fewer than `width` of them.
    """
    to = Text("t")
    to.begin("internal void @task(ptr %job)")
    memory = take_scratch(to, KEPT_SCRATCH, to.load("i64", "%job", SCRATCH)) if scratch else ""
    given = arguments(to)
    if scratch:  # without memory this thread leaves all parts to others
        to.require(to.op(f"icmp ne ptr {memory}, null"))
    to.go("take")

    def run(lo: str, hi: str) -> str:
        if scratch:
            return to.op(f"call i1 @some_lanes({given}, i64 {lo}, i64 {hi}, ptr {memory})")
        few = to.op(f"icmp slt i64 {to.op(f'sub i64 {hi}, {lo}')}, {width}")
        with to.when(few):
            to.do(f"call void @lane({given}, i64 {lo}, i64 {hi})")
        with to.when(to.op(f"xor i1 {few}, true")):
            to.do(f"call void @lanes({given}, i64 {lo}, i64 {hi})")
        return ""

    take_part(to, "%job", run)
    to.op(f"atomicrmw add ptr {to.at('%job', DONE)}, i64 1 release")
    to.go("take")
    to.label("leave")
    if scratch:
        leave_scratch(to, KEPT_SCRATCH, memory)
    _release(to, "%job")
    to.end()
    return to


def take_part(to: Text, job: str, run: Callable[[str, str], str]) -> str:
    """At label `take`: `run(lo, hi)` on the lanes of the next part, or jump to `leave`. Returns its result."""
    to.label("take")
    tasks, lanes, grain = (to.load("i64", job, o) for o in (TASKS, LANES, GRAIN))
    part = to.op(f"atomicrmw add ptr {to.at(job, COUNTER)}, i64 1 monotonic")
    to.require(to.op(f"icmp slt i64 {part}, {tasks}"))
    lo = to.op(f"mul i64 {part}, {grain}")
    end = to.op(f"add i64 {lo}, {grain}")
    # the last part also takes the remainder, so that every part has at least a block
    final = to.op(f"icmp eq i64 {to.op(f'add i64 {part}, 1')}, {tasks}")
    return run(lo, to.op(f"select i1 {final}, i64 {lanes}, i64 {end}"))


def _release(to: Text, job: str) -> None:
    owners = to.op(f"atomicrmw sub ptr {to.at(job, OWNERS)}, i64 1 acq_rel")
    with to.when(to.op(f"icmp eq i64 {owners}, 1")):
        to.do(f"call void @free(ptr {job})")


def open_handler() -> Text:
    """The start of a handler that shares its lanes among threads."""
    to = Text("h")
    to.begin("ptr @handler(ptr %frame)")
    for name, size in (("threads", 1), ("ask", 4), ("order", 5), ("failure", 4)):
        to.do(f"%{name} = alloca [{size} x i64]")
    answer_metadata(to, traits=0)
    return to


def new_record(to: Text, size: int, lanes: str, grain: str | int) -> tuple[str, str]:
    """A new record of this size, with the numbers about its parts, and how many parts there are."""
    job = to.op(f"call ptr @aligned_alloc(i64 64, i64 {(size + 63) // 64 * 64})")
    with to.when(to.op(f"icmp eq ptr {job}, null")):
        refuse(to, RESOURCE_EXHAUSTED, "@no_memory")
    return job, fill_record(to, job, lanes, grain)


def refuse(to: Text, code: int, message: str) -> None:
    """Return an error to XLA. `message` is the address of its text, which XLA copies."""
    for kind, value, offset in (("i64", 28, 0), ("ptr", "null", 8), ("ptr", message, 16), ("i32", code, 24)):
        to.store(kind, value, "%failure", offset)
    create = to.load("ptr", to.load("ptr", "%frame", 16), 48)
    to.give(f"ptr {to.op(f'call ptr {create}(ptr %failure)')}")


def fill_record(to: Text, job: str, lanes: str, grain: str | int) -> str:
    """Write the numbers about a record's parts. Returns how many parts there are."""
    parts = to.larger(to.op(f"sdiv i64 {lanes}, {grain}"), 1)
    for value, offset in ((0, COUNTER), (0, DONE), (parts, TASKS), (lanes, LANES), (grain, GRAIN)):
        to.store("i64", value, job, offset)
    return parts


def attribute(to: Text, k: int) -> str:
    """The k-th attribute of the call, in alphabetical order, an i64."""
    attributes = to.load("ptr", "%frame", 160)
    return to.load("i64", to.load("ptr", to.load("ptr", attributes, 8 * k), 8))


def operands(to: Text) -> str:
    """The list of operands."""
    return to.load("ptr", "%frame", 72)


def results(to: Text) -> str:
    """The list of results."""
    return to.load("ptr", "%frame", 112)


def address(to: Text, list_: str, k: int) -> str:
    """The address of the numbers of an array of a list."""
    return to.load("ptr", to.load("ptr", list_, 8 * k), 24)


def dimension(to: Text, list_: str, k: int, axis: int) -> str:
    """The size of an array of a list along an axis."""
    return to.load("i64", to.load("ptr", to.load("ptr", list_, 8 * k), 40), 8 * axis)


def addresses(to: Text, inputs: int, outputs: int) -> list[str]:
    """Addresses of the first operands and results."""
    given, made = operands(to), results(to)
    return [address(to, given, k) for k in range(inputs)] + [address(to, made, k) for k in range(outputs)]


def given_or(to: Text, attribute: str, pointer: str) -> str:
    """The address in an attribute, or the pointer if the attribute is 0."""
    given = to.op(f"inttoptr i64 {attribute} to ptr")
    return to.op(f"select i1 {to.op(f'icmp eq i64 {attribute}, 0')}, ptr {pointer}, ptr {given}")


def arrays_handler(inputs: int, outputs: int, prepare: Callable[[Text, str], None]) -> Text:
    """A handler whose record has the addresses of its arrays. Its first attributes are the grain and the lanes.

    `prepare(text, job)` writes all that must be done before the parts are shared.
    """
    to = open_handler()
    grain, lanes = (attribute(to, k) for k in range(2))
    job, parts = new_record(to, POINTERS + 8 * (inputs + outputs), lanes, grain)
    for k, array in enumerate(addresses(to, inputs, outputs)):
        to.store("ptr", array, job, POINTERS + 8 * k)
    prepare(to, job)
    share(to, job, parts)
    to.lines.append("}")
    return to


def _handler(program: Program, dtype: np.dtype, sizes: tuple[int, int], starts: list[int], ordered: bool) -> Text:
    to, (width, least) = open_handler(), sizes
    given, made = operands(to), results(to)
    count = len(program.loops)
    lanes, written = dimension(to, given, 2 * count, 0), "0"
    grain = enough_to_sort(to, least, lanes, to.load("i64", f"@{CORES}"), width) if ordered else least
    job, parts = new_record(to, starts[-1], lanes, grain)
    inputs, outputs, constants, tables, turns, widths = starts[:6]
    for k in range(count):
        to.store("ptr", address(to, given, k), job, tables + 8 * k)
        to.store("i64", dimension(to, given, k, 0), job, turns + 8 * k)
        to.store("ptr", address(to, given, count + k), job, constants + 8 * k)
    lists: list[tuple[Any, ...]] = [(given, 2 * count + k, inputs + 8 * k) for k in range(program.n_inputs)]
    lists += [(made, k, outputs + 8 * k) for k in range(program.n_outputs)]
    for number, (list_, k, place) in enumerate(lists):
        if list_ is made:
            written = to.op(f"add i64 {written}, {dimension(to, made, k, 1)}")
        to.store("ptr", address(to, list_, k), job, place)
        for twice in (0, len(lists)):  # the distance of lanes equals the number of columns
            to.store("i64", dimension(to, list_, k, 1), job, widths + 8 * (number + twice))
    numbers = to.op(f"mul i64 {written}, {lanes}")
    to.store("i64", to.op(f"mul i64 {numbers}, {dtype.itemsize}"), job, REACH)
    raw = to.op(f"add i64 {to.op(f'mul i64 {attribute(to, 0)}, {width * dtype.itemsize}')}, 64")  # never nothing
    to.store("i64", to.op(f"and i64 {raw}, -64"), job, SCRATCH)
    share(to, job, parts)
    to.lines.append("}")
    return to


def share(to: Text, job: str, parts: str) -> None:
    """Start helpers from XLA's pool, take part, and wait for the last part.

    Calls that several devices make at the same time share the cores. XLA's pool has one thread for each device, so its
    size does not tell the number of cores.
    """
    context, api = to.load("ptr", "%frame", 24), to.load("ptr", "%frame", 16)
    to.store("i64", 1, "%threads")
    others = to.op("atomicrmw add ptr @calls, i64 1 monotonic")
    fair = to.op(f"sdiv i64 {to.load('i64', f'@{CORES}')}, {to.op(f'add i64 {others}, 1')}")
    with to.when(to.op(f"icmp sgt i64 {parts}, 1")):
        for value, kind, offset in ((32, "i64", 0), ("null", "ptr", 8), (context, "ptr", 16), ("%threads", "ptr", 24)):
            to.store(kind, value, "%ask", offset)
        to.op(f"call ptr {to.load('ptr', api, 144)}(ptr %ask)")
    helpers = to.larger(to.smaller(to.smaller(to.load("i64", "%threads"), parts), fair), 1)
    to.store("i64", to.op(f"add i64 {helpers}, 1"), job, OWNERS)  # the helpers, this call as one of them, and its wait
    head = ((40, "i64", 0), ("null", "ptr", 8), (context, "ptr", 16), ("@task", "ptr", 24), (job, "ptr", 32))
    for value, kind, offset in head:
        to.store(kind, value, "%order", offset)
    schedule = to.load("ptr", api, 136)
    with to.each(helpers, 1):
        to.op(f"call ptr {schedule}(ptr %order)")
    to.do(f"call void @task(ptr {job})")
    # Parts are left only if this thread had no memory for them. No other thread may come, so wait only for begun parts.
    begun = to.op(f"atomicrmw xchg ptr {to.at(job, COUNTER)}, i64 {CLOSED} acq_rel")
    lacking = to.op(f"icmp slt i64 {begun}, {parts}")
    due = to.smaller(begun, parts)
    to.into("wait")
    done = to.op(f"load atomic i64, ptr {to.at(job, DONE)} acquire, align 8")
    to.require(to.op(f"icmp sge i64 {done}, {due}"), otherwise="wait")
    to.op("atomicrmw sub ptr @calls, i64 1 monotonic")
    _release(to, job)
    with to.when(lacking):
        refuse(to, RESOURCE_EXHAUSTED, "@no_memory")
    to.give("ptr null")

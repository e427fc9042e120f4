"""A lane program on NumPy arrays, shared with helpers (helpers.py) if it is a large batch, as LLVM text.

It may run many frames, one after the other. Each array has a distance in bytes from one frame to the next. So a frame
can read what the frame before wrote, and a thread takes its lanes through all frames.
"""

import numpy as np

from .. import tuning
from ..llvm.handler import (
    POINTERS,
    REACH,
    SCRATCH,
    enough_to_sort,
    fill_record,
    take_part,
)
from ..llvm.scratch import leave_scratch, take_scratch
from ..llvm.text import Text
from ..program.program import Program
from .helpers import BACK, SCRATCH_PLACES, SHARE, TAKE
from .order import is_ordered

# Offsets in a job: the verdict, the frames and the bytes between them, the places of scratch memory; and the start of
# its record, which handler.py describes.
VERDICT, FRAMES, BYTES, KEPT, RECORD = 16, 24, 32, 40, 64
NOT_FINITE, NO_MEMORY = 1, 2
ONE_FRAME = "@one_frame"  # bytes between frames where there is one


def part_lanes(turns: int, width: int) -> int:
    """The fewest lanes that a thread takes at a time, in whole blocks."""
    return -(-tuning.PART_MIN_TURNS // (max(1, turns) * width)) * width


def shared_text(program: Program, dtype: np.dtype, width: int) -> str:
    """Definitions of `framed`, `take_parts` and `shared`; the module has `some_lanes`."""
    texts = (
        _framed(program),
        _take_parts(),
        _shared(dtype, width, is_ordered(program)),
    )
    return "\n".join(map(str, texts))


def _framed(program: Program) -> Text:
    """`framed(the arguments of lanes, frames, bytes)`: lanes lo to hi, any number of them, in all frames.

    Zero frames mean one frame of arrays without gaps. Only then may results be written past the caches.
    """
    to, count = Text("m"), program.n_inputs + program.n_outputs
    to.lines.append(f"{ONE_FRAME} = internal constant [{count} x i64] zeroinitializer")
    lists = ("inputs", "outputs", "constants", "tables", "turns", "widths")
    given = [*(f"ptr %{x}" for x in lists), "i64 %reach", "i64 %lo", "i64 %hi", "ptr %scratch", "i64 %frames"]
    to.begin(f"internal i1 @framed({', '.join(given)}, ptr %bytes)")
    to.do(f"%arrays = alloca [{count} x ptr]")
    good = to.variable("i1", "true")
    for k in range(count):
        inside = k < program.n_inputs
        first = to.load("ptr", "%inputs" if inside else "%outputs", 8 * (k if inside else k - program.n_inputs))
        to.store("ptr", first, "%arrays", 8 * k)
    written = to.at("%arrays", 8 * program.n_inputs)
    whole = to.op("icmp eq i64 %frames, 0")
    reach, times = to.op(f"select i1 {whole}, i64 %reach, i64 0"), to.op(f"select i1 {whole}, i64 1, i64 %frames")
    rest = ", ".join(f"ptr %{x}" for x in lists[2:])
    given = f"ptr %arrays, ptr {written}, {rest}, i64 {reach}, i64 %lo, i64 %hi, ptr %scratch"
    with to.each(times):
        now = to.op(f"call i1 @some_lanes({given})")
        to.store("i1", to.op(f"and i1 {to.load('i1', good)}, {now}"), good)
        for k in range(count):
            place = to.at(to.load("ptr", "%arrays", 8 * k), to.load("i64", "%bytes", 8 * k))
            to.store("ptr", place, "%arrays", 8 * k)
    to.end(f"i1 {to.load('i1', good)}")
    return to


def _take_parts() -> Text:
    """`take_parts(job)`: run parts until none is left."""
    to = Text("p")
    to.begin("internal void @take_parts(ptr %job)")
    record = to.at("%job", RECORD)
    kept = to.load("ptr", "%job", KEPT)
    memory = take_scratch(to, kept, to.load("i64", record, SCRATCH))
    lists = [to.load("ptr", record, POINTERS + 8 * k) for k in range(6)]
    given = ", ".join([*(f"ptr {x}" for x in lists), f"i64 {to.load('i64', record, REACH)}"])
    more = f"i64 {to.load('i64', '%job', FRAMES)}, ptr {to.load('ptr', '%job', BYTES)}"
    with to.when(to.op(f"icmp eq ptr {memory}, null")):
        to.op(f"atomicrmw or ptr {to.at('%job', VERDICT)}, i64 {NO_MEMORY} monotonic")
        to.give()
    to.go("take")
    good = take_part(
        to, record, lambda lo, hi: to.op(f"call i1 @framed({given}, i64 {lo}, i64 {hi}, ptr {memory}, {more})")
    )
    to.require(to.op(f"xor i1 {good}, true"), otherwise="take")
    to.op(f"atomicrmw or ptr {to.at('%job', VERDICT)}, i64 {NOT_FINITE} monotonic")
    to.go("take")
    to.label("leave")
    leave_scratch(to, kept, memory)
    to.end()
    return to


def _shared(dtype: np.dtype, width: int, ordered: bool) -> Text:
    """`shared(the six lists of lanes, reach, lanes, least lanes of a part, slots, helpers, team, frames, bytes)`.

    It returns 0 if all results are finite.
    """
    to, lists = Text("j"), [f"%list{k}" for k in range(6)]
    numbers = ("reach", "lanes", "least", "slots", "helpers")
    given = [*(f"ptr {x}" for x in lists), *(f"i64 %{x}" for x in numbers), "ptr %team", "i64 %frames", "ptr %bytes"]
    to.begin(f"i64 @shared({', '.join(given)})")
    to.do(f"%job = alloca [{RECORD + POINTERS + 64} x i8], align 64")
    to.store("ptr", "@take_parts", "%job", TAKE)
    to.store("i64", 0, "%job", BACK)
    to.store("i64", 0, "%job", VERDICT)
    to.store("i64", "%frames", "%job", FRAMES)
    to.store("ptr", "%bytes", "%job", BYTES)
    to.store("ptr", to.at("%team", SCRATCH_PLACES), "%job", KEPT)
    record = to.at("%job", RECORD)
    threads = to.op("add i64 %helpers, 1")
    fair = to.op(f"sdiv i64 %lanes, {to.op(f'mul i64 {threads}, {tuning.PARTS_OF_THREAD}')}")
    grain = to.larger(to.op(f"and i64 {fair}, {-width}"), "%least")  # whole blocks too
    grain = enough_to_sort(to, grain, "%lanes", threads, width) if ordered else grain
    parts = fill_record(to, record, "%lanes", grain)
    to.store("i64", "%reach", record, REACH)
    needed = to.op(f"mul i64 %slots, {width * dtype.itemsize}")
    to.store("i64", to.op(f"and i64 {to.op(f'add i64 {needed}, 64')}, -64"), record, SCRATCH)  # never nothing
    for k, x in enumerate(lists):
        to.store("ptr", x, record, POINTERS + 8 * k)
    others = to.op(f"sub i64 {parts}, 1")
    wanted = to.smaller(others, "%helpers")
    to.do(f"call void {to.load('ptr', '%team', SHARE)}(ptr %team, ptr %job, i64 %helpers, i64 {wanted})")
    to.end(f"i64 {to.load('i64', '%job', VERDICT)}")
    return to

"""Large results go past the caches: a block of lanes is put together in scratch memory, then written once, in order.

A matrix for each of thousands of lanes is far larger than a cache. Written entry by entry, each line of it is first
read from memory, since a cache wants all of a line that it holds a part of. So results of a block stay in scratch,
which the cache of a core holds, laid out as in the end. When the block is done they are looked at (are all finite?) and
copied to their place by stores that leave the caches alone, a line at a time. Results that caches hold stay in them:
who asked for them will read them.
"""

import numpy as np

from .. import tuning
from ..llvm.text import Text
from ..program.program import Program


def streams(program: Program) -> bool:
    """Whether results of a program may be put together in scratch memory."""
    return program.simple and program.straight is None and program.n_outputs > 0


def staged(widths: tuple[int, ...], width: int, itemsize: int) -> int:
    """Slots for results of these widths; none where results are short, or where no cache holds a block of them."""
    total = sum(widths)
    return total if tuning.STREAM_MIN_WIDTH <= total <= tuning.STREAM_MAX_BLOCK // (width * itemsize) else 0


def stream_text(dtype: np.dtype, width: int) -> str:
    """Definition of `stream(from, to, count)`: copies numbers, whole vectors of them past the caches."""
    to, size = Text("s"), dtype.itemsize
    scalar = "double" if size == 8 else "float"
    vector, bytes_ = f"<{width} x {scalar}>", width * size
    to.begin("internal void @stream(ptr noalias %from, ptr noalias %to, i64 %count)")
    to.do("%place = alloca i64")
    to.store("i64", 0, "%place")
    start = to.op("ptrtoint ptr %to to i64")
    short = to.op(f"and i64 {to.op(f'sub i64 0, {start}')}, {bytes_ - 1}")
    odd = to.op(f"lshr i64 {short}, {size.bit_length() - 1}")
    few = to.op(f"icmp ult i64 %count, {odd}")
    head = to.op(f"select i1 {few}, i64 %count, i64 {odd}")
    whole = to.op(f"and i64 {to.op(f'sub i64 %count, {head}')}, {-width}")
    ends = (("head", head, 1), ("body", to.op(f"add i64 {head}, {whole}"), width), ("tail", "%count", 1))
    to.go("head")
    for (name, end, step), then in zip(ends, ("body", "tail", "done"), strict=True):
        to.label(name)
        place = to.load("i64", "%place")
        to.branch(to.op(f"icmp slt i64 {place}, {end}"), f"{name}_one", then)
        to.label(f"{name}_one")
        kind = vector if step > 1 else scalar
        value = to.load(kind, "%from", place, scalar, f", align {size}")
        how = f", align {bytes_}, !nontemporal !7" if step > 1 else f", align {size}"
        to.store(kind, value, "%to", place, scalar, how)
        to.store("i64", to.op(f"add i64 {place}, {step}"), "%place")
        to.go(name)
    to.label("done")
    to.end()
    return str(to)

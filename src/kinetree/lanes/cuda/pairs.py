"""Pairs on an NVIDIA GPU: a thread goes down a strip of rows in a few columns, so a warp writes side by side."""

from typing import Any

import jax
import numpy as np

from .. import tuning
from ..kept.once import once
from ..llvm.handler import address, dimension, operands, results
from ..llvm.kernel import with_helpers
from ..llvm.text import Text
from ..pairs.pairs import ABOVE, ARRAYS, BELOW, EVERY_SIDE, Pairs, PairsText, stacked
from .driver import begin_handler, launch_values, plain_target
from .ptx import ALIGNED, GLOBAL, global_thread, gpu_module

THREADS, COLUMNS, STRIP = tuning.GPU_PAIRS_THREADS, tuning.GPU_PAIRS_COLUMNS, tuning.GPU_PAIRS_STRIP_ROWS
SPAN = THREADS * COLUMNS  # columns of a block


class PairsKernel(PairsText):
    """`kernel(row reals, row wholes, column reals, column wholes, entries, n)`; rows by member, columns by field.

    If a strip lies on one side of the diagonal, half of the cases are left out.
    """

    rows, whole = tuning.GPU_PAIRS_ROWS, "i32"

    def __init__(self, pairs: Pairs, dtype: np.dtype):
        super().__init__(pairs, 1, dtype)
        to = self.to
        arrays = [f"{GLOBAL} noalias align {ALIGNED} {name}" for name in ARRAYS]
        to.begin(f"ptx_kernel void @kernel({', '.join(arrays)}, i64 %n)")
        thread, own = global_thread(to)
        across = _across(to, "%n")
        block = to.op(f"udiv i64 {thread}, {THREADS}")
        first = to.op(f"mul i64 {to.op(f'udiv i64 {block}, {across}')}, {STRIP}")
        span = to.op(f"mul i64 {to.op(f'urem i64 {block}, {across}')}, {SPAN}")
        left = to.op(f"add i64 {span}, {own}")
        to.branch(to.op(f"icmp slt i64 {first}, %n"), "begin", "done")
        to.label("begin")
        last = to.op("sub i64 %n, 1")
        # columns beyond the last repeat the last one
        numbers = [to.smaller(to.op(f"add i64 {left}, {THREADS * c}"), last) for c in range(COLUMNS)]
        self.columns = [self.column(number) for number in numbers]
        end = to.smaller(to.op(f"add i64 {first}, {STRIP}"), "%n")
        past = to.op(f"add i64 {span}, {SPAN}")
        to.branch(to.op(f"icmp sge i64 {first}, {past}"), "below", "not_below")
        to.label("not_below")
        to.branch(to.op(f"icmp sle i64 {end}, {span}"), "above", "across")
        for name, sides in (("below", (BELOW,)), ("above", (ABOVE,)), ("across", EVERY_SIDE)):
            self.strip(name, sides, first, end, "done")
        to.label("done")
        to.end()

    def of_column(self, array: str, place: str, kind: str) -> str:
        """A constant of a column; integers are as wide as reals."""
        address = self.to.at(array, place, kind, " addrspace(1)")
        value = self.to.op(f"load {kind}, {GLOBAL} {address}, !invariant.load !8")
        return self.to.op(f"sext i32 {value} to {self.to.integer}") if kind == "i32" and self.to.bits > 32 else value

    of_row = of_column

    def write(self, place: str, entry: str) -> None:
        """Write one entry."""
        address = self.to.at("%entries", place, self.to.scalar, " addrspace(1)")
        self.to.do(f"store {self.to.scalar} {entry}, {GLOBAL} {address}")


def kernel_text(pairs: Pairs, dtype: np.dtype) -> str:
    """The whole module."""
    return gpu_module(with_helpers(PairsKernel(pairs, dtype).to))


def _across(to: Text, n: str) -> str:
    """Blocks side by side."""
    return to.op(f"udiv i64 {to.op(f'add i64 {n}, {SPAN - 1}')}, {SPAN}")


@once
def _target(pairs: Pairs, dtype: str) -> str | None:
    kind = np.dtype(dtype)

    def launch(function: int) -> Text:
        to = begin_handler(6)
        given, made = operands(to), results(to)
        n = dimension(to, given, 0, 0)
        values = [("ptr", address(to, *place)) for place in (*((given, k) for k in range(4)), (made, 0))]
        strips = to.op(f"sdiv i64 {to.op(f'add i64 {n}, {STRIP - 1}')}, {STRIP}")
        threads = to.op(f"mul i64 {strips}, {to.op(f'mul i64 {_across(to, n)}, {THREADS}')}")
        launch_values(to, [*values, ("i64", n)], threads, function, THREADS)
        return to

    return plain_target(pairs.name, pairs, kind, lambda: kernel_text(pairs, kind), launch)


def pairs_matrix(pairs: Pairs, arrays: Any) -> list | None:
    """The matrix from traced arrays, or None if there is no native body."""
    n, dtype = arrays[0].shape[0], arrays[0].dtype
    name = _target(pairs, np.dtype(dtype).name)
    if name is None or n == 0:
        return None
    return [jax.ffi.ffi_call(name, jax.ShapeDtypeStruct((n, n), dtype))(*stacked(pairs, arrays))]

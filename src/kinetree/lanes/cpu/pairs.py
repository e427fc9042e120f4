"""Pairs on a CPU: vectors of neighbouring columns, strips of rows shared among XLA's threads.

The arithmetic of an entry takes less time than writing it, so memory is what counts: a strip is short, so that all its
rows are written at once from left to right, and a large matrix asks for large pages.
"""

from functools import partial
from typing import Any

import jax
import numpy as np

from .. import tuning
from ..kept.once import once
from ..llvm.handler import LANES, MEMORY, POINTERS, arrays_handler, task_text
from ..llvm.kernel import with_helpers
from ..llvm.scratch import advise_large_pages
from ..llvm.text import Text, over_blocks
from ..llvm.trigonometry import lane_module
from ..pairs.pairs import ABOVE, ARRAYS, BELOW, EVERY_SIDE, Pairs, PairsText, stacked
from .host import cpu_target, vector_width


class PairsFunction(PairsText):
    """`name(row reals, row wholes, column reals, column wholes, entries, n, lo, hi)`: rows lo to hi, all columns.

    There are at least as many columns as in a vector. In each vector of them the rows above the diagonal come first,
    then those across it, then those below it, each with the cases that can hold there.
    """

    rows = tuning.PAIRS_ROWS

    def __init__(self, pairs: Pairs, width: int, dtype: np.dtype, name: str):
        super().__init__(pairs, width, dtype)
        to = self.to
        self.whole = f"i{to.bits}"
        arrays = ", ".join(f"ptr noalias {name}" for name in ARRAYS)
        to.begin(f"internal void @{name}({arrays}, i64 %n, i64 %lo, i64 %hi)")
        over_blocks(to, width, "0", "%n", self.block)

    def block(self, left: str) -> None:
        """The columns from one on."""
        to = self.to
        self.columns = [self.column(left)]
        upper, lower = self.inside(left), self.inside(to.op(f"add i64 {left}, {to.width}"))
        to.go("reach_above")
        for name, sides, first, end, after in (
            ("above", (ABOVE,), "%lo", upper, "reach_across"),
            ("across", EVERY_SIDE, upper, lower, "reach_below"),
            ("below", (BELOW,), lower, "%hi", "blockend"),
        ):
            to.label(f"reach_{name}")
            to.branch(to.op(f"icmp slt i64 {first}, {end}"), name, after)
            self.strip(name, sides, first, end, after)

    def inside(self, row: str) -> str:
        """The row, or the end of the strip that is nearest to it."""
        return self.to.larger(self.to.smaller(row, "%hi"), "%lo")

    def of_column(self, array: str, place: str, kind: str) -> str:
        """Neighbours."""
        return self.to.load(self.to.vector(kind), array, place, kind, f", align {self.to.dtype.itemsize}")

    def of_row(self, array: str, place: str, kind: str) -> str:
        """A number of a row, for all columns."""
        return self.to.broadcast(self.to.load(kind, array, place, kind), kind)

    def write(self, place: str, entry: str) -> None:
        """Neighbours."""
        self.to.store(self.to.real, entry, "%entries", place, self.to.scalar, f", align {self.to.dtype.itemsize}")


def _arguments(to: Text) -> str:
    arrays = [to.load("ptr", "%job", POINTERS + 8 * k) for k in range(len(ARRAYS))]
    return ", ".join([*(f"ptr {a}" for a in arrays), f"i64 {to.load('i64', '%job', LANES)}"])


def cpu_text(pairs: Pairs, dtype: np.dtype, width: int) -> str:
    """The whole module: for vectors, for scalars, and the handler."""
    functions = [PairsFunction(pairs, w, dtype, name).to for w, name in ((width, "lanes"), (1, "lane"))]

    def prepare(to: Text, job: str) -> None:
        n = to.load("i64", job, LANES)
        size = to.op(f"mul i64 {to.op(f'mul i64 {n}, {n}')}, {dtype.itemsize}")
        advise_large_pages(to, to.load("ptr", job, POINTERS + 8 * (len(ARRAYS) - 1)), size)

    task, handler = task_text(_arguments, width), arrays_handler(len(ARRAYS) - 1, 1, prepare)
    return lane_module(MEMORY, with_helpers(*functions), str(task), str(handler))


@once
def _target(pairs: Pairs, dtype: str) -> str | None:
    return cpu_target(pairs.name, pairs, dtype, partial(cpu_text, pairs))


def pairs_matrix(pairs: Pairs, arrays: Any) -> list | None:
    """The matrix from traced arrays, or None if there is no native body."""
    n, dtype = arrays[0].shape[0], np.dtype(arrays[0].dtype)
    name = _target(pairs, dtype.name)
    if name is None or n == 0:
        return None
    block = max(tuning.PAIRS_STRIP_ROWS, vector_width(dtype))
    grain = max(1, -(-tuning.PAIRS_MIN_ENTRIES // n // block)) * block
    numbers = {"a_grain": np.int64(grain), "b_lanes": np.int64(n)}
    reals = pairs.reals.num_leaves
    arrays = [*arrays[:reals], *(x.astype(f"int{8 * dtype.itemsize}") for x in arrays[reals:])]
    return [jax.ffi.ffi_call(name, jax.ShapeDtypeStruct((n, n), dtype))(*stacked(pairs, arrays), **numbers)]

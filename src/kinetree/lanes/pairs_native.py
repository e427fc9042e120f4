"""Pairs on an NVIDIA GPU: a thread goes down a strip of rows in a few columns, so that a warp writes neighbours."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .cuda import begin_handler, cuda_target, launch_values
from .emit import Emitter
from .handler import address, dimension, operands, results
from .kernel import with_helpers
from .pairs import ABOVE, BELOW, ON, Pairs
from .ptx import ALIGNED, GLOBAL, global_thread, gpu_module
from .text import Text

THREADS = 64  # of a block
COLUMNS = 2  # of a thread, a block apart: what a row brings is read once for all, and that is what takes longest
ROWS = 4  # that it takes in one turn
STRIP = 64  # rows that a thread goes down with what it knows of its columns
TOGETHER = 2  # numbers that are loaded in one go, so rows are filled up to a multiple


def _traced(function: Any, tree: Any, dtype: Any) -> Any:
    """A function of two members as a closed jaxpr on scalars."""
    member = jax.tree.unflatten(tree, [jax.ShapeDtypeStruct((), dtype)] * tree.num_leaves)
    with jax.enable_x64(True):
        return jax.make_jaxpr(function)(member, member)


class PairsKernel:
    """`kernel(row reals, row wholes, column reals, column wholes, entries, n)`; rows by member, columns by field.

    Where a strip lies on one side of the diagonal, half of the cases fall away; of the others all are computed and one
    is chosen. Where none holds in a turn, zeros are written at once.
    """

    def __init__(self, pairs: Pairs, dtype: np.dtype):
        self.to = to = Emitter(1, dtype)
        whole = np.dtype(f"int{to.bits}")  # as wide as a real is what the emitter knows
        self.reals, self.wholes = pairs.reals.num_leaves, pairs.wholes.num_leaves
        self.cases = [
            (c.side, _traced(c.holds, pairs.wholes, whole), _traced(c.value, pairs.reals, dtype)) for c in pairs.cases
        ]
        names = ("row_reals", "row_wholes", "column_reals", "column_wholes", "entries")
        arrays = [f"{GLOBAL} noalias align {ALIGNED} %{name}" for name in names]
        to.lines.append(f"define ptx_kernel void @kernel({', '.join(arrays)}, i64 %n) {{")
        to.label("entry")
        thread, own = global_thread(to)
        across = _across(to, "%n")
        block = to.op(f"udiv i64 {thread}, {THREADS}")
        self.first = to.op(f"mul i64 {to.op(f'udiv i64 {block}, {across}')}, {STRIP}")
        span = to.op(f"mul i64 {to.op(f'urem i64 {block}, {across}')}, {THREADS * COLUMNS}")
        left = to.op(f"add i64 {span}, {own}")
        to.branch(to.op(f"icmp slt i64 {self.first}, %n"), "begin", "done")
        to.label("begin")
        self.last = to.op("sub i64 %n, 1")
        self.columns = [self.column(self.nearest(left, THREADS * c)) for c in range(COLUMNS)]
        end = to.op(f"add i64 {self.first}, {STRIP}")
        self.end = to.op(f"select i1 {to.op(f'icmp slt i64 {end}, %n')}, i64 {end}, i64 %n")
        past = to.op(f"add i64 {span}, {THREADS * COLUMNS}")
        to.branch(to.op(f"icmp sge i64 {self.first}, {past}"), "below", "not_below")
        to.label("not_below")
        to.branch(to.op(f"icmp sle i64 {self.end}, {span}"), "above", "across")
        for name, sides in (("below", (BELOW,)), ("above", (ABOVE,)), ("across", (BELOW, ON, ABOVE))):
            self.strip(name, sides)
        to.label("done")
        to.do("ret void")
        to.lines.append("}")

    def load(self, array: str, place: str, kind: str) -> str:
        """A number that never changes; whole ones as wide as reals."""
        address = self.to.at(array, place, kind, " addrspace(1)")
        value = self.to.op(f"load {kind}, {GLOBAL} {address}, !invariant.load !8")
        return self.to.op(f"sext i32 {value} to {self.to.integer}") if kind == "i32" and self.to.bits > 32 else value

    def nearest(self, first: str, further: int) -> str:
        """A row or column; those beyond the last are the last once more, and write the same."""
        place = self.to.op(f"add i64 {first}, {further}")
        return self.to.op(f"select i1 {self.to.op(f'icmp slt i64 {place}, %n')}, i64 {place}, i64 {self.last}")

    def column(self, number: str) -> tuple[str, list[str], list[str]]:
        """A column's number, and what is known of it: reals and wholes."""
        to, fields = self.to, range(max(self.reals, self.wholes))
        places = [to.op(f"add i64 {to.op(f'mul i64 %n, {k}')}, {number}") for k in fields]
        reals = [self.load("%column_reals", place, to.scalar) for place in places[: self.reals]]
        return number, reals, [self.load("%column_wholes", place, "i32") for place in places[: self.wholes]]

    def row(self, array: str, count: int, kind: str, number: str) -> list[str]:
        """What is known of a row."""
        at = self.to.op(f"mul i64 {number}, {_filled(count)}")
        return [self.load(array, self.to.op(f"add i64 {at}, {k}"), kind) for k in range(count)]

    def strip(self, name: str, sides: tuple[int, ...]) -> None:
        """Go down the rows, where only cases of these sides can hold."""
        to = self.to
        here = [(holds, value) for side, holds, value in self.cases if side in sides]
        to.label(name)
        to.go(f"{name}_turn")
        to.label(f"{name}_turn")
        top = f"%{name}_row"
        to.lines.append(f"  {top} = phi i64 [ {self.first}, %{name} ], [ {top}_next, %{name}_next ]")
        rows = [self.nearest(top, k) for k in range(ROWS)]
        truths = []  # of each row, column and case
        for row in rows:
            of_row = self.row("%row_wholes", self.wholes, "i32", row)
            truths.append([[to.jaxpr(holds, [*of_row, *w])[0] for holds, _ in here] for _, _, w in self.columns])
        anything = "false"
        for truth in (t for of_row in truths for of_column in of_row for t in of_column):
            anything = to.op(f"or i1 {anything}, {truth}")
        to.branch(anything, f"{name}_compute", f"{name}_nothing")
        for label, values in (("compute", [value for _, value in here]), ("nothing", [])):
            to.label(f"{name}_{label}")
            for row, of_row in zip(rows, truths, strict=True):
                self.entries(row, of_row, values)
            to.go(f"{name}_next")
        to.label(f"{name}_next")
        to.lines.append(f"  {top}_next = add i64 {top}, {ROWS}")
        to.branch(to.op(f"icmp slt i64 {top}_next, {self.end}"), f"{name}_turn", "done")

    def entries(self, row: str, truths: list[list[str]], values: list[Any]) -> None:
        """Write a row's entries in the thread's columns: the value of the first case that holds; zeros without any."""
        to = self.to
        of_row = self.row("%row_reals", self.reals, to.scalar, row) if values else []
        start = to.op(f"mul i64 {row}, %n")
        for (column, of_column, _), holding in zip(self.columns, truths, strict=True):
            entry = to.number(0.0)
            for truth, value in reversed(list(zip(holding, values, strict=False))):
                (number,) = to.jaxpr(value, [*of_row, *of_column])
                entry = to.op(f"select i1 {truth}, {to.scalar} {number}, {to.scalar} {entry}")
            place = to.at("%entries", to.op(f"add i64 {start}, {column}"), to.scalar, " addrspace(1)")
            to.do(f"store {to.scalar} {entry}, {GLOBAL} {place}")


def kernel_text(pairs: Pairs, dtype: np.dtype) -> str:
    """The whole module."""
    return gpu_module(with_helpers(PairsKernel(pairs, dtype).to))


def _across(to: Text, n: str) -> str:
    """Blocks side by side."""
    return to.op(f"udiv i64 {to.op(f'add i64 {n}, {THREADS * COLUMNS - 1}')}, {THREADS * COLUMNS}")


def _filled(fields: int) -> int:
    return -(-fields // TOGETHER) * TOGETHER


@cache
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

    shape = repr((pairs.reals, pairs.wholes, STRIP, COLUMNS, ROWS))
    return cuda_target(pairs.name, shape, kind, lambda: kernel_text(pairs, kind), launch)


def on_cuda(pairs: Pairs, arrays: Any) -> list | None:
    """The matrix from traced arrays, or None where there is no native body."""
    n, dtype = arrays[0].shape[0], arrays[0].dtype
    name = _target(pairs, np.dtype(dtype).name)
    if name is None or n == 0:
        return None
    groups = [jnp.stack(arrays[: pairs.reals.num_leaves]), jnp.stack(arrays[pairs.reals.num_leaves :])]
    rows = [jnp.pad(g.T, ((0, 0), (0, _filled(len(g)) - len(g)))) for g in groups]
    return [jax.ffi.ffi_call(name, jax.ShapeDtypeStruct((n, n), dtype))(*rows, *groups)]

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


def kernel_text(pairs: Pairs, dtype: np.dtype) -> str:
    """The whole module: `kernel(row reals, row wholes, column reals, column wholes, entries, n)`.

    Rows are by member, columns by field. Where a strip lies on one side of the diagonal, half of the cases fall away;
    of the others all are computed and one is chosen.
    """
    to = Emitter(1, dtype)
    whole = np.dtype(f"int{to.bits}")  # as wide as a real is what the emitter knows
    reals, wholes = pairs.reals.num_leaves, pairs.wholes.num_leaves
    cases = [(_traced(c.holds, pairs.wholes, whole), _traced(c.value, pairs.reals, dtype)) for c in pairs.cases]

    def load(array: str, place: str, kind: str) -> str:
        address = to.at(array, place, kind, " addrspace(1)")
        return to.op(f"load {kind}, {GLOBAL} {address}, !invariant.load !8")

    def widened(x: str) -> str:
        return to.op(f"sext i32 {x} to {to.integer}") if to.bits > 32 else x

    def of_row(array: str, count: int, kind: str, row: str) -> list[str]:
        at = to.op(f"mul i64 {row}, {_filled(count)}")
        return [load(array, to.op(f"add i64 {at}, {k}"), kind) for k in range(count)]

    names = ("row_reals", "row_wholes", "column_reals", "column_wholes", "entries")
    arrays = [f"{GLOBAL} noalias align {ALIGNED} %{name}" for name in names]
    to.lines.append(f"define ptx_kernel void @kernel({', '.join(arrays)}, i64 %n) {{")
    to.label("entry")
    thread, own = global_thread(to)
    across = _across(to, "%n")
    block = to.op(f"udiv i64 {thread}, {THREADS}")
    first = to.op(f"mul i64 {to.op(f'udiv i64 {block}, {across}')}, {STRIP}")
    span = to.op(f"mul i64 {to.op(f'urem i64 {block}, {across}')}, {THREADS * COLUMNS}")
    left = to.op(f"add i64 {span}, {own}")
    to.branch(to.op(f"icmp slt i64 {first}, %n"), "begin", "done")
    to.label("begin")
    last = to.op("sub i64 %n, 1")

    def nearest(first: str, further: int) -> str:
        """A row or column; those beyond the last are the last once more, and write the same."""
        place = to.op(f"add i64 {first}, {further}")
        return to.op(f"select i1 {to.op(f'icmp slt i64 {place}, %n')}, i64 {place}, i64 {last}")

    columns, of_column, where_column = [], [], []
    for c in range(COLUMNS):
        column = nearest(left, THREADS * c)
        places = [to.op(f"add i64 {to.op(f'mul i64 %n, {k}')}, {column}") for k in range(max(reals, wholes))]
        columns.append(column)
        of_column.append([load("%column_reals", place, to.scalar) for place in places[:reals]])
        where_column.append([widened(load("%column_wholes", place, "i32")) for place in places[:wholes]])
    end = to.op(f"add i64 {first}, {STRIP}")
    end = to.op(f"select i1 {to.op(f'icmp slt i64 {end}, %n')}, i64 {end}, i64 %n")
    past = to.op(f"add i64 {span}, {THREADS * COLUMNS}")
    to.branch(to.op(f"icmp sge i64 {first}, {past}"), "below", "not_below")
    to.label("not_below")
    to.branch(to.op(f"icmp sle i64 {end}, {span}"), "above", "across")

    def strip(name: str, sides: tuple[int, ...]) -> None:
        """Go down the rows, where only cases of these sides can hold."""
        here = [(holds, value) for (holds, value), case in zip(cases, pairs.cases, strict=True) if case.side in sides]
        to.label(name)
        to.go(f"{name}_turn")
        to.label(f"{name}_turn")
        top = f"%{name}_row"
        to.lines.append(f"  {top} = phi i64 [ {first}, %{name} ], [ {top}_next, %{name}_next ]")
        rows = [nearest(top, k) for k in range(ROWS)]
        chosen = {}
        for r, row in enumerate(rows):
            where_row = [widened(x) for x in of_row("%row_wholes", wholes, "i32", row)]
            for c, where in enumerate(where_column):
                chosen[r, c] = [to.jaxpr(holds, [*where_row, *where])[0] for holds, _ in here]
        anything = "false"
        for truth in (t for truths in chosen.values() for t in truths):
            anything = to.op(f"or i1 {anything}, {truth}")
        to.branch(anything, f"{name}_compute", f"{name}_nothing")
        zero = to.number(0.0)
        for label in ("compute", "nothing"):
            to.label(f"{name}_{label}")
            for r, row in enumerate(rows):
                what_row = of_row("%row_reals", reals, to.scalar, row) if label == "compute" else []
                start = to.op(f"mul i64 {row}, %n")
                for c, (column, what) in enumerate(zip(columns, of_column, strict=True)):
                    entry = zero
                    if label == "compute":
                        for truth, (_, value) in reversed(list(zip(chosen[r, c], here, strict=True))):
                            (number,) = to.jaxpr(value, [*what_row, *what])
                            entry = to.op(f"select i1 {truth}, {to.scalar} {number}, {to.scalar} {entry}")
                    place = to.at("%entries", to.op(f"add i64 {start}, {column}"), to.scalar, " addrspace(1)")
                    to.do(f"store {to.scalar} {entry}, {GLOBAL} {place}")
            to.go(f"{name}_next")
        to.label(f"{name}_next")
        to.lines.append(f"  {top}_next = add i64 {top}, {ROWS}")
        to.branch(to.op(f"icmp slt i64 {top}_next, {end}"), f"{name}_turn", "done")

    for name, sides in (("below", (BELOW,)), ("above", (ABOVE,)), ("across", (BELOW, ON, ABOVE))):
        strip(name, sides)
    to.label("done")
    to.do("ret void")
    to.lines.append("}")
    return gpu_module(with_helpers(to))


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

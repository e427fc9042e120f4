"""Pairs on an NVIDIA GPU: a thread goes down a strip of rows in a few columns, so that a warp writes neighbours."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .cuda import CudaError, begin_handler, chip, compiled_handler, launch_values, load_kernel
from .emit import Emitter, UnknownPrimitive
from .handler import address, dimension, operands, results, supported
from .kernel import with_helpers
from .native import DTYPES, native_enabled, register
from .pairs import Pairs
from .ptx import ALIGNED, GLOBAL, assembled, global_thread, gpu_module

THREADS = 128  # of a block
COLUMNS = 4  # of a thread, a block apart: what a row brings is read once for all, and that is what takes longest
STRIP = 32  # rows that a thread goes down with what it knows of its columns
TOGETHER = 2  # numbers that are loaded in one go, so rows are filled up to a multiple


def _traced(function: Any, tree: Any, dtype: Any) -> Any:
    """A function of two members as a closed jaxpr on scalars."""
    member = jax.tree.unflatten(tree, [jax.ShapeDtypeStruct((), dtype)] * tree.num_leaves)
    with jax.enable_x64(True):
        return jax.make_jaxpr(function)(member, member)


def kernel_text(pairs: Pairs, dtype: np.dtype) -> str:
    """The whole module: `kernel(row reals, row wholes, column reals, column wholes, entries, n)`.

    Rows are by member, columns by field. All cases are computed and one is chosen: arithmetic is not what it waits for.
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

    def of_row(array: str, count: int, kind: str) -> list[str]:
        at = to.op(f"mul i64 %row, {_filled(count)}")
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
    columns, of_column, where_column = [], [], []
    for c in range(COLUMNS):
        column = to.op(f"add i64 {left}, {THREADS * c}")
        # those beyond the last are the last once more, and write the same
        column = to.op(f"select i1 {to.op(f'icmp slt i64 {column}, %n')}, i64 {column}, i64 {last}")
        places = [to.op(f"add i64 {to.op(f'mul i64 %n, {k}')}, {column}") for k in range(max(reals, wholes))]
        columns.append(column)
        of_column.append([load("%column_reals", place, to.scalar) for place in places[:reals]])
        where_column.append([widened(load("%column_wholes", place, "i32")) for place in places[:wholes]])
    end = to.op(f"add i64 {first}, {STRIP}")
    end = to.op(f"select i1 {to.op(f'icmp slt i64 {end}, %n')}, i64 {end}, i64 %n")
    to.go("turn")
    to.label("turn")
    to.lines.append(f"  %row = phi i64 [ {first}, %begin ], [ %below, %turn ]")
    where_row = [widened(x) for x in of_row("%row_wholes", wholes, "i32")]
    what_row = of_row("%row_reals", reals, to.scalar)
    start = to.op("mul i64 %row, %n")
    for column, what, where in zip(columns, of_column, where_column, strict=True):
        entry = to.number(0.0)
        for holds, value in reversed(cases):
            (chosen,), (number,) = to.jaxpr(holds, [*where_row, *where]), to.jaxpr(value, [*what_row, *what])
            entry = to.op(f"select i1 {chosen}, {to.scalar} {number}, {to.scalar} {entry}")
        place = to.at("%entries", to.op(f"add i64 {start}, {column}"), to.scalar, " addrspace(1)")
        to.do(f"store {to.scalar} {entry}, {GLOBAL} {place}")
    to.lines.append("  %below = add i64 %row, 1")
    to.branch(to.op(f"icmp slt i64 %below, {end}"), "turn", "done")
    to.label("done")
    to.do("ret void")
    to.lines.append("}")
    return gpu_module(with_helpers(to))


def _across(to: Any, n: str) -> str:
    """Blocks side by side."""
    return to.op(f"udiv i64 {to.op(f'add i64 {n}, {THREADS * COLUMNS - 1}')}, {THREADS * COLUMNS}")


def _filled(fields: int) -> int:
    return -(-fields // TOGETHER) * TOGETHER


_engines: list[Any] = []  # of all handlers: they live as long as the process


@cache
def _target(pairs: Pairs, dtype: str) -> str | None:
    if not native_enabled() or dtype not in DTYPES or not supported():
        return None
    kind = np.dtype(dtype)
    key = repr((pairs.reals, pairs.wholes, STRIP, COLUMNS))
    try:
        function = load_kernel(assembled(pairs.name, key, kind, chip(), lambda: kernel_text(pairs, kind)))
    except (CudaError, UnknownPrimitive, OSError, RuntimeError):
        return None
    to = begin_handler(6)
    given, made = operands(to), results(to)
    n = dimension(to, given, 0, 0)
    values = [("ptr", address(to, *place)) for place in (*((given, k) for k in range(4)), (made, 0))]
    strips = to.op(f"sdiv i64 {to.op(f'add i64 {n}, {STRIP - 1}')}, {STRIP}")
    threads = to.op(f"mul i64 {strips}, {to.op(f'mul i64 {_across(to, n)}, {THREADS}')}")
    launch_values(to, [*values, ("i64", n)], threads, function, THREADS)
    to.lines.append("}")
    engine, handler = compiled_handler(str(to))
    _engines.append(engine)
    return register(f"kinetree_{pairs.name}_{id(pairs)}_{dtype}_cuda", handler, "CUDA")


def on_cuda(pairs: Pairs, arrays: Any) -> list | None:
    """The matrix from traced arrays, or None where there is no native body."""
    n, dtype = arrays[0].shape[0], arrays[0].dtype
    name = _target(pairs, np.dtype(dtype).name)
    if name is None or n == 0:
        return None
    groups = [jnp.stack(arrays[: pairs.reals.num_leaves]), jnp.stack(arrays[pairs.reals.num_leaves :])]
    rows = [jnp.pad(g.T, ((0, 0), (0, _filled(len(g)) - len(g)))) for g in groups]
    return [jax.ffi.ffi_call(name, jax.ShapeDtypeStruct((n, n), dtype))(*rows, *groups)]

"""Results by columns become rows, on an NVIDIA GPU.

A kernel whose rows are too wide for shared memory writes by columns, so that the threads of a warp write side by side.
JAX's arrays lie by rows. XLA's own transposition reaches half of the memory's speed. Here a block takes a square of
lanes and columns: it reads along lanes, and writes along columns. The square lies in shared memory in between.
"""

from typing import Any

import jax
import numpy as np

from ..kept.once import once
from ..llvm.handler import address, dimension, operands, results
from ..llvm.text import Text
from .driver import begin_handler, launch_values, plain_target
from .ptx import ALIGNED, GLOBAL, global_thread, gpu_module
from .tile import SHARED

SIDE = 64  # lanes and columns of a square
PITCH = SIDE + 1  # between columns in shared memory: odd, so that both ways meet every bank
THREADS = 256  # of a block
AT_ONCE = THREADS // SIDE  # columns that are read together, and rows that are written together
TURNS = SIDE // AT_ONCE  # numbers of a thread: it reads all of them before it writes one
MEETING = 'call void asm sideeffect "bar.sync 0;", "~{memory}"()'
REALS = {"float32": "float", "float64": "double"}


def kernel_text(dtype: np.dtype) -> str:
    """The module of `kernel(columns, rows, lanes, width)`."""
    to, real = Text(), REALS[dtype.name]
    arrays = ", ".join(f"{GLOBAL} noalias align {ALIGNED} %{name}" for name in ("columns", "rows"))
    to.begin(f"ptx_kernel void @kernel({arrays}, i64 %lanes, i64 %width)")
    thread, own = global_thread(to)
    block, across = to.op(f"udiv i64 {thread}, {THREADS}"), _squares(to, "%width")
    first_lane = to.op(f"mul i64 {to.op(f'udiv i64 {block}, {across}')}, {SIDE}")
    first_column = to.op(f"mul i64 {to.op(f'urem i64 {block}, {across}')}, {SIDE}")
    near, far = to.op(f"and i64 {own}, {SIDE - 1}"), to.op(f"udiv i64 {own}, {SIDE}")

    def place(base: str, major: str, pitch: str | int, minor: str, space: int) -> str:
        index = to.op(f"add i64 {to.op(f'mul i64 {major}, {pitch}')}, {minor}")
        return to.at(base, index, real, f" addrspace({space})")

    def further(turn: int) -> str:
        return to.op(f"add i64 {far}, {AT_ONCE * turn}")

    # beyond the last lane and the last column, the last number is read again; it is not written
    last_lane, last_column = (to.op(f"sub i64 {n}, 1") for n in ("%lanes", "%width"))
    lane, read = to.smaller(to.op(f"add i64 {first_lane}, {near}"), last_lane), []
    for turn in range(TURNS):
        column = to.smaller(to.op(f"add i64 {first_column}, {further(turn)}"), last_column)
        read.append(to.op(f"load {real}, {GLOBAL} {place('%columns', column, '%lanes', lane, 1)}"))
    for turn, number in enumerate(read):
        to.do(f"store {real} {number}, {SHARED} {place('@square', further(turn), PITCH, near, 3)}")
    to.do(MEETING)
    column = to.op(f"add i64 {first_column}, {near}")
    inside = to.op(f"icmp slt i64 {column}, %width")
    for turn in range(TURNS):
        number = to.op(f"load {real}, {SHARED} {place('@square', near, PITCH, further(turn), 3)}")
        lane = to.op(f"add i64 {first_lane}, {further(turn)}")
        wanted = to.op(f"and i1 {inside}, {to.op(f'icmp slt i64 {lane}, %lanes')}")
        with to.when(wanted):
            to.do(f"store {real} {number}, {GLOBAL} {place('%rows', lane, '%width', column, 1)}")
    to.end()
    square = f"@square = internal addrspace(3) global [{SIDE * PITCH} x {real}] undef, align 16"
    return gpu_module(square, *sorted(to.declarations), str(to))


def _squares(to: Text, size: str) -> str:
    """How many squares take this many lanes or columns."""
    return to.op(f"udiv i64 {to.op(f'add i64 {size}, {SIDE - 1}')}, {SIDE}")


@once
def _target(dtype: str) -> str | None:
    kind = np.dtype(dtype)

    def launch(function: int) -> Text:
        to = begin_handler(4)
        given, made = operands(to), results(to)
        lanes, width = (dimension(to, given, 0, axis) for axis in (0, 1))
        values = [("ptr", address(to, given, 0)), ("ptr", address(to, made, 0)), ("i64", lanes), ("i64", width)]
        squares = to.op(f"mul i64 {_squares(to, lanes)}, {_squares(to, width)}")
        launch_values(to, values, to.op(f"mul i64 {squares}, {THREADS}"), function, THREADS)
        return to

    return plain_target("transpose", (), kind, lambda: kernel_text(kind), launch)


def by_rows(x: Any) -> Any:
    """A traced (lanes, width) array that lies by columns, as one that lies by rows."""
    name = _target(np.dtype(x.dtype).name)
    if name is None:
        return x
    return jax.ffi.ffi_call(name, jax.ShapeDtypeStruct(x.shape, x.dtype), input_layouts=[(1, 0)])(x)

"""Fetching, returning and adding numbers of blocks, for vectors of any length, against NumPy."""

import ctypes

import numpy as np
import pytest

from kinetree.lanes.blocks.moves import BlockMoves, FieldGroup, moves
from kinetree.lanes.cpu.host import loaded
from kinetree.lanes.llvm.emit import Emitter
from kinetree.lanes.llvm.text import module_of

ARRAYS, NUMBERS = 2, 3
GROUP, PART = FieldGroup(ARRAYS, ARRAYS), FieldGroup(1, ARRAYS)


@pytest.fixture(
    scope="module", params=[(2, "float64"), (4, "float64"), (8, "float64"), (8, "float32"), (16, "float32")]
)
def machine(request):
    """The number of lanes, the dtype, and a way to call a move."""
    width, dtype = request.param[0], np.dtype(request.param[1])
    texts = moves(Emitter(width, dtype), BlockMoves((GROUP, PART), (GROUP, PART), (NUMBERS,), (NUMBERS,)))
    engine = loaded("test_moves", f"{width}", dtype, lambda: module_of(*texts.values())).engine
    functions = {
        name: ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(engine.get_function_address(name))
        for name in texts
    }

    def call(name, count, *operands):
        places = np.array([x.ctypes.data for x in operands])
        functions[name](places.ctypes.data, count)

    call.engine = engine
    return width, dtype, call


def test_rows_in_any_order(machine):
    width, dtype, call = machine
    rng = np.random.default_rng(0)
    rows = rng.permutation(7 * width).astype(np.int32).reshape(7, width)
    given = rng.normal(size=(ARRAYS, rows.size)).astype(dtype)
    taken = np.zeros((7, ARRAYS, width), dtype)
    call(GROUP.named("take"), 7, rows, taken, *given)
    np.testing.assert_array_equal(taken, np.moveaxis(given[:, rows], 0, 1))
    rows[3, 1] = rows[6, 0] = -1
    call(GROUP.named("take"), 7, rows, taken, *given)
    np.testing.assert_array_equal(taken, np.moveaxis(np.where(rows < 0, 0, given[:, rows]), 0, 1))
    back = np.full_like(given, 7.0)
    call(GROUP.named("put"), 7, rows, taken, *back)
    wanted = np.where(np.isin(np.arange(rows.size), rows), given, 7.0)
    np.testing.assert_array_equal(back, wanted)


@pytest.mark.parametrize("times", [0, 1, 5])
def test_consecutive_rows(machine, times):
    width, dtype, call = machine
    lines = times * width
    heads = (np.random.default_rng(1).permutation(width) * lines).astype(np.int32)
    given = np.random.default_rng(2).normal(size=(ARRAYS, max(1, width * lines))).astype(dtype)
    taken = np.zeros((lines, ARRAYS, width), dtype)
    call(GROUP.named("take_along"), times, heads, taken, *given)
    rows = heads + np.arange(lines)[:, None]
    np.testing.assert_array_equal(taken, np.moveaxis(given[:, rows], 0, 1))
    back = np.zeros_like(given)
    call(GROUP.named("put_along"), times, heads, taken, *back)
    np.testing.assert_array_equal(back[:, : lines * width], given[:, : lines * width])


def test_sums(machine):
    width, dtype, call = machine
    rng = np.random.default_rng(3)
    source, target = (rng.normal(size=(4, NUMBERS, width)).astype(dtype) for _ in range(2))
    cells = rng.integers(0, 4 * width, (2, 20))
    cells[1, 5] = cells[1, 6]  # two to one
    offsets = (cells // width * NUMBERS * width + cells % width) * dtype.itemsize
    wanted = target.copy()
    for a, b in cells.T:
        wanted[b // width, :, b % width] += source[a // width, :, a % width]
    call(f"add{NUMBERS}", 20, source, offsets[0], target, offsets[1])
    np.testing.assert_array_equal(target, wanted)


def test_cells_and_vectors(machine):
    width, dtype, call = machine
    rng = np.random.default_rng(4)
    table = rng.normal(size=(4, NUMBERS, width)).astype(dtype)
    cells = rng.permutation(4 * width)[:width]
    offsets = (cells // width * NUMBERS * width + cells % width) * dtype.itemsize
    side_by_side = np.zeros((NUMBERS, width), dtype)
    call(f"fetch{NUMBERS}", width, table, offsets, side_by_side)
    np.testing.assert_array_equal(side_by_side, table[cells // width, :, cells % width].T)
    copied, total = np.zeros_like(table), np.zeros_like(table)
    call("copy", 4 * NUMBERS, table, copied)
    call("sum", 4 * NUMBERS, table, copied, total)
    np.testing.assert_array_equal(copied, table)
    np.testing.assert_array_equal(total, 2 * table)


def test_flags(machine):
    *_, call = machine
    flag, wanted = np.zeros(1, np.int64), np.array([5])
    call("signal", 0, flag, wanted)
    assert flag[0] == 5
    call("wait", 0, flag, wanted)  # comes back at once


def test_a_part_of_the_fields(machine):
    """One field of a cell is taken and put, and the other stays."""
    width, dtype, call = machine
    rows = np.random.default_rng(3).permutation(5 * width).astype(np.int32).reshape(5, width)
    given, cells = np.random.default_rng(4).normal(size=rows.size).astype(dtype), np.zeros((5, ARRAYS, width), dtype)
    call(PART.named("take"), 5, rows, cells.reshape(-1)[width:], given)
    np.testing.assert_array_equal(cells[:, 1], given[rows])
    assert not cells[:, 0].any()
    back = np.zeros_like(given)
    call(PART.named("put"), 5, rows, cells.reshape(-1)[width:], back)
    np.testing.assert_array_equal(back, given)


@pytest.mark.parametrize("count", [0, 1, 4])
def test_cells_are_added_up(machine, count):
    width, dtype, call = machine
    cells = np.random.default_rng(5).integers(-9, 9, (count, NUMBERS, width)).astype(dtype)  # whole: sums are exact
    target = np.full((NUMBERS, width), 7, dtype)
    call(f"fold{NUMBERS}", count, cells, target)
    np.testing.assert_array_equal(target, np.repeat(cells.sum((0, 2))[:, None], width, 1))

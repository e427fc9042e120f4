"""The lanes of a warp in shared memory.

A thread walks along its own row of a (lanes, width) array. So the numbers that the threads of a warp read at one time
lie `width` apart: 32 cache lines for 32 numbers. But all rows of a warp are contiguous. So the warp first copies them
to shared memory, transposed, works on them there, and copies the results back at the end.
"""

from collections.abc import Callable

from .. import tuning
from ..llvm.emit import Emitter

WARP = 32
PITCH = WARP + 1  # between columns: odd, so that copying along a row meets every bank
BLOCKS = (128, 64, 32)  # threads
SHARED = "ptr addrspace(3)"


def block_size(columns: int, itemsize: int) -> int:
    """Threads of a block whose rows fit in shared memory; 0 if not even the rows of one warp fit."""
    return next((b for b in BLOCKS if tile_bytes(columns, itemsize, b) <= tuning.GPU_TILE_BYTES), 0)


def tile_bytes(columns: int, itemsize: int, threads: int) -> int:
    """Bytes of the rows of a block."""
    return columns * PITCH * itemsize * (threads // WARP)


def tile_memory(scalar: str) -> str:
    """Declaration of the shared memory, whose size the launch gives."""
    return f"@tile = external addrspace(3) global [0 x {scalar}], align 16"


class Tile:
    """Rows of several arrays, one array after the other, by columns; widths are numbers or the names of values."""

    def __init__(self, to: Emitter, size: int, widths: list[str], thread: str, lane: str):
        self.to, self.size, self.widths = to, size, widths
        self.own = to.op(f"and i64 {thread}, {WARP - 1}")
        self.first = to.op(f"sub i64 {lane}, {self.own}")
        left = to.op(f"sub i64 %lanes, {self.first}")
        self.rows = to.op(f"select i1 {to.op(f'icmp slt i64 {left}, {WARP}')}, i64 {left}, i64 {WARP}")
        self.starts = ["0"]
        for width in widths:
            self.starts.append(to.op(f"add i64 {self.starts[-1]}, {width}"))
        warp = to.op(f"lshr i64 {thread}, {WARP.bit_length() - 1}")
        before = to.op(f"mul i64 {to.op(f'mul i64 {warp}, {self.starts[-1]}')}, {PITCH}")
        self.base = to.op(f"getelementptr {to.scalar}, {SHARED} @tile, i64 {before}")

    def cell(self, array: int, column: str, row: str = "") -> str:
        """Address of a column of an array in this thread's row, or in another's."""
        to = self.to
        place = to.op(f"mul i64 {to.op(f'add i64 {self.starts[array]}, {column}')}, {PITCH}")
        place = to.op(f"add i64 {place}, {row or self.own}")
        return to.op(f"getelementptr {to.scalar}, {SHARED} {self.base}, i64 {place}")

    def fetch(self, arrays: list[str]) -> None:
        """Copy the warp's rows of these arrays, the first ones, to shared memory. The copies are asynchronous."""
        asm = f'asm sideeffect "cp.async.ca.shared.global [$0], [$1], {self.size};", "l,l,~{{memory}}"'

        def copy(near: str, far: str) -> None:
            here, there = (self.to.op(f"ptrtoint {place} to i64") for place in (near, far))
            self.to.do(f"call void {asm}(i64 {here}, i64 {there})")

        for k, array in enumerate(arrays):
            self._each_number(k, array, copy)
        self.to.do('call void asm sideeffect "cp.async.wait_all;", "~{memory}"()')
        self._meet()

    def give_back(self, arrays: list[str]) -> None:
        """Copy the warp's rows to these arrays, the last ones, after all threads have written."""
        self._meet()

        def copy(near: str, far: str) -> None:
            self.to.do(f"store {self.to.scalar} {self.to.op(f'load {self.to.scalar}, {near}')}, {far}")

        for k, array in enumerate(arrays, len(self.widths) - len(arrays)):
            self._each_number(k, array, copy)

    def _meet(self) -> None:
        self.to.do('call void asm sideeffect "bar.warp.sync 0xffffffff;", "~{memory}"()')

    def _each_number(self, k: int, array: str, copy: Callable[[str, str], None]) -> None:
        """Walk along the warp's rows, the threads side by side, and copy each number between its cell and its place."""
        to, width, label = self.to, self.widths[k], f"copy{k}"
        count = to.op(f"mul i64 {self.rows}, {width}")
        begin = to.at(array, to.op(f"mul i64 {self.first}, {width}"), to.scalar, " addrspace(1)")
        row, column = (to.op(f"{op} i64 {self.own}, {width}") for op in ("udiv", "urem"))
        rows, columns = (to.op(f"{op} i64 {WARP}, {width}") for op in ("udiv", "urem"))  # from one turn to the next
        to.into(f"{label}_before")
        to.go(label)
        to.label(label)
        for name, start in (("number", self.own), ("row", row), ("column", column)):
            value = f"%{label}_{name}"
            to.lines.append(f"  {value} = phi i64 [ {start}, %{label}_before ], [ {value}_next, %{label}_turn ]")
        to.branch(to.op(f"icmp slt i64 %{label}_number, {count}"), f"{label}_turn", f"{label}_after")
        to.label(f"{label}_turn")
        near = self.cell(k, f"%{label}_column", f"%{label}_row")
        far = to.at(begin, f"%{label}_number", to.scalar, " addrspace(1)")
        copy(f"{SHARED} {near}", f"ptr addrspace(1) {far}")
        further = to.op(f"add i64 %{label}_column, {columns}")
        over = to.op(f"icmp sge i64 {further}, {width}")
        taken = to.op(f"select i1 {over}, i64 {width}, i64 0")
        carried = to.op(f"add i64 {rows}, {to.op(f'zext i1 {over} to i64')}")
        to.lines.append(f"  %{label}_number_next = add i64 %{label}_number, {WARP}")
        to.lines.append(f"  %{label}_column_next = sub i64 {further}, {taken}")
        to.lines.append(f"  %{label}_row_next = add i64 %{label}_row, {carried}")
        to.go(label)
        to.label(f"{label}_after")

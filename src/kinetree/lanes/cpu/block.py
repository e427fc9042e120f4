"""How the turns of a loop reach memory on a CPU: a block of W lanes at a time, in vector registers.

Lane arrays are (lanes, width), read and written in place: a block is transposed in registers. Each slot is W numbers.
"""

from typing import Any

from .. import tuning
from ..llvm.alone import Room
from ..llvm.kernel import LoopWriter
from ..llvm.text import transposed
from ..program.program import Lane, Program


def _in_a_row(places: tuple[Lane, ...]) -> int:
    """How many of these outputs, from the first on, are columns in a row of one array."""
    first = places[0]
    row = (x == first._replace(offset=first.offset + k) for k, x in enumerate(places))
    return next((k for k, follows in enumerate(row) if not follows), len(places))


class BlockWriter(LoopWriter):
    """Loops over a block of lanes; who writes a function says where things are."""

    def __init__(self, program: Program, jaxprs: list[Any], width: int, dtype: Any):
        super().__init__(program, jaxprs, width, dtype)
        self.inputs: list[str] = []  # addresses of the arrays
        self.widths: list[str] = []  # how far lanes are apart in inputs, then in outputs
        self.places: list[str] = []  # where the block's results go at first
        self.lane = ""  # the first of the block
        self.slots = ""  # address
        self.ahead = f"{tuning.PREFETCH_BLOCKS * width}"  # lanes; how far ahead the place of a result is asked for
        self.near: list[str] = []  # columns of the block on the stack, one array for each
        self.lists: dict[str, tuple[str, str]] = {}  # room for the numbers of turns on each list, and their count

    def _chosen(self, new: str, old: str) -> str:
        """The new value in the lanes that take part.

        LLVM would make a masked store of it. With masks in vectors of 32 bytes those take some nine cycles on AMD's
        processors, so it may not see what is stored.
        """
        chosen = super()._chosen(new, old)
        hidden = self.mask and self.size * self.to.width == 32
        return self.to.intrinsic("arithmetic.fence", chosen) if hidden else chosen

    def _loop(self, k: int, arrays: tuple[str, str, str]) -> None:
        """All turns of loop k, or those on the list that it follows."""
        to, loop = self.to, self.program.loops[k]
        if loop.lists is not None:
            to.store("i64", 0, self.lists[loop.lists[0]][1])
        if loop.follows not in self.lists:
            super()._loop(k, arrays)
            return
        numbers, count = self.lists[loop.follows]

        def turn(place: str) -> None:
            number = to.op(f"zext i32 {to.load('i32', numbers, place, 'i32')} to i64")
            self._one_turn(k, number, arrays)

        self._counted(f"loop{k}", to.load("i64", count), turn)

    def _turn(self, k: int, number: str, constants: str) -> None:
        """One turn; it is put on a list where one of the lanes asks for that."""
        super()._turn(k, number, constants)
        to, lists = self.to, self.program.loops[k].lists
        if lists is None:
            return
        (numbers, count), slots = self.lists[lists[0]], lists[1]
        acts = to.op(f"fcmp une {to.real} {self.read_slot(self._slots(slots)[0], slots.cold)}, {to.number(0.0)}")
        acts = to.op(f"and {to.truth} {self.mask}, {acts}") if self.mask else acts
        last = to.load("i64", count)
        to.do(f"store i32 {to.op(f'trunc i64 {number} to i32')}, ptr {to.at(numbers, last, 'i32')}")
        to.store("i64", to.op(f"add i64 {last}, {to.op(f'zext i1 {self.any(acts)} to i64')}"), count)

    def constant(self, kind: str, base: str, index: str | int) -> str:
        """From an array in memory."""
        return self.to.load(kind, base, index, kind, f", align {4 if kind == 'i32' else self.size}")

    def pool(self, constants: str) -> Room:
        """In memory, as it is."""
        return Room(self.to.scalar, constants, shared=True, fixed=True)

    def _slot(self, number: str) -> str:
        return self.to.at(self.slots, self.to.op(f"mul i64 {number}, {self.to.width}"), self.to.scalar)

    def read_slot(self, number: str, cold: bool = False) -> str:
        """One vector of scratch."""
        return self.to.op(f"load {self.to.real}, ptr {self._slot(number)}, align {self.size * self.to.width}")

    def write_slot(self, number: str, value: str, cold: bool = False) -> None:
        """One vector of scratch."""
        self.to.do(f"store {self.to.real} {value}, ptr {self._slot(number)}, align {self.size * self.to.width}")

    def _place(self, start: str, width: str, column: str, write: int) -> str:
        """Address of this scalar in the first lane of the block; asks for a block further on at the same time."""
        to = self.to
        if to.width > 1:
            # a block of W lanes is `width` vectors in a row: turn by turn, fetch one of those of a later block
            ahead = to.op(f"mul i64 {self.ahead if write else tuning.PREFETCH_BLOCKS * to.width}, {width}")
            ahead = to.op(f"add i64 {ahead}, {to.op(f'mul i64 {column}, {to.width}')}")
            to.prefetch(to.at(start, ahead, to.scalar), write)
        return to.at(start, column, to.scalar)

    def _input(self, array: int) -> str:
        """Where the block begins in an input."""
        offset = self.to.op(f"mul i64 {self.lane}, {self.widths[array]}")
        return self.to.at(self.inputs[array], offset, self.to.scalar)

    def read_lane(self, array: int, column: str) -> str:
        """One scalar of each lane of the block."""
        to, width = self.to, self.widths[array]
        if self.near:
            return to.op(f"load {to.real}, ptr {to.at(self.near[array], column, to.real)}")
        place = self._place(self._input(array), width, column, 0)
        value = "poison"
        for lane in range(to.width):
            one = to.op(f"load {to.scalar}, ptr {place}, align {self.size}")
            if to.width == 1:
                return one
            value = to.op(f"insertelement {to.real} {value}, {to.scalar} {one}, i32 {lane}")
            place = to.at(place, width, to.scalar)
        return value

    def write_lanes(self, places: tuple[Lane, ...], values: list[str]) -> None:
        """Outputs of one turn; those that are columns in a row are stored lane by lane."""
        width = self.to.width
        plain = width > 1 and not self.near and not self.mask
        start = 0
        while start < len(places):
            count = _in_a_row(places[start : start + width]) if plain else 1
            count = count if count >= tuning.MIN_ROW_STORE else 1
            if count > 1:
                self._write_row(places[start], values[start : start + count])
            else:
                self.write_lane(places[start].array, self._column(places[start]), values[start])
            start += count

    def _write_row(self, first: Lane, values: list[str]) -> None:
        """Columns in a row, from this one on, of all lanes of the block."""
        to, width = self.to, self.widths[self.program.n_inputs + first.array]
        count, start = len(values), self.places[first.array]
        columns = [self._column(first._replace(offset=first.offset + k)) for k in range(count)]
        places = [self._place(start, width, column, 1) for column in columns]  # All of them ask for a later block.
        place = places[0]
        kind = f"<{count} x {to.scalar}>"
        kept = ", ".join(f"i32 {k}" for k in range(count))
        for row in transposed(to, to.real, values + [to.number(0.0)] * (to.width - count)):
            if count < to.width:
                row = to.op(f"shufflevector {to.real} {row}, {to.real} poison, <{count} x i32> <{kept}>")
            to.do(f"store {kind} {row}, ptr {place}, align {self.size}")
            place = to.at(place, width, to.scalar)

    def write_lane(self, array: int, column: str, value: str) -> None:
        """One scalar of each lane of the block that takes part."""
        to, width = self.to, self.widths[self.program.n_inputs + array]
        if self.near:
            to.do(f"store {to.real} {value}, ptr {to.at(self.near[self.program.n_inputs + array], column, to.real)}")
            return
        place = self._place(self.places[array], width, column, 1)
        for lane in range(to.width):
            one = value if to.width == 1 else to.op(f"extractelement {to.real} {value}, i32 {lane}")
            if self.mask:
                old = to.op(f"load {to.scalar}, ptr {place}, align {self.size}")
                takes_part = to.op(f"extractelement {to.truth} {self.mask}, i32 {lane}")
                one = to.op(f"select i1 {takes_part}, {to.scalar} {one}, {to.scalar} {old}")
            to.do(f"store {to.scalar} {one}, ptr {place}, align {self.size}")
            if to.width > 1:
                place = to.at(place, width, to.scalar)

"""Walks over blocks of lanes as LLVM text: what one core does with a huge tree, block by block, in its own cache.

A block is as many lanes as a vector register has, for some turns. Its arrays are (turns, fields, lanes), so that a core
reads and writes forward without a gap. Every function has the same form, `f(ptr operands, i64 count)`, with the
addresses of its arrays as operands; a list of such calls (lists.py) says what to do with a tree.
"""

from dataclasses import dataclass
from typing import Any

from .. import tuning
from ..llvm.emit import Emitter
from ..walks.text import begin_turns, carry, end_turns, traced
from ..walks.walk import Walk

NOWHERE = (-1, 0)  # where a field is that blocks do not hold, as the walk makes no use of it


@dataclass(frozen=True)
class BlockWalk:
    """A walk over one block, and where its lanes begin and end.

    Operands: where lanes start; the arrays of the streams, and one array more, `taken`, whose fields are what the walk
    calls gathered; the array of results; where lanes end. A lane starts from numbers side by side, (fields, lanes), or,
    if `hanging`, from cells at byte offsets, a second operand. Its final state is stored side by side ("store"), added
    to cells at byte offsets ("add", two operands), or dropped.
    """

    walk: Walk
    name: str
    taken: tuple[int, ...] = ()  # fields
    hanging: bool = False
    ends: str = ""


class BlockText:
    """Writes the function of a block walk for vectors of a number of lanes; so many arrays are taken from."""

    def __init__(self, block: BlockWalk, width: int, dtype: Any, arrays: int):
        self.block, self.walk, self.arrays = block, block.walk, arrays
        to = self.to = Emitter(width, dtype)
        self.size = to.dtype.itemsize
        to.lines.append(f"define void @{block.name}(ptr %operands, i64 %turns) {{")
        to.label("entry")
        self._next = 0
        start = self._start()
        streams = [self._operand() for _ in self.walk.widths]
        taken = self._operand() if block.taken else ""
        results = self._operand() if self.walk.outputs else ""
        final = [self._operand() for _ in range({"": 0, "store": 1, "add": 2}[block.ends])]
        new = self._turns(start, streams, taken, results)
        if block.ends == "store":
            for k, value in enumerate(new):
                self._write(final[0], str(k * width), value)
        elif block.ends == "add":
            self._add(final[0], final[1], new)
        to.do("ret void")
        to.lines.append("}")

    def _operand(self) -> str:
        self._next += 1
        return self.to.load("ptr", "%operands", 8 * (self._next - 1))

    def _read(self, base: str, index: str) -> str:
        to = self.to
        place = to.op(f"getelementptr {to.scalar}, ptr {base}, i64 {index}")
        return to.op(f"load {to.real}, ptr {place}, align {self.size}")

    def _write(self, base: str, index: str, value: str) -> None:
        to = self.to
        place = to.op(f"getelementptr {to.scalar}, ptr {base}, i64 {index}")
        to.do(f"store {to.real} {value}, ptr {place}, align {self.size}")

    def _lanes(self, base: str, offsets: str) -> list[str]:
        """Addresses at byte offsets from a base, one for each lane."""
        return [self.to.at(base, self.to.load("i64", offsets, 8 * lane)) for lane in range(self.to.width)]

    def _start(self) -> list[str]:
        to, count = self.to, self.walk.state.num_leaves
        base = self._operand()
        if not self.block.hanging:
            return [self._read(base, str(k * to.width)) for k in range(count)]
        cells = self._lanes(base, self._operand())
        values = []
        for k in range(count):
            value = "poison"
            for lane, cell in enumerate(cells):
                number = to.load(to.scalar, cell, k * to.width, to.scalar)
                value = to.op(f"insertelement {to.real} {value}, {to.scalar} {number}, i32 {lane}")
            values.append(value)
        return values

    def _add(self, base: str, offsets: str, values: list[str]) -> None:
        """Lane by lane: several may hang from one cell."""
        to = self.to
        for lane, cell in enumerate(self._lanes(base, offsets)):
            for k, value in enumerate(values):
                number = to.op(f"extractelement {to.real} {value}, i32 {lane}")
                place = to.at(cell, k * to.width, to.scalar)
                total = to.op(f"fadd {to.scalar} {to.op(f'load {to.scalar}, ptr {place}')}, {number}")
                to.do(f"store {to.scalar} {total}, ptr {place}")

    def _turns(self, start: list[str], streams: list[str], taken: str, results: str) -> list[str]:
        to, walk, width = self.to, self.walk, self.to.width
        carried, place = begin_turns(to, len(start))
        turn = to.op(f"sub i64 {to.op('sub i64 %turns, 1')}, %t") if walk.reverse else "%t"

        def cell(fields: int, field: int, at: str = turn) -> str:
            return to.op(f"add i64 {to.op(f'mul i64 {at}, {fields * width}')}, {field * width}")

        later = to.op(f"add i64 {turn}, {-tuning.PREFETCH_TURNS if walk.reverse else tuning.PREFETCH_TURNS}")
        values = list(carried)
        for array, field in walk.fields:
            if (array, field) == NOWHERE:
                values.append(to.number(0.0))
                continue
            to.prefetch(to.at(streams[array], cell(walk.widths[array], field, later), to.scalar))
            values.append(self._read(streams[array], cell(walk.widths[array], field)))
        values += [self._read(taken, cell(self.arrays, field)) for field in self.block.taken]
        found = to.jaxpr(traced(walk, to.dtype), [*values, to.splat("i1", "1")])
        new, found = found[: len(start)], found[len(start) :]
        carry(to, carried, place, start, new)
        for field, value in enumerate(found):
            self._write(results, cell(len(found), field), value)
        to.go("next")
        end_turns(to)
        return new

"""Memory access of the turns of a loop on a CPU: a block of W lanes at a time, in vector registers.

A column of a lane array (columns.py) and a slot are W numbers each. A single lane uses its rows in place of columns.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from ..llvm.alone import Room
from ..llvm.emit import trace
from ..llvm.kernel import LoopWriter
from ..program.program import Loop, Program, Slots
from .ahead import TURNS, Step, split
from .alike import side_by_side
from .interleaved import Place, interleaved, places
from .order import TurnList


class BlockWriter(LoopWriter):
    """Loops over a block of lanes. The class that writes a function sets the addresses."""

    def __init__(self, program: Program, jaxprs: list[Any], width: int, dtype: Any):
        super().__init__(program, jaxprs, width, dtype)
        self.inputs: list[str] = []  # for each array, the address of the block's columns
        self.outputs: list[str] = []
        self.slots = ""  # address
        self.sines: tuple[Step, list[str]] | None = None  # a step without its sines and cosines, and their values
        self.lists: dict[str, TurnList] = {}

    def _chosen(self, new: str, old: str) -> str:
        """The new value in the lanes that take part.

        LLVM would make a masked store of this. With masks in vectors of 32 bytes such a store takes some nine cycles on
        processors of AMD. So the value is hidden from LLVM.
        """
        chosen = super()._chosen(new, old)
        hidden = self.mask and self.size * self.to.width == 32
        return self.to.intrinsic("arithmetic.fence", chosen) if hidden else chosen

    def _loop(self, k: int, arrays: tuple[str, str, str]) -> None:
        """Write all turns of loop k, or those on the list that it follows."""
        to, loop = self.to, self.program.loops[k]
        if loop.lists is not None:
            self.lists[loop.lists[0]].clear(to)
        if loop.skips is not None:
            self._skipping(k, arrays, *loop.skips)
            return
        if loop.follows not in self.lists:
            steps = (
                None
                if self.mask or loop.when is not None or loop.pool
                else split(self.jaxprs[k], loop.constants.num_leaves + len(loop.inputs))
            )
            super()._loop(k, arrays) if steps is None else self._ahead(k, arrays, *steps)
            return
        turns = self.lists[loop.follows]
        most = to.load("i64", turns.count)
        with to.each(most) as place:
            number = turns.number(to, self._from_end(place, most) if loop.backward else place)
            self._one_turn(k, self._from_end(number, arrays[2]) if loop.backward else number, arrays)

    def _skipping(self, k: int, arrays: tuple[str, str, str], column: int, slot: Slots) -> None:
        """Write all turns of loop k. Where a slot is 0 in all lanes, the turns that name it are left out."""
        to, label, before = self.to, self.to.new_label("skipping"), self.mask
        following = to.variable("i64", 0)
        to.into(label)
        number = to.load("i64", following)
        with to.when(to.op(f"icmp slt i64 {number}, {arrays[2]}")):
            self._take_row(k, number, arrays[1])
            further = to.op(f"add i64 {number}, {self.columns[column]}")
            to.store("i64", to.op(f"add i64 {further}, 1"), following)
            self._choose(self.read_slot(self.slots_of(slot)[0]), f"{label}_do", label)
            self.mask = before
            to.store("i64", to.op(f"add i64 {number}, 1"), following)
            self._one_turn(k, number, arrays)
            to.go(label)

    def _from_end(self, number: str, count: str) -> str:
        """A place counted from the other end."""
        return self.to.op(f"sub i64 {self.to.op(f'sub i64 {count}, 1')}, {number}")

    def _ahead(self, k: int, arrays: tuple[str, str, str], sines: Step, rest: Step) -> None:
        """Write all turns of loop k in groups: first the sines and cosines of a group, then all else."""
        to, (constants, table, turns) = self.to, arrays
        count, align = len(sines.jaxpr.outvars), f"align {self.size * to.width}"
        room = to.variable(f"[{TURNS * count} x {to.real}]", extra=f", {align}")

        def room_of(n: str) -> list[str]:
            start = to.at(room, to.op(f"mul i64 {n}, {count}"), to.real)
            return [to.at(start, i, to.real) for i in range(count)]

        parts = to.op(f"sdiv i64 {to.op(f'add i64 {turns}, {TURNS - 1}')}, {TURNS}")
        with to.each(parts) as part:
            first = to.op(f"mul i64 {part}, {TURNS}")
            these = to.smaller(to.op(f"sub i64 {turns}, {first}"), TURNS)
            with to.each(these) as n:
                number = to.op(f"add i64 {first}, {n}")
                self._take_row(k, number, table)
                found = to.jaxpr(sines, self._given(k, number, constants))
                for place, value in zip(room_of(n), found, strict=True):
                    to.do(f"store {to.real} {value}, ptr {place}, {align}")
            with to.each(these) as n:
                self.sines = rest, [to.op(f"load {to.real}, ptr {place}, {align}") for place in room_of(n)]
                self._one_turn(k, to.op(f"add i64 {first}, {n}"), arrays)
                self.sines = None

    def step(self, k: int, given: list[Any]) -> None:
        """Write the step of loop k, in an order that needs few registers. A step that searches has its own memory."""
        loop = self.program.loops[k]
        if loop.pool:
            super().step(k, given)
            return
        if loop.alike > 1 and self.to.width == 1:
            side_by_side(self, loop, given)
            return
        own = (self.jaxprs[k], []) if self.sines is None else self.sines
        if loop.special is None:
            self._in_order(loop, *own, given)
            return
        to, (column, other) = self.to, loop.special
        names = [to.new_label(name) for name in ("special", "plain", "either")]
        to.branch(to.op(f"icmp ne i64 {self.columns[column]}, 0"), *names[:2])
        for name, one, step in zip(names, (other, loop), (trace(other, to.dtype), own[0]), strict=False):
            to.label(name)
            to.begin_block()
            self._in_order(one, step, [], given)
            to.go(names[2])
        to.label(names[2])
        to.begin_block()

    def _in_order(self, loop: Loop, step: Any, sines: list[str], given: list[Any]) -> None:
        def numbers(groups: tuple[Slots, ...]) -> list[str]:
            return [number for slots in groups for number in self.slots_of(slots)]

        reads = [(p, partial(self.read_slot, n)) for p, n in zip(places(loop.reads), numbers(loop.reads), strict=True)]
        results: list[tuple[Place | None, Callable[[str], None]]] = []
        for groups, store in ((loop.writes, self.put), (loop.adds, self.add)):
            pairs = zip(places(groups), numbers(groups), strict=True)
            results += [(place, partial(store, number)) for place, number in pairs]
        results += [(None, partial(self.write_lane, x.array, self.column_of(x))) for x in loop.outputs]
        interleaved(self.to, step, (given, sines), reads, results)

    def _turn(self, k: int, number: str, constants: str) -> None:
        """Write one turn. It goes on the list of the loop if one of the lanes needs it there."""
        super()._turn(k, number, constants)
        to, lists = self.to, self.program.loops[k].lists
        if lists is None:
            return
        name, slots = lists
        acts = to.op(f"fcmp une {to.real} {self.read_slot(self.slots_of(slots)[0])}, {to.number(0.0)}")
        acts = to.op(f"and {to.truth} {self.mask}, {acts}") if self.mask else acts
        self.lists[name].add(to, number, acts)

    def constant(self, kind: str, base: str, index: str | int) -> str:
        """From an array in memory."""
        return self.to.load(kind, base, index, kind, f", align {4 if kind == 'i32' else self.size}")

    def pool(self, constants: str) -> Room:
        """In memory, as it is."""
        return Room(self.to.scalar, constants, shared=True, fixed=True)

    def _slot(self, number: str) -> str:
        return self.to.at(self.slots, self.to.op(f"mul i64 {number}, {self.to.width}"), self.to.scalar)

    def read_slot(self, number: str) -> str:
        """One vector of scratch."""
        return self.to.op(f"load {self.to.real}, ptr {self._slot(number)}, align {self.size * self.to.width}")

    def write_slot(self, number: str, value: str) -> None:
        """One vector of scratch."""
        self.to.do(f"store {self.to.real} {value}, ptr {self._slot(number)}, align {self.size * self.to.width}")

    def read_lane(self, array: int, column: str) -> str:
        """One scalar of each lane of the block."""
        return self.to.op(f"load {self.to.real}, ptr {self.to.at(self.inputs[array], column, self.to.real)}")

    def write_lane(self, array: int, column: str, value: str) -> None:
        """One scalar of each lane of the block that takes part."""
        to, place = self.to, self.to.at(self.outputs[array], column, self.to.real)
        if self.mask:
            value = self._chosen(value, to.op(f"load {to.real}, ptr {place}"))
        to.do(f"store {to.real} {value}, ptr {place}")

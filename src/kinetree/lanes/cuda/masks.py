"""Values of slots around the turns of a written-out program, and which of its turns a lane does.

The turns of a loop that a lane does are a mask, or a list of their numbers where there are many; both are made once
where conditions do not change.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ..program.sequence import Cycle, Run, Sequenced, conditions
from ..program.stored import Events
from .ptx import GLOBAL, CudaWriter
from .tile import WARP

MASK_BITS = 64
AT_ONCE = 8  # conditions that are tested together, to make a list


class ValueWriter(CudaWriter):
    """Reads and writes slots. `stored` are the writes that are later read from memory; None while that is unknown."""

    home = ""  # address of the slots, in local memory
    cold_slots = ""  # the address of slot 0 in the device's memory, if some slots lie there

    def __init__(self, sequenced: Sequenced, jaxprs: list[Any], dtype: Any, stored: set[int] | None):
        super().__init__(sequenced.program, jaxprs, dtype)
        assert sequenced.program.straight is not None
        self.known, self.sequenced, self.stored = sequenced.program.straight, sequenced, stored
        self.tables = sequenced.tables
        self.widths = [str(w) for w in self.known.widths]
        self.values: dict[int, str] = {}  # of slots, in registers
        self.masks: dict[tuple[int, ...], tuple[str, str]] = {}  # by conditions: kind and value
        self.events = Events()
        self.certain = True  # True if all lanes do the operations that are being written
        self.arrays_of_module: dict[str, str] = {}
        self._lists: dict[str, tuple[str, str]] = {}
        self._rooms: dict[tuple[int, ...], str] = {}  # of lists, by conditions
        self._blocks = 0

    def at(self, name: str) -> str:
        """Begin a block, whose label is known."""
        label = self._new_label(name)
        self.to.go(label)
        self.to.label(label)
        return label

    def _new_label(self, name: str) -> str:
        self._blocks += 1
        return f"{name}{self._blocks}"

    # -- values -------------------------------------------------------------------------------------------------------

    def read_slot(self, number: str) -> str:
        """From memory."""
        return self.to.op(f"load {self.to.scalar}, {self.place_of(int(number))}")

    def write_slot(self, number: str, value: str) -> None:
        """To memory."""
        self.to.do(f"store {self.to.scalar} {value}, {self.place_of(int(number))}")

    def place_of(self, slot: int) -> str:
        """The address of a slot."""
        near = self.sequenced.near
        return self.cell(self.whole(cold=near is not None and slot >= near), slot)

    def whole(self, cold: bool) -> str:
        """The base address of slots, or of cold slots."""
        far = self.sequenced.has_cold_slots and (cold or self.sequenced.near == 0)
        return f"{GLOBAL} {self.cold_slots}" if far else f"ptr {self.home}"

    def cell(self, base: str, number: int | str) -> str:
        """The address of a slot relative to a base. In the device's memory 32 lanes lie side by side."""
        to, space = self.to, base.rpartition(" ")[0]
        if space == GLOBAL:
            number = number * WARP if isinstance(number, int) else to.op(f"mul i32 {number}, {WARP}")
        return f"{space} {to.op(f'getelementptr {to.scalar}, {base}, i32 {number}')}"

    def value(self, slot: int) -> str:
        """The value of a slot."""
        if slot not in self.values:
            self.events.read(slot)
            self.values[slot] = self.read_slot(str(slot))
        return self.values[slot]

    def keep(self, slot: int, value: str) -> None:
        """Store the value of a slot, if it is read from memory later."""
        number = self.events.write(slot, self.certain)
        if self.stored is None or number in self.stored:
            self.write_slot(str(slot), value)
        self.forget_masks((slot,))

    def forget_masks(self, slots: Any) -> None:
        """Drop masks of conditions that changed."""
        slots = set(slots)
        self.masks = {key: mask for key, mask in self.masks.items() if not slots.intersection(key)}

    def literal(self, value: str) -> bool:
        """True if a value is a literal."""
        return not value.startswith("%")

    def differs(self, slot: int) -> str:
        """True if a slot is not 0."""
        to, value = self.to, self.values.get(slot)
        if value is None:
            self.events.read(slot)
            value = self.read_slot(str(slot))
        return to.op(f"fcmp une {to.real} {value}, {to.number(0.0)}")

    def key_of(self, run: Run) -> tuple[int, ...]:
        """The conditions of all turns of a loop if a mask has bits for them; else those of the stretches of a run."""
        loop, table = self.program.loops[run.loop], self.tables[run.loop]
        turns = self.numbered(run)
        return conditions(loop, table, turns if len(table) <= MASK_BITS else [turns[n] for n in self.stretches(run)])

    def stretches(self, run: Run) -> Sequence[int]:
        """The first turn of each stretch of turns with one condition, if a run has too many turns for a mask."""
        loop, table = self.program.loops[run.loop], self.tables[run.loop]
        every = conditions(loop, table, run.turns)
        begins = [n for n, slot in enumerate(every) if n == 0 or slot != every[n - 1]]
        return begins if len(begins) > MASK_BITS else range(len(every))

    def numbered(self, run: Run) -> Sequence[int]:
        """The turns that belong to the bits of a run's mask; without a mask, the turns of the run."""
        table = self.tables[run.loop]
        return range(len(table)) if len(table) <= MASK_BITS else run.turns

    def masks_for(self, cycle: Cycle) -> None:
        """Masks of those runs in a repeat whose conditions it does not change."""
        for part in cycle.parts:
            if isinstance(part, Cycle):
                self.masks_for(part)
                continue
            for run in part:
                loop = self.program.loops[run.loop]
                if loop.when is None or loop.when.column is None:
                    continue
                if len(run.turns) > 1 or len(self.tables[run.loop]) <= MASK_BITS:
                    key = self.key_of(run)
                    if not cycle.changed.intersection(key):
                        self.mask_of(key)

    def mask_of(self, key: tuple[int, ...]) -> tuple[str, str]:
        """The turns to do: a mask, or the address of a list with the numbers of their stretches."""
        if key not in self.masks:
            self.masks[key] = self._bits(key) if len(key) <= MASK_BITS else self._listed(key)
        return self.masks[key]

    def _bits(self, key: tuple[int, ...]) -> tuple[str, str]:
        to, whole = self.to, "0"
        kind = "i32" if len(key) <= 32 else "i64"
        for bit, slot in enumerate(key):
            own = to.op(f"select i1 {self.differs(slot)}, {kind} {signed(1 << bit, kind)}, {kind} 0")
            whole = to.op(f"or {kind} {whole}, {own}")
        return kind, whole

    def _listed(self, key: tuple[int, ...]) -> tuple[str, str]:
        to, count = self.to, len(key)
        for slot in key:
            self.events.read(slot)
        listing = self._rooms.setdefault(key, "") or self._integers(count)
        self._rooms[key] = listing  # when a list is made again, it replaces the old one
        start = self.at("list")
        turn = self.at("listing")
        to.lines.append(f"  %{turn}_j = phi i32 [ 0, %{start} ], [ %{turn}_more, %{turn}_end ]")
        to.lines.append(f"  %{turn}_n = phi i32 [ 0, %{start} ], [ %{turn}_next, %{turn}_end ]")
        after = range(key[-1] + 1, key[-1] + 1 + AT_ONCE)  # read in the last turn, then ignored
        last = (self.sequenced.near or self.sequenced.slots) - 1  # conditions are not cold
        assert max(key) <= last
        slots = self._next_of([min(slot, last) for slot in (*key, *after)], f"%{turn}_j")
        values = [to.op(f"load {to.scalar}, {self.cell(self.whole(cold=False), slot)}") for slot in slots]
        truths = [to.op(f"fcmp une {to.real} {value}, {to.number(0.0)}") for value in values]
        some = truths[0]
        for truth in truths[1:]:
            some = to.op(f"or i1 {some}, {truth}")
        to.branch(some, f"{turn}_some", f"{turn}_end")
        to.label(f"{turn}_some")
        found = f"%{turn}_n"
        for k, truth in enumerate(truths):
            j = to.op(f"add i32 %{turn}_j, {k}")
            to.do(f"store i32 {j}, ptr {to.op(f'getelementptr i32, ptr {listing}, i32 {found}')}")
            holds = to.op(f"and i1 {truth}, {to.op(f'icmp slt i32 {j}, {count}')}")
            found = to.op(f"add i32 {found}, {to.op(f'zext i1 {holds} to i32')}")
        to.go(f"{turn}_end")
        to.label(f"{turn}_end")
        to.lines.append(f"  %{turn}_next = phi i32 [ %{turn}_n, %{turn} ], [ {found}, %{turn}_some ]")
        to.lines.append(f"  %{turn}_more = add i32 %{turn}_j, {AT_ONCE}")
        end = self._new_label("listed")
        to.branch(to.op(f"icmp slt i32 %{turn}_more, {count}"), turn, end)
        to.label(end)
        return listing, f"%{turn}_next"

    def list_of(self, name: str, most: int) -> tuple[str, str]:
        """Memory for the numbers of the turns on a list, and for their count."""
        if name not in self._lists:
            self._lists[name] = self._integers(most), self._integers(1)
        return self._lists[name]

    def _integers(self, count: int) -> str:
        """Memory for integers, for the whole function."""
        return self.to.variable(f"[{count + 1} x i32]")

    def module_array(self, kind: str, numbers: list[Any]) -> str:
        """An array of constants in the module."""
        texts = ", ".join(f"{kind} {x}" for x in numbers)
        text = f"internal unnamed_addr addrspace(1) constant [{len(numbers)} x {kind}] [{texts}], align 16"
        return self.arrays_of_module.setdefault(text, f"@known{len(self.arrays_of_module)}")

    def entry(self, kind: str, array: str, index: str) -> str:
        """An entry of a constant array."""
        place = self.to.op(f"getelementptr {kind}, {GLOBAL} {array}, i32 {index}")
        return self.to.op(f"load {kind}, {GLOBAL} {place}, !invariant.load !8")

    def _next_of(self, numbers: list[int], at: str) -> list[str]:
        """AT_ONCE consecutive integers of a list, loaded four at a time or computed. `at` is a multiple of AT_ONCE."""
        to, step = self.to, numbers[1] - numbers[0]
        if all(b - a == step for a, b in pairwise(numbers)):
            return [self.one_of(numbers, to.op(f"add i32 {at}, {k}")) for k in range(AT_ONCE)]
        array = self.module_array("i32", [*numbers, *[0] * (-len(numbers) % AT_ONCE)])
        found = []
        for k in range(0, AT_ONCE, 4):
            place = to.op(f"getelementptr i32, {GLOBAL} {array}, i32 {to.op(f'add i32 {at}, {k}')}")
            four = to.op(f"load <4 x i32>, {GLOBAL} {place}, align 16, !invariant.load !8")
            found += [to.op(f"extractelement <4 x i32> {four}, i32 {n}") for n in range(4)]
        return found

    def one_of(self, numbers: list[int], which: str) -> str:
        """One of several integers. It is computed if they are equally spaced, else loaded."""
        step = numbers[1] - numbers[0] if len(numbers) > 1 else 0
        if any(b - a != step for a, b in pairwise(numbers)):
            return self.entry("i32", self.module_array("i32", numbers), which)
        return self.to.op(f"add i32 {self.to.op(f'mul i32 {which}, {step}')}, {numbers[0]}")


def signed(bits: int, kind: str) -> int:
    """Bits as a literal of an LLVM integer type."""
    size = int(kind[1:])
    return bits - (1 << size) if bits >> (size - 1) else bits

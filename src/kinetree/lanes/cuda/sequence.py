"""A lane program with repeats and conditions as a CUDA kernel for one mechanism, a lane to a thread.

Its turns are written out in order (program/sequence.py), with known tables and constants. The value of a slot stays in
a register until the next turn that needs it, if that is near; other values wait in the thread's local memory. The text
is written twice. The first time finds which values are read from memory; the second text stores only these.
"""

from typing import Any

import numpy as np

from .. import tuning
from ..llvm.emit import trace
from ..program.fold import OWN, folded
from ..program.program import Lane, Program
from ..program.sequence import Cycle, Run, Sequenced, conditions
from ..program.straight import slot_numbers
from .masks import signed
from .ptx import GLOBAL, Assembly, assembled, gpu_module
from .runs import RunWriter
from .tile import WARP


class SequenceKernel(RunWriter):
    """The kernel of a program in order."""

    def __init__(self, sequenced: Sequenced, jaxprs: list[Any], dtype: Any, stored: set[int] | None = None):
        super().__init__(sequenced, jaxprs, dtype, stored)
        to = self.to
        self.begin()
        self.by_columns = range(self.program.n_inputs - self.known.by_columns, self.program.n_inputs)
        self.begin_threads()
        near = sequenced.slots if sequenced.near is None else sequenced.near
        self.home = to.op(f"alloca [{near} x {to.scalar}], align 16") if near else ""
        if sequenced.near is not None:  # [warp, slot, lane of a warp]
            own = to.op(f"and i64 {self.lane}, {WARP - 1}")
            others = to.op(f"sub i64 {self.lane}, {own}")
            first = to.op(f"add i64 {to.op(f'mul i64 {others}, %room')}, {to.op(f'sub i64 {own}, {near * WARP}')}")
            self.cold_slots = to.op(f"getelementptr {to.scalar}, {GLOBAL} %scratch, i64 {first}")
        to.branch(to.op(f"icmp slt i64 {self.lane}, %lanes"), "before0", "done")
        to.label("before0")
        self._write(sequenced.parts)
        to.go("done")
        to.label("done")
        self.end()

    # -- order --------------------------------------------------------------------------------------------------------

    def _write(self, parts: "list[list[Run] | Cycle]") -> None:
        for part in parts:
            if isinstance(part, Cycle):
                self._cycle(part)
            else:
                self._row(part)

    def _row(self, runs: list[Run]) -> None:
        """Runs one after the other."""
        uses: dict[int, list[int]] = {}
        for place, run in reversed(list(enumerate(runs))):
            for slot in self._static(run):
                uses.setdefault(slot, []).append(place)  # the next one comes last
        place = 0
        while place < len(runs):
            run, count = runs[place], 1
            condition = self._condition(run)
            while condition is not None and place + count < len(runs):
                if self._condition(runs[place + count]) != condition or condition[0] in self._changed(run):
                    break
                run, count = runs[place + count], count + 1
            if condition is None:
                self._run(run)
            else:
                self._where(self._holds(runs[place]), runs[place : place + count])
            place += count
            self._evict(uses, place - 1)

    def _condition(self, run: Run) -> tuple[int, int] | None:
        """The slot that a single turn depends on, if any, and its side."""
        loop = self.program.loops[run.loop]
        if loop.when is None or len(run.turns) > 1:
            return None
        (slot,) = conditions(loop, self.tables[run.loop], run.turns)
        return slot, self.side(run, loop.when)

    def _changed(self, run: Run) -> set[int]:
        return set(self.sequenced.changed(run).tolist())

    def _static(self, run: Run) -> set[int]:
        """Slots whose values the text of a run needs."""
        loop, table = self.program.loops[run.loop], self.tables[run.loop]
        places = (*loop.reads, *loop.adds)
        found = {i for p in places if not self.varies(run, p) for i in slot_numbers(p, table[run.turns[0]])}
        if loop.when is not None:
            found |= set(conditions(loop, table, run.turns))
            if len(run.turns) == 1:
                found |= {i for p in loop.writes for i in slot_numbers(p, table[run.turns[0]])}
        return found

    def _evict(self, uses: dict[int, list[int]], now: int) -> None:
        """Drop values that are no longer needed; if there are still too many, drop those that are needed latest."""
        following: list[tuple[int, int]] = []
        for slot, value in list(self.values.items()):
            coming = uses.get(slot, [])
            while coming and coming[-1] <= now:
                coming.pop()
            if self.literal(value):
                continue
            if coming:
                following.append((coming[-1], slot))
            else:
                del self.values[slot]
        following.sort()
        for _, slot in following[tuning.GPU_SEQUENCE_REGISTERS :]:
            del self.values[slot]

    def _cycle(self, cycle: Cycle) -> None:
        """A repeat. Inside it and after it, only values and masks are known that it does not change."""
        self.masks_for(cycle)
        fixed = {i: v for i, v in self.values.items() if self.literal(v) and i not in cycle.changed}
        masks = {key: mask for key, mask in self.masks.items() if not cycle.changed.intersection(key)}
        going = cycle.repeat.going

        def look() -> str:
            self.events.read(going)
            return self.read_slot(str(going))

        def body() -> None:
            self.values, self.masks = dict(fixed), dict(masks)
            self.to.begin_block()
            self._write(cycle.parts)
            self.events.read(going)

        self._repeat(cycle.repeat, look, lambda: self.events.cycle(body))
        self.values, self.masks = dict(fixed), dict(masks)
        self.to.begin_block()
        self.at("after")

    # -- turns --------------------------------------------------------------------------------------------------------

    def _run(self, run: Run) -> None:
        """A run that depends on no condition, or whose turns depend on different ones."""
        if len(run.turns) > 1:
            self.loop_of(run)
            return
        new = self._single(run)
        self.values |= new
        guarded: dict[int, list[int]] = {}
        for slot, value in new.items():
            guard = int(self.sequenced.guards[slot])
            if guard in new and not self.literal(new[guard]):
                guarded.setdefault(guard, []).append(slot)
            else:
                self.keep(slot, value)
        for guard, slots in guarded.items():
            with self.if_not_zero(new[guard]):
                for slot in slots:
                    self.keep(slot, new[slot])

    def _holds(self, run: Run) -> str:
        """The condition of a single turn."""
        to, loop, table = self.to, self.program.loops[run.loop], self.tables[run.loop]
        assert loop.when is not None
        key, side = self.key_of(run), self.side(run, loop.when)
        if side != OWN:
            (value,) = self.across([self.value(conditions(loop, table, run.turns)[0])], side)
            return to.op(f"fcmp une {to.real} {value}, {to.number(0.0)}")
        if key in self.masks:
            kind, whole = self.masks[key]
            bit = to.op(f"and {kind} {whole}, {signed(1 << self.numbered(run).index(run.turns[0]), kind)}")
            return to.op(f"icmp ne {kind} {bit}, 0")
        return self.differs(conditions(loop, table, run.turns)[0])

    def _where(self, condition: str, runs: list[Run]) -> None:
        """Single turns that run if a condition holds. Values that are not in registers stay in memory."""
        to, before, outer = self.to, dict(self.values), self.certain
        start = self.at("if")
        to.branch(condition, f"do{start}", f"done{start}")
        to.label(f"do{start}")
        known = to.begin_block()
        self.certain = False
        new: dict[int, str] = {}
        for run in runs:
            made = self._single(run)
            self.values |= made
            new |= made
        for slot, value in new.items():
            self.keep(slot, value)
        self.certain = outer
        to.restore(known)
        end = self.at("end")
        to.go(f"done{start}")
        to.label(f"done{start}")
        self.values = before
        for slot, value in new.items():
            if slot in before:
                ways = f"[ {before[slot]}, %{start} ], [ {value}, %{end} ]"
                self.values[slot] = to.op(f"phi {to.real} {ways}")

    def _single(self, run: Run) -> dict[int, str]:
        """Do a turn: write its outputs, and return the new values of the slots that it changes."""
        k, turn = run.loop, run.turns[0]
        to, loop, row = self.to, self.program.loops[k], self.tables[k][turn]
        values: list[Any] = self.constants(k, turn) + ([self.pool(f"%const{k}")] if loop.pool else [])
        values += [self.read_lane(x.array, self._column(run, x)) for x in loop.inputs]
        for place in loop.reads:
            values += self.across([self.value(i) for i in slot_numbers(place, row)], self.side(run, place))
        to.rooms_used = {}
        results = iter(to.jaxpr(self.jaxprs[k], values))
        new: dict[int, str] = {}
        for place in (*loop.writes, *loop.adds):
            side, is_sum = self.side(run, place), place in loop.adds
            for i in slot_numbers(place, row):
                value = next(results)
                if is_sum or side != OWN:
                    old = new[i] if i in new else self.value(i)  # both sides have one name
                    value = self.owned(to.arithmetic("fadd", old, value) if is_sum else value, old, side)
                new[i] = value
        for x in loop.outputs:
            self.write_lane(x.array, self._column(run, x), next(results))
        return new

    def _column(self, run: Run, x: Lane) -> str:
        return self.either("i64", *self.both_columns(run.loop, run.turns[0], x))


def length(jaxpr: Any) -> int:
    """The number of operations of a step."""
    inner = [p for e in jaxpr.eqns for p in e.params.values() if hasattr(getattr(p, "jaxpr", p), "eqns")]
    return len(jaxpr.eqns) - len(inner) + sum(length(getattr(p, "jaxpr", p)) for p in inner)


def sequence_text(program: Program, slots: int, dtype: Any, near: int | None = None) -> str:
    """The whole LLVM module of the kernel; `near` as for `Sequenced`."""
    assert program.straight is not None
    jaxprs = [trace(loop, dtype) for loop in program.loops]
    lines = tuple(length(j.jaxpr) for j in jaxprs)
    straight = program.straight
    fold = None if near is not None else folded(program.loops, straight.tables, slots, straight.mirror)
    if fold is not None and fold.share(program.loops, straight.tables, lines) > tuning.GPU_FOLD_MAX_SHARE:
        fold = None
    tables = straight.tables if fold is None else fold.tables
    sequenced = Sequenced(program, tables, slots, lines, fold=fold, near=near)
    kernel = SequenceKernel(sequenced, jaxprs, dtype, SequenceKernel(sequenced, jaxprs, dtype).events.needed())
    arrays = (f"{name} = {text}" for text, name in kernel.arrays_of_module.items())
    return gpu_module(*arrays, kernel.text())


def sequence_ptx(program: Program, slots: int, dtype: Any, chip: int = 90, near: int | None = None) -> Assembly:
    """PTX of a program for chips of this compute capability and newer."""
    name, made_from = f"{program.name}_sequence", (program, slots, near)
    return assembled(
        name, made_from, np.dtype(dtype), chip, lambda: sequence_text(program, slots, dtype, near), passes=0
    )

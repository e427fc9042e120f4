"""Runs of turns as loops of a CUDA kernel.

What all turns of a run share is found before them, and what they add to the same slots is carried from turn to turn in
registers.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..program.fold import OWN
from ..program.program import Lane, Slots, number_in
from ..program.sequence import Run, conditions
from ..program.straight import slot_numbers
from .exchange import PairWriter
from .masks import signed


class RunWriter(PairWriter):
    """Writes runs."""

    def varies(self, run: Run, place: Slots | Lane) -> bool:
        """Whether a place is not the same for all turns of a run."""
        if isinstance(place, Lane):
            return len({n for t in run.turns for n in self.both_columns(run.loop, t, place)}) > 1
        table = self.tables[run.loop]
        return len({number_in(place, table[t]) for t in run.turns}) > 1 or len(set(self.sides(run, place))) > 1

    @contextmanager
    def if_not_zero(self, value: str) -> Iterator[None]:
        """What is written here is done where a value is not 0."""
        to = self.to
        start = self.at("guard")
        to.branch(to.op(f"fcmp une {to.real} {value}, {to.number(0.0)}"), f"do{start}", f"done{start}")
        to.label(f"do{start}")
        yield
        to.go(f"done{start}")
        to.label(f"done{start}")

    def constants(self, k: int, turn: int) -> list[Any]:
        """Of a single turn."""
        to, count = self.to, self.program.loops[k].constants.num_leaves
        known = None if self.known.constants is None else self.known.constants[k]
        first, second = self.both(k, turn)
        if known is not None:
            pairs = zip(known[first], known[second], strict=True)
            return [self.either(to.scalar, to.number(x), to.number(y)) for x, y in pairs]
        numbers = (self.either("i64", first * count + j, second * count + j) for j in range(count))
        return [self.constant(to.scalar, f"%const{k}", j) for j in numbers]

    # -- runs ---------------------------------------------------------------------------------------------------------

    def loop_of(self, run: Run) -> None:
        """A run of several turns."""
        to, k, turns = self.to, run.loop, run.turns
        loop, table = self.program.loops[k], self.tables[k]
        listing = ""
        counted = loop.when is None or loop.when.column is None
        if loop.when is None:
            kind, whole = "i32", str(len(turns))
        elif counted:
            (slot,) = set(conditions(loop, table, turns))
            kind, whole = "i32", to.op(f"select i1 {self.differs(slot)}, i32 {len(turns)}, i32 0")
        else:
            kind, whole = self.mask_of(self.key_of(run))
            listing = "" if kind in ("i32", "i64") else kind
            numbered = self.numbered(run)
            if not listing and len(turns) < len(numbered):
                bits = signed(sum(1 << numbered.index(t) for t in turns), kind)
                whole = to.op(f"and {kind} {whole}, {bits}")
        counted |= bool(listing)
        kind = "i32" if counted else kind
        before = dict(self.values)
        start = self.at("run")
        name = start
        to.branch(to.op(f"icmp ne {kind} {whole}, 0"), f"pre{name}", f"done{name}")
        to.label(f"pre{name}")
        known = to.begin_block()
        columns = sorted({p.column for p in loop.places if p.column is not None and self.varies(run, p)})
        reads = [
            self.across([self.value(i) for i in slot_numbers(p, table[turns[0]])], self.side(run, p))
            if not self.varies(run, p)
            else None
            for p in loop.reads
        ]
        sums = [i for p in loop.adds if not self.varies(run, p) for i in slot_numbers(p, table[turns[0]])]
        begin = {i: self.value(i) for i in sums}
        to.go(f"turn{name}")
        to.label(f"turn{name}")
        first, next_ = ("0", f"%{name}_more") if counted else (whole, f"%{name}_left")
        to.lines.append(f"  %{name}_at = phi {kind} [ {first}, %pre{name} ], [ {next_}, %turned{name} ]")
        head = len(to.lines)  # the sums' own lines come here, when their new values have names
        outer, self.certain = self.certain, False
        for p in (*loop.reads, *loop.adds):
            if self.varies(run, p):
                for slot in {i for t in turns for i in slot_numbers(p, table[t])}:
                    self.events.read(slot)
        own = self._own_turn(f"%{name}_at", kind, counted, listing)
        every = turns if counted and not listing else self.numbered(run)
        entries = self._entries_of(run, columns, own, every)
        values: list[Any] = self._constants_of(run, own, every)
        values += [self.pool(f"%const{k}")] if loop.pool else []
        values += [self.read_lane(x.array, self._column_of(run, x, own, every)) for x in loop.inputs]
        for p, there in zip(loop.reads, reads, strict=True):
            if there is None:
                there = [to.op(f"load {to.scalar}, {place}") for place in self._cells(p, entries)]
                there = self.across(there, self._side_of(run, p, own, every))
            values += there
        to.rooms_used = {}
        results = iter(to.jaxpr(self.jaxprs[k], values))
        changed: set[int] = set(sums)
        written = {p: [next(results) for _ in range(p.count)] for p in loop.writes}
        guarded: dict[Slots, list[Slots]] = {}
        for p in loop.writes:
            changed.update(i for t in turns for i in slot_numbers(p, table[t]))
            guard = self._guard_of(run, p)
            if guard is None:
                self._store(run, p, entries, written[p], self._side_of(run, p, own, every))
            else:
                guarded.setdefault(guard, []).append(p)
        for guard, places in guarded.items():
            with self.if_not_zero(written[guard][0]):
                for p in places:
                    self._store(run, p, entries, written[p], self._side_of(run, p, own, every))
        totals: list[str] = []
        for p in loop.adds:
            if not self.varies(run, p):
                for _ in range(p.count):
                    totals.append(to.arithmetic("fadd", f"%{name}_sum{len(totals)}", next(results)))
                continue
            side = self._side_of(run, p, own, every)
            for place in self._cells(p, entries):
                old = to.op(f"load {to.scalar}, {place}")
                new = self.owned(to.arithmetic("fadd", old, next(results)), old, side)
                to.do(f"store {to.scalar} {new}, {place}")
            changed.update(i for t in turns for i in slot_numbers(p, table[t]))
        for x in loop.outputs:
            self.write_lane(x.array, self._column_of(run, x, own, every), next(results))
        to.go(f"turned{name}")
        to.label(f"turned{name}")
        carried = list(totals)
        to.lines[head:head] = [
            f"  %{name}_sum{n} = phi {to.real} [ {begin[i]}, %pre{name} ], [ {carried[n]}, %turned{name} ]"
            for n, i in enumerate(sums)
        ]
        if counted:
            to.lines.append(f"  %{name}_more = add i32 %{name}_at, 1")
            more = to.op(f"icmp slt i32 %{name}_more, {whole}")
        else:
            less = to.op(f"sub {kind} %{name}_at, 1")
            to.lines.append(f"  %{name}_left = and {kind} %{name}_at, {less}")
            more = to.op(f"icmp ne {kind} %{name}_left, 0")
        to.branch(more, f"turn{name}", f"end{name}")
        to.label(f"end{name}")
        whose = [self.side(run, p) for p in loop.adds if not self.varies(run, p) for _ in range(p.count)]
        totals = [self.owned(totals[n], begin[i], whose[n]) for n, i in enumerate(sums)]
        for n, i in enumerate(sums):
            self.keep(i, totals[n])
        self.certain = outer
        to.restore(known)
        to.go(f"done{name}")
        to.label(f"done{name}")
        self.values = {i: v for i, v in before.items() if i not in changed}
        for n, i in enumerate(sums):
            if i in before:
                self.values[i] = to.op(f"phi {to.real} [ {before[i]}, %{start} ], [ {totals[n]}, %end{name} ]")
        self.forget_masks(changed)

    def _own_turn(self, at: str, kind: str, counted: bool, listing: str) -> str:
        """The number of a turn within its run."""
        to = self.to
        if listing:
            return to.op(f"load i32, ptr {to.op(f'getelementptr i32, ptr {listing}, i32 {at}')}")
        if counted:
            return at
        to.declare(f"{kind} @llvm.cttz.{kind}({kind}, i1)")
        bit = to.op(f"call {kind} @llvm.cttz.{kind}({kind} {at}, i1 true)")
        return bit if kind == "i32" else to.op(f"trunc i64 {bit} to i32")

    def _entries_of(self, run: Run, columns: list[int], own: str, every: Sequence[int]) -> dict[int, str]:
        """The entries of a turn's row in these columns."""
        if not columns:
            return {}
        table = self.tables[run.loop]
        return {c: self.one_of([int(table[t, c]) for t in every], own) for c in columns}

    def _column_of(self, run: Run, x: Lane, own: str, every: Sequence[int]) -> str:
        both = [self.both_columns(run.loop, t, x) for t in every]
        if not self.varies(run, x):
            return str(both[0][0])
        first, second = map(list, zip(*both, strict=True))
        numbers = first if first == second else first + second
        place = own if first == second else self.place_in(own, len(first))
        return self.to.op(f"sext i32 {self.one_of(numbers, place)} to i64")

    def _side_of(self, run: Run, place: Slots, own: str, every: Sequence[int]) -> int | str:
        """Whose slots a turn names."""
        own_sides = set(self.sides(run, place))
        if len(own_sides) == 1:
            return own_sides.pop()
        return self.one_of(self.sides(Run(run.loop, tuple(every)), place), own)

    def _cells(self, place: Slots, entries: dict[int, str]) -> list[str]:
        assert place.column is not None
        base = self.cell(self.whole(place.cold), entries[place.column])
        return [self.cell(base, j) for j in range(place.offset, place.offset + place.count)]

    def _guard_of(self, run: Run, place: Slots) -> Slots | None:
        """What the turns of a run write too, and without which nobody reads what they write to a place."""
        loop, table, guards = self.program.loops[run.loop], self.tables[run.loop], self.sequenced.guards
        for other in loop.writes if len(set(loop.writes)) == len(loop.writes) else ():
            pairs = [(i, number_in(other, table[t])) for t in run.turns for i in slot_numbers(place, table[t])]
            if other.count == 1 and all(guards.get(i) == guard for i, guard in pairs):
                return other
        return None

    def _store(self, run: Run, place: Slots, entries: dict[int, str], values: list[str], side: int | str = OWN) -> None:
        """Values of a place, to memory; of a side that only one thread has, by that one."""
        to, row = self.to, self.tables[run.loop][run.turns[0]]
        cells = self._cells(place, entries) if self.varies(run, place) else self._fixed_cells(place, row)
        for cell, value in zip(cells, values, strict=True):
            new = value if side == OWN else self.owned(value, to.op(f"load {to.scalar}, {cell}"), side)
            to.do(f"store {to.scalar} {new}, {cell}")

    def _fixed_cells(self, place: Slots, row: np.ndarray) -> list[str]:
        return [self.place_of(i) for i in slot_numbers(place, row)]

    def _constants_of(self, run: Run, own: str, every: Sequence[int]) -> list[Any]:
        """The constants of a turn of a run: those that all share are known."""
        to, k = self.to, run.loop
        count = self.program.loops[k].constants.num_leaves
        known = None if self.known.constants is None or self.program.loops[k].pool else self.known.constants[k]
        if count == 0:
            return []
        firsts, seconds = ([self.both(k, t)[side] for t in every] for side in (0, 1))
        two = firsts != seconds
        done = [*firsts, *seconds] if two else firsts
        own = self.place_in(own, len(firsts)) if two else own
        if known is None:
            turn = self.entry("i32", self.module_array("i32", done), own)
            first = to.op(f"mul i64 {to.op(f'zext i32 {turn} to i64')}, {count}")
            return [self.constant(to.scalar, f"%const{k}", to.op(f"add i64 {first}, {j}")) for j in range(count)]
        rows = np.asarray(known)[[t for turn in run.turns for t in self.both(k, turn)]]
        same = (rows == rows[:1]).all(0)
        differ = np.flatnonzero(~same)
        found: list[Any] = [to.number(x) for x in rows[0]]
        if len(differ):
            numbers = np.asarray(known)[done][:, differ].ravel()
            array = self.module_array(to.scalar, [to.number(x) for x in numbers])
            first = to.op(f"mul i32 {own}, {len(differ)}")
            for j, c in enumerate(differ):
                found[c] = self.entry(to.scalar, array, to.op(f"add i32 {first}, {j}") if j else first)
        return found

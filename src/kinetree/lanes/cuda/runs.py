"""Runs of turns as loops of a CUDA kernel.

Values that all turns of a run share are computed before the loop. Sums into the same slots are carried in registers
from turn to turn.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ..program.fold import OWN
from ..program.program import Lane, Slots, numbers_of
from ..program.sequence import Run, conditions, same
from ..program.straight import slot_numbers
from .exchange import PairWriter
from .masks import signed
from .turns import CountedTurns, ListedTurns, MaskedTurns, StretchedTurns


class RunWriter(PairWriter):
    """Writes runs."""

    def varies(self, run: Run, place: Slots | Lane) -> bool:
        """True if a place differs between the turns of a run."""
        if isinstance(place, Lane):
            return len({n for t in run.turns for n in self.both_columns(run.loop, t, place)}) > 1
        rows = self.tables[run.loop][list(run.turns)]
        alike = place.column is None or same(rows[:, place.column])
        return not alike or len(set(self.sides(run, place))) > 1

    def if_not_zero(self, value: str) -> AbstractContextManager[None]:
        """A context: the text written inside runs only if a value is not 0."""
        return self.to.when(self.to.op(f"fcmp une {self.to.real} {value}, {self.to.number(0.0)}"))

    def constants(self, k: int, turn: int) -> list[Any]:
        """The constants of a single turn."""
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
        picked = self._picked(run)
        before = dict(self.values)
        start = self.at("run")
        name = start
        to.branch(to.op(f"icmp ne {picked.kind} {picked.count}, 0"), f"pre{name}", f"done{name}")
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
        first = picked.first(to)
        at = [f"%{name}_at{j}" for j in range(len(first))]
        to.go(f"turn{name}")
        to.label(f"turn{name}")
        outer, self.certain = self.certain, False
        for p in (*loop.reads, *loop.adds):
            if self.varies(run, p):
                for slot in np.unique(self.sequenced.named(run, (p,))).tolist():
                    self.events.read(slot)
        own = picked.number(to, at)
        every = self.numbered(run) if isinstance(picked, MaskedTurns) else turns
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
        written = {p: [next(results) for _ in range(p.count)] for p in loop.writes}
        guarded: dict[Slots, list[Slots]] = {}
        for p in loop.writes:
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
        for x in loop.outputs:
            self.write_lane(x.array, self._column_of(run, x, own, every), next(results))
        if loop.lists is not None and self.sequenced.listed(loop):
            self._put_on_list(loop.lists[0], own, written[loop.lists[1]][0], len(turns))
        following, more = picked.next(to, at)
        to.go(f"turned{name}")
        to.label(f"turned{name}")
        carried = [*zip(at, [picked.kind] * len(at), first, following, strict=True)]
        carried += [(f"%{name}_sum{n}", to.real, begin[i], totals[n]) for n, i in enumerate(sums)]
        head = to.lines.index(f"turn{name}:") + 1  # searched only now: steps may have put their arrays before it
        to.lines[head:head] = [
            f"  {value} = phi {kind} [ {old}, %pre{name} ], [ {new}, %turned{name} ]"
            for value, kind, old, new in carried
        ]
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
        changed = set(self.sequenced.changed(run).tolist())
        self.values = {i: v for i, v in before.items() if i not in changed}
        for n, i in enumerate(sums):
            if i in before:
                self.values[i] = to.op(f"phi {to.real} [ {before[i]}, %{start} ], [ {totals[n]}, %end{name} ]")
        self.forget_masks(changed)

    def _picked(self, run: Run) -> CountedTurns:
        """The turns of a run that a lane does."""
        to, loop, table = self.to, self.program.loops[run.loop], self.tables[run.loop]
        by_list, most = self.sequenced.listed(loop), len(run.turns)
        if by_list and loop.lists is not None:
            to.do(f"store i32 0, ptr {self.list_of(loop.lists[0], most)[1]}")
        if by_list and loop.follows:
            numbers, count = self.list_of(loop.follows, most)
            return ListedTurns(to.op(f"load i32, ptr {count}"), numbers=numbers, end=most if loop.backward else 0)
        if loop.when is None:
            return CountedTurns(str(most))
        if loop.when.column is None:
            (slot,) = set(conditions(loop, table, run.turns))
            return CountedTurns(to.op(f"select i1 {self.differs(slot)}, i32 {most}, i32 0"))
        kind, whole = self.mask_of(self.key_of(run))
        if kind not in ("i32", "i64"):
            begins = self.stretches(run)
            if len(begins) == most:
                return ListedTurns(whole, numbers=kind)
            return StretchedTurns(whole, numbers=kind, begins=lambda number: self.one_of([*begins, most], number))
        numbered = self.numbered(run)
        if most < len(numbered):
            whole = to.op(f"and {kind} {whole}, {signed(sum(1 << numbered.index(t) for t in run.turns), kind)}")
        return MaskedTurns(whole, kind)

    def _put_on_list(self, name: str, turn: str, value: str, most: int) -> None:
        """Put a turn on a list if a value is not 0."""
        to, (numbers, count) = self.to, self.list_of(name, most)
        last = to.op(f"load i32, ptr {count}")
        to.do(f"store i32 {turn}, ptr {to.op(f'getelementptr i32, ptr {numbers}, i32 {last}')}")
        acts = to.op(f"fcmp une {to.real} {value}, {to.number(0.0)}")
        more = to.op(f"zext i1 {acts} to i32")
        to.do(f"store i32 {to.op(f'add i32 {last}, {more}')}, ptr {count}")

    def _entries_of(self, run: Run, columns: list[int], own: str, every: Sequence[int]) -> dict[int, str]:
        """The entries of a turn's row in these columns."""
        if not columns:
            return {}
        table = self.tables[run.loop]
        return {c: self.one_of(table[list(every), c].tolist(), own) for c in columns}

    def _column_of(self, run: Run, x: Lane, own: str, every: Sequence[int]) -> str:
        both = [self.both_columns(run.loop, t, x) for t in every]
        if not self.varies(run, x):
            return str(both[0][0])
        first, second = map(list, zip(*both, strict=True))
        numbers = first if first == second else first + second
        place = own if first == second else self.place_in(own, len(first))
        return self.to.op(f"sext i32 {self.one_of(numbers, place)} to i64")

    def _side_of(self, run: Run, place: Slots, own: str, every: Sequence[int]) -> int | str:
        """The side of the slots that a turn names."""
        own_sides = set(self.sides(run, place))
        if len(own_sides) == 1:
            return own_sides.pop()
        return self.one_of(self.sides(Run(run.loop, tuple(every)), place), own)

    def _cells(self, place: Slots, entries: dict[int, str]) -> list[str]:
        assert place.column is not None
        base = self.cell(self.whole(place.cold), entries[place.column])
        return [self.cell(base, j) for j in range(place.offset, place.offset + place.count)]

    def _guard_of(self, run: Run, place: Slots) -> Slots | None:
        """The guard of a place: the turns of a run write it, too, and the place is read only if the guard is not 0."""
        loop, guards = self.program.loops[run.loop], self.sequenced.guards
        rows = self.tables[run.loop][list(run.turns)]
        for other in loop.writes if len(set(loop.writes)) == len(loop.writes) else ():
            if other.count == 1 and (guards[numbers_of((place,), rows)] == numbers_of((other,), rows)).all():
                return other
        return None

    def _store(self, run: Run, place: Slots, entries: dict[int, str], values: list[str], side: int | str = OWN) -> None:
        """Store the values of a place. If only one thread has its side, that thread stores them."""
        to, row = self.to, self.tables[run.loop][run.turns[0]]
        cells = self._cells(place, entries) if self.varies(run, place) else self._fixed_cells(place, row)
        for cell, value in zip(cells, values, strict=True):
            new = value if side == OWN else self.owned(value, to.op(f"load {to.scalar}, {cell}"), side)
            to.do(f"store {to.scalar} {new}, {cell}")

    def _fixed_cells(self, place: Slots, row: np.ndarray) -> list[str]:
        return [self.place_of(i) for i in slot_numbers(place, row)]

    def _constants_of(self, run: Run, own: str, every: Sequence[int]) -> list[Any]:
        """The constants of a turn of a run. Constants that all turns share are literals."""
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

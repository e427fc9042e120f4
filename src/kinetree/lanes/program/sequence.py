"""The turns of a program in one order, for one mechanism: the text of programs whose lanes branch differently.

As in straight.py each turn comes right before it is needed, but only among the loops between two repeats. Turns of one
loop that depend on conditions and add to the same slots stay together as a *run*: a loop over those turns that a lane
does. The turns of loops that are too long to be written out are a run, too. Sums keep their order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .fold import ALONE, Fold
from .program import Body, Loop, Program, Repeat, Slots, flattened, number_in, numbers_of
from .straight import in_order


class Run(NamedTuple):
    """Turns of one loop, done one after the other by one text. A single turn is written out."""

    loop: int
    turns: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Cycle:
    """A repeat, and its parts in order."""

    repeat: Repeat
    parts: "list[list[Run] | Cycle]"
    changed: frozenset[int]  # slots


class UnrollLimits(NamedTuple):
    """How many operations of a loop are written out, if its turns could stay together instead.

    A repeated text costs no time to fetch if it fits the instruction cache: some 8 000 instructions of a GPU.
    """

    once: int = 3000
    repeated: int = 1000
    groups: int = 8000  # operations of all turns that depend on conditions
    turn: int = 500  # operations of one turn; between longer turns no values stay in registers anyway


LIMITS = UnrollLimits()


@dataclass(frozen=True, eq=False)
class Sequenced:
    """A program in order. `lines` is the length of the text of a turn, for each loop."""

    program: Program
    tables: tuple[np.ndarray, ...]
    slots: int
    lines: tuple[int, ...]
    limits: UnrollLimits = LIMITS
    fold: Fold | None = None  # the fold that the tables belong to, if there is one
    near: int | None = None  # slots in local memory; those after them lie in the device's memory. None: all are local

    @property
    def has_cold_slots(self) -> bool:
        """True if some slots lie in the device's memory."""
        return self.near is not None

    @cached_property
    def parts(self) -> "list[list[Run] | Cycle]":
        """Runs between repeats, and repeats."""
        return self._ordered(self.program.body, 0)

    def _ordered(self, body: Body, number: int, within: bool = False) -> "list[list[Run] | Cycle]":
        found: list[list[Run] | Cycle] = []
        runs: list[Run] = []
        for part in body:
            if isinstance(part, Repeat):
                found.append(self._in_order(runs))
                own = range(number, number + len(list(flattened(part.body))))
                changed = {int(s) for k in own for s in self.changed(Run(k, tuple(range(len(self.tables[k])))))}
                inner = self._ordered(part.body, number, within or not part.uniform)
                found.append(Cycle(part, inner, frozenset(changed)))
                runs, number = [], own.stop
            else:
                runs += self._runs(number, within)
                number += 1
        return [*found, self._in_order(runs)]

    def _runs(self, k: int, within: bool) -> list[Run]:
        """The turns of a loop as runs; `within` a repeat that lanes leave at different times."""
        kinds: dict[int, list[int]] = {}
        for t in range(len(self.tables[k])):
            kinds.setdefault(0 if self.fold is None else self.fold.kind(self.program.loops[k], k, t), []).append(t)
        found = [Run(k, (t,)) for t in kinds.pop(ALONE, [])]
        return sorted((*found, *(r for own in kinds.values() for r in self._alike(k, own, within))))

    def _alike(self, k: int, every: list[int], within: bool) -> list[Run]:
        """The same for turns that both threads do in the same way."""
        loop, table, limits = self.program.loops[k], self.tables[k][every], self.limits
        lines, alone = self.lines[k], [Run(k, (t,)) for t in every]
        if len(table) < 2:
            return alone
        if self.listed(loop):
            return [Run(k, tuple(every))]
        turns = len(self.tables[k]) if self.fold is None else self.fold.turns[k].max() + 1  # turns of one thread
        long = lines * turns > (limits.repeated if within else limits.once)
        if loop.when is None or loop.when.column is None:
            free = _apart(numbers_of(loop.reads, table), numbers_of((*loop.writes, *loop.adds), table), self.slots)
            free = free or (lines > limits.turn and self._shares(loop, table))
            return [Run(k, tuple(every))] if free and long else alone
        if not self._fits(loop, table):
            return alone
        groups: dict[tuple[int, ...], list[int]] = {}
        for t, row in zip(every, table, strict=True):
            sides = () if self.fold is None else self.fold.sides[k][t].tolist()[len(loop.reads) + len(loop.writes) :]
            groups.setdefault((*(number_in(s, row) for s in loop.adds), *sides), []).append(t)
        if 2 * len(groups) >= len(table):  # nothing is shared
            return [Run(k, tuple(every))] if long else alone
        if loop.rare or lines * len(groups) > limits.groups:
            return [Run(k, tuple(every))]
        return sorted((Run(k, tuple(own)) for own in groups.values()), key=lambda run: run.turns)

    @cached_property
    def lists(self) -> frozenset[str]:
        """Lists that a lane makes. Long loops without conditions follow them.

        If the following loops have conditions, masks replace the list. If one has no cold slots, it does all turns:
        a turn that a list names would have to keep its values in memory, not in registers. A lane makes all lists or
        none: a turn that is on one list reads what turns on another list wrote.
        """
        names = {loop.follows for loop in self.program.loops if loop.follows and loop.when is None}
        long = False
        for name in names:
            own = [k for k, loop in enumerate(self.program.loops) if self._of_list(loop, name)]
            loops = [self.program.loops[k] for k in own]
            made = any(loop.lists is not None for loop in loops)
            made &= all(any(p.cold for p in (*x.reads, *x.writes, *x.adds)) for x in loops if x.follows == name)
            if not made or self.fold is not None or not all(self._one_text(k) for k in own):
                return frozenset()
            long |= any(self.lines[k] * len(self.tables[k]) > self.limits.repeated for k in own)
        return frozenset(names if long else ())

    def _of_list(self, loop: Loop, name: str) -> bool:
        made = loop.lists is not None and loop.lists[0] == name
        return made or (loop.follows == name and loop.when is None)

    def _one_text(self, k: int) -> bool:
        loop, table = self.program.loops[k], self.tables[k]
        return loop.when is None and len(table) > 1 and self._shares(loop, table)

    def listed(self, loop: Loop) -> bool:
        """True if a loop makes or follows a list."""
        return any(self._of_list(loop, name) for name in self.lists)

    def _fits(self, loop: Loop, table: np.ndarray) -> bool:
        """True if no turn changes what is read before the first one: conditions, and values that all turns share."""
        assert loop.when is not None
        whens, changes = numbers_of((loop.when,), table), numbers_of((*loop.writes, *loop.adds), table)
        turns_of = np.bincount(whens[:, 0], minlength=self.slots)  # how many turns have a slot as their condition
        others = (turns_of[changes] > (changes == whens)).any()
        return not others and self._shares(loop, table)

    def _shares(self, loop: Loop, table: np.ndarray) -> bool:
        """True if no turn changes the values that all turns share.

        Sums that all of them add to are carried in registers, so no turn may read them from memory.
        """
        changes = numbers_of((*loop.writes, *loop.adds), table)

        def named(places: tuple[Slots, ...], shared: bool) -> set[int]:
            chosen = tuple(p for p in places if (p.column is None or same(table[:, p.column])) == shared)
            return set(numbers_of(chosen, table).ravel().tolist())

        seen, sums = named(loop.reads, True), named(loop.adds, True)
        elsewhere = named((*loop.reads, *loop.writes, *loop.adds), False) | named(loop.writes, True)
        return not (seen | elsewhere) & sums and not seen & set(changes.ravel().tolist())

    @cached_property
    def guards(self) -> np.ndarray:
        """The guard of each slot, or −1. A guarded slot is read only if its guard is not 0; else it need not be stored.

        A turn writes both. No other turn changes the guard from 0 to another value.
        """
        always, several, nobody = -1, -2, -3
        guard, sources = np.full(self.slots, nobody), np.zeros(self.slots, np.int64)
        for loop, table in zip(self.program.loops, self.tables, strict=True):
            whens = np.full((len(table), 1), always) if loop.when is None else numbers_of((loop.when,), table)
            seen = numbers_of((*loop.reads, *loop.adds), table)
            for lower in (True, False):  # two conditions of one slot: the least and the largest differ
                found = np.full(self.slots, self.slots if lower else nobody)
                (np.minimum if lower else np.maximum).at(found, seen, np.broadcast_to(whens, seen.shape))
                there = np.unique(seen)
                old = guard[there]
                guard[there] = np.where((old == nobody) | (old == found[there]), found[there], several)
            changed = numbers_of((*loop.writes, *loop.adds), table)
            np.add.at(sources, changed[changed != whens], 1)
        own = (guard >= 0) & (guard != np.arange(self.slots))
        own[own] = sources[guard[own]] == 1
        return np.where(own, guard, -1)

    def named(self, run: Run, places: Sequence[Slots]) -> np.ndarray:
        """Slots that the turns of a run name."""
        return numbers_of(tuple(places), self.tables[run.loop][list(run.turns)])

    def seen(self, run: Run) -> np.ndarray:
        """Slots that the turns of a run read."""
        loop = self.program.loops[run.loop]
        kept = (*loop.writes, loop.when) if loop.when is not None else ()  # a turn that is left out keeps their values
        return np.unique(self.named(run, (*loop.reads, *loop.adds, *kept)))

    def changed(self, run: Run) -> np.ndarray:
        """Slots that the turns of a run change."""
        loop = self.program.loops[run.loop]
        return np.unique(self.named(run, (*loop.writes, *loop.adds)))

    def _in_order(self, runs: list[Run]) -> list[Run]:
        changed: dict[int | str, int] = {}
        readers: dict[int | str, list[int]] = {}
        needs: dict[int, set[int]] = {}
        for number, run in enumerate(runs):
            loop = self.program.loops[run.loop]
            touched: list[int | str] = [*self.changed(run).tolist(), *(() if loop.lists is None else loop.lists[:1])]
            seen: list[int | str] = [*self.seen(run).tolist(), *((loop.follows,) if loop.follows else ())]
            before = {changed[i] for i in (*touched, *seen) if i in changed}
            before.update(other for i in touched for other in readers.get(i, ()))
            for i in seen:
                readers.setdefault(i, []).append(number)
            for i in touched:
                changed[i], readers[i] = number, []
            needs[number] = before - {number}
        return [runs[i] for i in in_order(needs)]


def same(numbers: np.ndarray) -> bool:
    """True if all numbers are the same."""
    return bool((numbers == numbers[:1]).all())


def conditions(loop: Loop, table: np.ndarray, turns: Sequence[int]) -> tuple[int, ...]:
    """The slots that hold the conditions of turns."""
    assert loop.when is not None
    return tuple(numbers_of((loop.when,), table[list(turns)])[:, 0].tolist())


def _apart(seen: np.ndarray, changed: np.ndarray, slots: int) -> bool:
    """True if no turn reads or changes a slot that another turn changes."""
    turn = np.arange(len(changed))[:, None]
    owner = np.full(slots, -1)
    owner[changed] = turn
    return bool((owner[changed] == turn).all() and ((owner[seen] == turn) | (owner[seen] < 0)).all())

"""The loops of a program woven into one, for one mechanism: turns in the order of straight.py, slots used again.

The inward pass over a branch follows as soon as the branch is complete, so few values are alive at a time; a slot whose
value is no longer needed is used again. The memory of a humanoid shrinks to that of its longest limbs, which caches
hold. Tables stay run-time inputs, and each turn names the next one, so one compiled program serves all mechanisms.
Results have the same bits.
"""

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from .program import Loop, Program, Slots
from .straight import Turn, all_places, overlapping, places, slot_numbers, turn_order

LAST = -1  # in place of the next turn, after the last one


@dataclass(frozen=True, eq=False)
class Woven:
    """The woven program, its tables for one mechanism, and how many slots it takes. Compared by identity."""

    program: Program
    tables: tuple[np.ndarray, ...]
    slots: int


@lru_cache
def woven_program(program: Program) -> Program:
    """The same steps, but a row of a table has more columns: a first slot for each place, then the next turn."""

    def loop(old: Loop) -> Loop:
        columns = iter(range(old.columns, old.columns + len(places(old))))
        reads, writes, adds = (
            tuple(Slots(next(columns), 0, place.tree) for place in group) for group in (old.reads, old.writes, old.adds)
        )
        return replace(old, columns=old.columns + len(places(old)) + 1, reads=reads, writes=writes, adds=adds)

    return replace(program, name=f"{program.name}_woven", body=tuple(map(loop, program.loops)), woven=True)


class Rooms:
    """Allocates rooms of consecutive slots, and frees them."""

    def __init__(self) -> None:
        self.size = 0
        self._free: dict[int, list[int]] = defaultdict(list)

    def take(self, count: int) -> int:
        """Allocate a room; return its first slot."""
        if self._free[count]:
            return self._free[count].pop()
        self.size += count
        return self.size - count

    def give_back(self, first: int, count: int) -> None:
        """Free a room."""
        self._free[count].append(first)


def weave(program: Program, tables: tuple[np.ndarray, ...]) -> Woven | None:
    """The program for these tables; None if some of its places overlap partly."""
    if overlapping(all_places(program.loops, tables)):
        return None
    order = turn_order(program.loops, tables)
    touched = {(k, t): [slot_numbers(p, tables[k][t]) for p in places(program.loops[k])] for k, t in order}
    last_use = {r: turn for turn in order for r in touched[turn]}
    rooms, at = Rooms(), {}
    new = [
        np.zeros((len(t), loop.columns), np.int32) for t, loop in zip(tables, woven_program(program).loops, strict=True)
    ]
    for turn in order:
        k, t = turn
        for r in touched[turn]:  # the values of one turn may not share a room: allocate all before any is freed
            if r not in at:
                at[r] = rooms.take(len(r))
        columns = program.loops[k].columns
        new[k][t, :columns] = tables[k][t]
        new[k][t, columns:-1] = [at[r] for r in touched[turn]]
        for r in {r for r in touched[turn] if last_use[r] == turn}:
            rooms.give_back(at.pop(r), len(r))
    for (k, t), after in zip(order, [*order[1:], None], strict=True):
        new[k][t, -1] = _number(program, after)
    # the first turn is named in a row of its own, at the end of the first table
    header = np.zeros((1, new[0].shape[1]), np.int32)
    header[0, -1] = _number(program, order[0])
    return Woven(woven_program(program), (np.concatenate([new[0], header]), *new[1:]), rooms.size)


def _number(program: Program, turn: Turn | None) -> int:
    return LAST if turn is None else turn[1] * len(program.loops) + turn[0]

"""Turns that may be done at the same time, for one mechanism: a team of threads divides them.

The turns of a loop are put into rounds of at most `size` turns. A turn comes in a later round than every earlier turn
whose slots it reads or changes, so rounds in order leave the same numbers in all slots as turns in order. In a round of
a rare loop, the members that have a turn do it one after the other. Sums over all turns, into slots without a column or
into parts of a total, are different: each member adds up its own turns, and the members' sums are added at the end.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..kept.once import Once
from .program import Body, Loop, Program, Repeat, Slots

NO_TURN = -1
REPEATED = 2.5  # assumed rounds of a repeat, to compare costs


@dataclass(frozen=True, eq=False)
class Teams:
    """The tables of one mechanism, from which rounds for teams of any size are made. Compared by identity.

    `hot` is how many slots come before the cold ones, whose numbers teams count from there.
    """

    program: Program
    slots: int
    hot: int
    tables: tuple[np.ndarray, ...]
    _rounds: Once[tuple[np.ndarray, ...]] = field(default_factory=Once)

    def rounds(self, size: int) -> tuple[np.ndarray, ...]:
        """For each loop a table (rounds, size · (1 + columns)): for each member the number of its turn, and its row."""

        def make() -> tuple[np.ndarray, ...]:
            pairs = zip(self.program.loops, self.tables, strict=True)
            return tuple(
                _dealt(self._split(loop, table), rounds_of(loop, table, self.slots, size), size)
                for loop, table in pairs
            )

        return self._rounds.get(size, make)

    def length(self, size: int) -> float:
        """How many rounds a team of this size takes, if each repeat runs `REPEATED` times."""
        found, tables = 0.0, iter(self.rounds(size))

        def add(body: Body, weight: float) -> None:
            nonlocal found
            for part in body:
                if isinstance(part, Repeat):
                    add(part.body, weight * REPEATED)
                else:
                    found += weight * len(next(tables))

        add(self.program.body, 1.0)
        return found

    def _split(self, loop: Loop, table: np.ndarray) -> np.ndarray:
        """The table with cold slots counted by themselves."""
        cold = sorted({s.column for s in (*loop.reads, *loop.writes, *loop.adds) if s.cold and s.column is not None})
        split = table.copy()
        split[:, cold] -= self.hot
        return split


def _dealt(table: np.ndarray, round_of_turn: np.ndarray, size: int) -> np.ndarray:
    turns, columns = table.shape
    by_round = np.argsort(round_of_turn, kind="stable")
    counts = np.bincount(round_of_turn, minlength=1) if turns else np.zeros(0, np.int64)
    place = np.arange(turns) - np.repeat(np.cumsum(counts) - counts, counts)
    dealt = np.zeros((len(counts), size, 1 + columns), np.int32)
    dealt[:, :, 0] = NO_TURN
    dealt[round_of_turn[by_round], place] = np.concatenate([by_round[:, None], table[by_round]], 1)
    return dealt.reshape(len(counts), size * (1 + columns))


def sums_of(loop: Loop) -> tuple[Slots, ...]:
    """The sums of a loop over all its turns. In a rare loop members add their turns one by one."""
    summing = loop.columns and not loop.rare
    return tuple(s for s in loop.adds if s.whole.column is None) if summing else ()


def rounds_of(loop: Loop, table: np.ndarray, slots: int, size: int) -> np.ndarray:
    """The round of each turn: the earliest round with room after all turns that it must wait for."""
    sums = sums_of(loop)
    seen = numbers_of((*loop.reads, *(() if loop.when is None else (loop.when,))), table)
    listing = loop.lists[1] if loop.lists is not None and loop.lists[1].column is None else None  # no turn reads it
    changed = numbers_of((*(s for s in loop.writes if s != listing), *(s for s in loop.adds if s not in sums)), table)
    summed = numbers_of(tuple(s.whole for s in sums), table[:1])
    if loop.rare:  # members with something to do take turns
        return np.arange(len(table)) // size
    if len(table) > 1 and (np.isin(seen, summed).any() or np.isin(changed, summed).any()):
        raise ValueError("a loop reads or writes what it adds up over all its turns")
    if apart(seen, changed, slots):
        return np.arange(len(table)) // size
    read, written = np.full((2, slots), -1)
    found, filled = np.zeros(len(table), np.int64), [0] * (len(table) + 1)
    for turn, (reads, writes) in enumerate(zip(seen, changed, strict=True)):
        after = max(written[reads].max(initial=-1), written[writes].max(initial=-1), read[writes].max(initial=-1))
        own = int(after) + 1
        while filled[own] == size:
            own += 1
        filled[own] += 1
        found[turn] = own
        read[reads] = np.maximum(read[reads], own)
        written[writes] = np.maximum(written[writes], own)
    return found


def numbers_of(places: tuple[Slots, ...], table: np.ndarray) -> np.ndarray:
    """The numbers of all slots that turns name, (turns, count)."""

    def of(place: Slots) -> np.ndarray:
        first: Any = 0 if place.column is None else table[:, place.column : place.column + 1].astype(np.int64)
        return np.broadcast_to(first + place.offset + np.arange(place.count), (len(table), place.count))

    return np.concatenate([np.zeros((len(table), 0), np.int64), *map(of, places)], 1)


def apart(seen: np.ndarray, changed: np.ndarray, slots: int) -> bool:
    """True if no turn reads or changes a slot that another turn changes."""
    turn = np.arange(len(changed))[:, None]
    owner = np.full(slots, -1)
    owner[changed] = turn
    return bool((owner[changed] == turn).all() and ((owner[seen] == turn) | (owner[seen] < 0)).all())

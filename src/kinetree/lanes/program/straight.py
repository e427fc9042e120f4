"""A program written out for one mechanism: every turn of every loop, in an order that keeps few values alive.

Rows, tables and perhaps constants are known, so slots become values in registers. The inward pass over a branch follows
as soon as the branch is complete, not after the whole tree, so its values die before the next branch begins. Sums keep
their order, so the results have the same bits. Loops that all lanes repeat equally often stay loops, which carry the
values of few slots from one time to the next.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from .program import Body, Loop, Program, Repeat, Slots, Straight, flattened, number_in

Turn = tuple[int, int]  # the loop's number, and the turn's


Tables = Sequence[np.ndarray]


def written_out(
    program: Program,
    tables: tuple[np.ndarray, ...],
    widths: tuple,
    constants: tuple | None,
    uneven: bool = False,
    mirror: np.ndarray | None = None,
    hot: int | None = None,
) -> Program:
    """The program for these tables, and inputs and outputs of these widths; with constants, for one model alone.

    If the constants of a loop are None, they stay run-time inputs. A program that is not `even` runs on GPUs only
    (cuda/sequence.py), and only if `uneven` is set. `mirror` (k, 3) has the first slots of pairs of similar blocks, and
    their sizes (fold.py). `hot` is how many slots come before the cold ones.
    """
    if not (uneven or program.even):
        raise ValueError(f"{program.name} has lanes that go different ways, so it is not straight")
    mirror = np.zeros((0, 3), np.int64) if mirror is None else mirror
    straight = Straight(tables, widths, constants, mirror, hot)
    return replace(program, name=f"{program.name}_{straight.digest}", straight=straight)


def slot_numbers(place: Slots, row: np.ndarray) -> range:
    """The slots that a turn names."""
    first = number_in(place, row)
    return range(first, first + place.count)


def _needs(loops: Sequence[Loop], tables: Tables) -> dict[Turn, set[Turn]]:
    """The turns that must come before each turn: those that touched its slots before, unless both only read."""
    changed: dict[Any, Turn] = {}
    readers: dict[Any, list[Turn]] = defaultdict(list)
    needs: dict[Turn, set[Turn]] = {}
    split = _single_slots if overlapping(all_places(loops, tables)) else _whole_places
    for k, (loop, table) in enumerate(zip(loops, tables, strict=True)):
        for t, row in enumerate(table):
            before: set[Turn] = set()
            touched = {i for place in loop.writes + loop.adds for i in split(slot_numbers(place, row))}
            read = {i for place in loop.reads for i in split(slot_numbers(place, row))}
            before.update(changed[i] for i in touched | read if i in changed)
            before.update(other for i in touched for other in readers[i])
            for i in read:
                readers[i].append((k, t))
            for i in touched:
                changed[i], readers[i] = (k, t), []
            needs[k, t] = before - {(k, t)}
    return needs


def all_places(loops: Sequence[Loop], tables: Tables) -> set[range]:
    """All ranges of slots that turns name."""
    return {
        slot_numbers(place, row)
        for loop, table in zip(loops, tables, strict=True)
        for row in table
        for place in places(loop)
    }


def overlapping(ranges: set[range]) -> bool:
    """True if two ranges overlap partly. Slots must then be tracked one by one."""
    ends = sorted((r.start, r.stop) for r in ranges)
    return any(a[1] > b[0] for a, b in pairwise(ends))


def _single_slots(place: range) -> Iterable[int]:
    return place


def _whole_places(place: range) -> Iterable[range]:
    return (place,)


def places(loop: Loop) -> tuple[Slots, ...]:
    """All slots that a loop names."""
    return loop.reads + loop.writes + loop.adds


def turn_order(loops: Sequence[Loop], tables: Tables) -> list[Turn]:
    """All turns, each right before it is needed: from the ends of the program, depth first, later loops first."""
    return in_order(_needs(loops, tables))


def in_order(needs: dict[Any, set[Any]]) -> list[Any]:
    """All items, each after those that it needs, and right before it is needed."""
    needed = set().union(*needs.values())
    stack = [turn for turn in reversed(needs) if turn not in needed]
    order: dict[Any, None] = {}
    while stack:
        turn = stack[-1]
        missing = [other for other in needs[turn] if other not in order]
        if missing:
            stack.extend(sorted(missing))
        else:
            order[stack.pop()] = None
    return list(order)


def _slots(places: Iterable[Slots], table: np.ndarray) -> set[int]:
    return {i for row in table for place in places for i in slot_numbers(place, row)}


def changed(body: Body, tables: Tables) -> set[int]:
    """Slots that are written or added to."""
    every = zip(flattened(body), tables, strict=True)
    return set().union(*(_slots(loop.writes + loop.adds, table) for loop, table in every))


def expected(body: Body, tables: Tables) -> set[int]:
    """Slots that may be read before they are written, so their old values matter."""
    found: set[int] = set()
    written: set[int] = set()
    rest = iter(tables)
    for part in body:
        if isinstance(part, Repeat):
            own = [next(rest) for _ in flattened(part.body)]
            found |= ({part.going} | expected(part.body, own)) - written  # the repeat may run zero times
            continue
        for row in next(rest):
            found |= _slots(part.reads + part.adds, row[None]) - written
            written |= _slots(part.writes, row[None])
    return found

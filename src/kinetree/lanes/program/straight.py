"""A program written out for one mechanism: every turn of every loop, in an order that keeps little alive.

Rows, tables and perhaps constants are known, so slots become values in registers. Walking inward as soon as a branch
is complete, instead of after all of the tree, lets a branch's values die before the next one begins. What is added to
a slot is added in the same order as ever, so the results have the same bits. Loops that all lanes repeat equally often
stay loops, which carry the values of few slots from one time to the next.
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
) -> Program:
    """The program for these tables, and inputs and outputs of these widths; with constants, for one model alone.

    Constants of a loop that are None are run-time inputs all the same. Where it is not `even`, GPUs alone can run it
    (cuda/sequence.py): that has to be asked for. `mirror` (k, 3) has the first slots of blocks that are alike, and
    their sizes (fold.py).
    """
    if not (uneven or program.even):
        raise ValueError(f"{program.name} has lanes that go different ways, so it is not straight")
    straight = Straight(tables, widths, constants, *(() if mirror is None else (mirror,)))
    return replace(program, name=f"{program.name}_{straight.digest}", straight=straight)


def slot_numbers(place: Slots, row: np.ndarray) -> range:
    """Slots that a turn means."""
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
    """True if some overlap in part, so that each slot has a story of its own."""
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
    """All of these, each after those that it needs, and right before it is needed."""
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
    """Slots whose values from before matter: those that may be read before they are written."""
    found: set[int] = set()
    written: set[int] = set()
    rest = iter(tables)
    for part in body:
        if isinstance(part, Repeat):
            own = [next(rest) for _ in flattened(part.body)]
            found |= ({part.going} | expected(part.body, own)) - written  # it may be done no time at all
            continue
        for row in next(rest):
            found |= _slots(part.reads + part.adds, row[None]) - written
            written |= _slots(part.writes, row[None])
    return found

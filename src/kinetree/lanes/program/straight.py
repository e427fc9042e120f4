"""A program written out for one mechanism: every turn of every loop, in an order that keeps little alive.

Rows, tables and perhaps constants are known, so slots become values in registers. Walking inward as soon as a branch
is complete, instead of after all of the tree, lets a branch's values die before the next one begins. What is added to
a slot is added in the same order as ever, so the results have the same bits.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from .program import Loop, Program, Slots, Straight, number_in

Turn = tuple[int, int]  # the loop's number, and the turn's


def written_out(program: Program, tables: tuple[np.ndarray, ...], widths: tuple, constants: tuple | None) -> Program:
    """The program for these tables, and inputs and outputs of these widths; with constants, for one model alone."""
    straight = Straight(tables, widths, constants)
    return replace(program, name=f"{program.name}_{straight.digest}", straight=straight)


def slot_numbers(place: Slots, row: np.ndarray) -> range:
    """Slots that a turn means."""
    first = number_in(place, row)
    return range(first, first + place.count)


def _needs(program: Program, tables: tuple[np.ndarray, ...]) -> dict[Turn, set[Turn]]:
    """The turns that must come before each turn: those that touched its slots before, unless both only read."""
    changed: dict[Any, Turn] = {}
    readers: dict[Any, list[Turn]] = defaultdict(list)
    needs: dict[Turn, set[Turn]] = {}
    split = _single_slots if overlapping(all_places(program, tables)) else _whole_places
    for k, (loop, table) in enumerate(zip(program.loops, tables, strict=True)):
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


def all_places(program: Program, tables: tuple[np.ndarray, ...]) -> set[range]:
    """All ranges of slots that turns name."""
    return {
        slot_numbers(place, row)
        for loop, table in zip(program.loops, tables, strict=True)
        for row in table
        for place in places(loop)
    }


def overlapping(ranges: set[range]) -> bool:
    """Whether some overlap in part, so that each slot has a story of its own."""
    ends = sorted((r.start, r.stop) for r in ranges)
    return any(a[1] > b[0] for a, b in pairwise(ends))


def _single_slots(place: range) -> Iterable[int]:
    return place


def _whole_places(place: range) -> Iterable[range]:
    return (place,)


def places(loop: Loop) -> tuple[Slots, ...]:
    """All slots that a loop names."""
    return loop.reads + loop.writes + loop.adds


def turn_order(program: Program, tables: tuple[np.ndarray, ...]) -> list[Turn]:
    """All turns, each right before it is needed: from the ends of the program, depth first, later loops first."""
    needs = _needs(program, tables)
    needed = set().union(*needs.values())
    stack = [turn for turn in reversed(needs) if turn not in needed]
    order: dict[Turn, None] = {}
    while stack:
        turn = stack[-1]
        missing = [other for other in needs[turn] if other not in order]
        if missing:
            stack.extend(sorted(missing))
        else:
            order[stack.pop()] = None
    return list(order)

"""A program in which every slot is written once, for one mechanism, so that it can run backwards (derivative.py).

Each turn writes to new slots, and later turns read from these, so all values that steps read are kept. An addition
becomes a write of the sum. A turn that some lanes skip is done by all lanes, and those lanes keep their old values. So
what such a turn computes for them reaches no value and no derivative.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..kept.once import once
from .program import NOTHING, Lane, Loop, Program, Slots, slot
from .straight import slot_numbers


class Single(NamedTuple):
    """The program, its tables for one mechanism, and how many slots it takes."""

    program: Program
    tables: tuple[np.ndarray, ...]
    slots: int


def _seen(loop: Loop) -> tuple[Slots, ...]:
    """All places that a turn must read."""
    kept = () if loop.when is None else (loop.when, *loop.writes)
    return (*loop.reads, *loop.adds, *kept)


def _made(loop: Loop) -> tuple[Slots, ...]:
    """All places that a turn changes."""
    return (*loop.writes, *loop.adds)


def _lanes(loop: Loop) -> tuple[Lane, ...]:
    return (*loop.inputs, *loop.outputs)


def single(program: Program, tables: tuple[np.ndarray, ...]) -> Single:
    """The same program, with every slot written once. It has loops, but no repeats."""
    at: dict[int, int] = {}  # the new slot with the value of an old one; slot 0 holds only zero
    size = 1
    found: list[tuple[list[np.ndarray], list[np.ndarray]]] = []
    for loop, table in zip(program.loops, tables, strict=True):
        seen = [np.zeros((len(table), s.count), np.int32) for s in _seen(loop)]
        made = [np.zeros((len(table), 1), np.int32) for _ in _made(loop)]
        for turn, row in enumerate(table):
            for numbers, place in zip(seen, _seen(loop), strict=True):
                numbers[turn] = [at.get(i, 0) for i in slot_numbers(place, row)]
            for numbers, place in zip(made, _made(loop), strict=True):
                numbers[turn] = size
                at.update(zip(slot_numbers(place, row), range(size, size + place.count), strict=True))
                size += place.count
        found.append((seen, made))
    whole = tuple(tuple(bool((np.diff(x, axis=1) == 1).all()) for x in seen) for seen, _ in found)
    new = [np.zeros((1, 1), np.int32)]
    for loop, table, (seen, made), firsts in zip(program.loops, tables, found, whole, strict=True):
        chosen = [x[:, :1] if first else x for x, first in zip(seen, firsts, strict=True)]
        fixed = sum(x.column is None for x in _lanes(loop))
        columns = [table, np.zeros((len(table), fixed)), *chosen, *made]
        new.append(np.ascontiguousarray(np.concatenate(columns, 1).astype(np.int32)))
    return Single(_single_program(program, whole), tuple(new), size)


@once
def _single_program(program: Program, whole: tuple[tuple[bool, ...], ...]) -> Program:
    """The program. `whole`: for each place that turns read, true if its slots are still consecutive."""
    first = Loop(lambda *_: ((0.0,), (), ()), 1, NOTHING, writes=(slot(0),))
    loops = (first, *map(_single_loop, program.loops, whole))
    marks = int("1" + "".join(str(int(x)) for row in whole for x in row), 2)
    return Program(f"{program.name}_single_{marks:x}", loops, program.n_inputs, program.n_outputs, reversible=True)


def _single_loop(loop: Loop, whole: tuple[bool, ...]) -> Loop:
    columns = iter(range(loop.columns, 1 << 30))

    def lane(x: Lane) -> Lane:
        return x._replace(column=next(columns)) if x.column is None else x

    inputs, outputs = tuple(map(lane, loop.inputs)), tuple(map(lane, loop.outputs))
    reads: list[Slots] = []
    for place, first in zip(_seen(loop), whole, strict=True):
        if first:
            reads.append(Slots(next(columns), 0, place.tree))
        else:
            reads += [slot(next(columns)) for _ in range(place.count)]
    writes = tuple(Slots(next(columns), 0, place.tree) for place in _made(loop))

    def grouped(values: tuple) -> Iterator[Any]:
        rest = iter(values)
        for place, first in zip(_seen(loop), whole, strict=True):
            yield next(rest) if first else jax.tree.unflatten(place.tree, [next(rest) for _ in range(place.count)])

    n_reads, n_adds = len(loop.reads), len(loop.adds)

    def step(known: Any, given: tuple, values: tuple) -> tuple:
        seen = list(grouped(values))
        own, sums, kept = seen[:n_reads], seen[n_reads : n_reads + n_adds], seen[n_reads + n_adds :]
        if loop.when is None:
            made, added, results = loop.step(known, given, tuple(own))
            return (*made, *map(_plus, sums, added)), (), results
        does = jax.tree.leaves(kept[0])[0] != 0

        def chosen(new: Any, old: Any) -> Any:
            return jax.tree.map(lambda a, b: jnp.where(does, a, b), new, old)

        known, given, own = (chosen(x, jax.tree.map(jnp.zeros_like, x)) for x in (known, given, tuple(own)))
        made, added, results = loop.step(known, given, own)
        new = *map(chosen, made, kept[1:]), *(chosen(_plus(s, a), s) for s, a in zip(sums, added, strict=True))
        return new, (), results

    count = next(columns)
    return Loop(step, count, loop.constants, reads=tuple(reads), writes=writes, inputs=inputs, outputs=outputs)


def _plus(a: Any, b: Any) -> Any:
    return jax.tree.map(lambda x, y: x + y, a, b)

"""A program in which every slot is written once, for one mechanism: it can be run backwards (derivative.py).

What a turn writes goes to slots of its own, and whoever reads it afterwards finds it there, so values that steps saw
stay where they were. What is added stays an addition while nobody has read the sum; else the new sum is written. A loop
that some lanes leave out stays such a loop: before it, its new slots are given the values that such lanes keep.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..kept.once import once
from .program import NOTHING, NUMBER, Lane, Loop, Program, Slots, slot
from .straight import slot_numbers


class Single(NamedTuple):
    """The program, its tables for one mechanism, and how many slots it takes."""

    program: Program
    tables: tuple[np.ndarray, ...]
    slots: int
    sources: tuple[int | None, ...]  # for each loop, the loop of the first program

    def constants(self, given: Sequence[Any], dtype: Any) -> tuple:
        """Those of its loops, from those of the loops of the first program."""
        own = zip(self.sources, self.tables, strict=True)
        return tuple(np.zeros((len(table), 0), dtype) if k is None else given[k] for k, table in own)


class _Kind(NamedTuple):
    """How the turns of a loop are written. `rows`: for each place, true if its slots are still consecutive."""

    in_place: tuple[bool, ...]  # for each addition: True if the sum was not read yet
    reads: tuple[bool, ...]  # rows, of what the step reads, and of sums that are written anew
    adds: tuple[bool, ...]  # rows, of additions in place
    keeps: tuple[bool, ...]  # of each place with new slots: whether some lane may keep a value there that is not zero
    kept: tuple[bool, ...]  # rows, of these

    def sums(self, adds: tuple) -> list:
        """Additions that become sums which are written."""
        return [x for x, stays in zip(adds, self.in_place, strict=True) if not stays]


class _Turns(NamedTuple):
    """The slots of all turns of a loop, (turns, count) for each place."""

    seen: list[np.ndarray]
    added: list[np.ndarray]
    made: list[np.ndarray]
    kept: list[np.ndarray]
    condition: np.ndarray | None


class _Renamed:
    """Where the value of each slot is now."""

    def __init__(self) -> None:
        self.at: dict[int, int] = {}  # Nothing was written to slot 0 but zero.
        self.read: set[int] = set()  # slots that were read
        self.size = 1

    def now(self, place: Slots, row: np.ndarray) -> list[int]:
        """Where the values of a place are."""
        return [self.at.get(i, 0) for i in slot_numbers(place, row)]

    def stays(self, loop: Loop, table: np.ndarray) -> tuple[bool, ...]:
        """For each addition: True if in all turns the sum was not read before."""
        found, read = [True] * len(loop.adds), set(self.read)
        for row in table:
            for place in (*loop.reads, *(() if loop.when is None else (loop.when,))):
                read.update(self.now(place, row))
            for k, place in enumerate(loop.adds):
                found[k] &= not any(i == 0 or i in read for i in self.now(place, row))
        return tuple(found)

    def turns(self, loop: Loop, table: np.ndarray, in_place: tuple[bool, ...]) -> _Turns:
        """All turns, whose new slots hold the values from now on."""
        sums, stay = ([x for x, s in zip(loop.adds, in_place, strict=True) if s is which] for which in (False, True))
        places = [*loop.reads, *sums], stay, [*loop.writes, *sums]
        seen, added, made = ([np.zeros((len(table), s.count), np.int32) for s in group] for group in places)
        kept, conditions = [np.zeros_like(x) for x in made], []
        for turn, row in enumerate(table):
            if loop.when is not None:
                conditions.append(self.now(loop.when, row)[:1])
                self.read.update(conditions[-1])
            for numbers, place in (*zip(seen, places[0], strict=True), *zip(added, places[1], strict=True)):
                numbers[turn] = self.now(place, row)
            for numbers in seen:
                self.read.update(numbers[turn].tolist())
            for numbers, old, place in zip(made, kept, places[2], strict=True):
                before = self.now(place, row)  # The condition itself is zero where a turn is left out.
                old[turn] = [0 if loop.when is not None and i in conditions[-1] else i for i in before]
                self.read.update(old[turn].tolist() if loop.when is not None else ())
                numbers[turn] = range(self.size, self.size + place.count)
                self.at.update(zip(slot_numbers(place, row), numbers[turn].tolist(), strict=True))
                self.size += place.count
        condition = None if loop.when is None else np.array(conditions, np.int32).reshape(-1, 1)
        return _Turns(seen, added, made, kept, condition)


def _in_rows(places: Iterable[np.ndarray]) -> tuple[bool, ...]:
    return tuple(bool((np.diff(x, axis=1) == 1).all()) for x in places)


def _named(places: Sequence[np.ndarray], rows: tuple[bool, ...]) -> list[np.ndarray]:
    return [x[:, :1] if row else x for x, row in zip(places, rows, strict=True)]


def _lanes(loop: Loop) -> tuple[Lane, ...]:
    return (*loop.inputs, *loop.outputs)


def single(program: Program, tables: tuple[np.ndarray, ...], outputs: tuple[int, ...] | None = None) -> Single:
    """The same program, with every slot written once. It has loops, but no repeats.

    `outputs` are those that are wanted; loops that serve none of them are left out.
    """
    if outputs is not None:
        needed = _needed(program, tables, outputs)
        one = single(_asked(program, needed, outputs), tuple(tables[k] for k in needed))
        return one._replace(sources=tuple(None if k is None else needed[k] for k in one.sources))
    renamed, kinds = _Renamed(), []
    new: list[Any] = [np.zeros((1, 1), np.int32)]
    sources: list[int | None] = [None]
    for k, (loop, table) in enumerate(zip(program.loops, tables, strict=True)):
        in_place = renamed.stays(loop, table)
        turns = renamed.turns(loop, table, in_place)
        keeps = tuple(bool(x.any()) for x in turns.kept)
        kept = [x for x, has in zip(turns.kept, keeps, strict=True) if has]
        kind = _Kind(in_place, _in_rows(turns.seen), _in_rows(turns.added), keeps, _in_rows(kept))
        kinds.append(kind)
        made = [x[:, :1] for x in turns.made]
        if turns.condition is not None:
            new.append(np.concatenate([turns.condition, *_named(kept, kind.kept), *made], 1))
            sources.append(None)
        fixed = np.zeros((len(table), sum(x.column is None for x in _lanes(loop))))
        condition = () if turns.condition is None else (turns.condition,)
        places = *_named(turns.seen, kind.reads), *_named(turns.added, kind.adds), *made
        new.append(np.concatenate([table, fixed, *condition, *places], 1))
        sources.append(k)
    own = tuple(np.ascontiguousarray(x.astype(np.int32)) for x in new)
    return Single(_single_program(program, tuple(kinds)), own, renamed.size, tuple(sources))


def _needed(program: Program, tables: tuple[np.ndarray, ...], outputs: tuple[int, ...]) -> tuple[int, ...]:
    """Numbers of the loops that some outputs depend on."""
    needed: list[int] = []
    read: set[int] = set()
    for k in reversed(range(len(tables))):
        loop, table = program.loops[k], tables[k]

        def slots(places: Iterable[Slots], table: np.ndarray = table) -> set[int]:
            return {i for place in places for row in table for i in slot_numbers(place, row)}

        if any(x.array in outputs for x in loop.outputs) or slots((*loop.writes, *loop.adds)) & read:
            read |= slots((*loop.reads, *(() if loop.when is None else (loop.when,))))
            needed.append(k)
    return tuple(needed[::-1])


@once
def _asked(program: Program, loops: tuple[int, ...], outputs: tuple[int, ...]) -> Program:
    """Some loops of a program, which put out less."""

    def one(loop: Loop) -> Loop:
        told = [i for i, x in enumerate(loop.outputs) if x.array in outputs]

        def step(*given: Any) -> tuple:
            writes, adds, results = loop.step(*given)
            return writes, adds, tuple(results[i] for i in told)

        found = tuple(loop.outputs[i]._replace(array=outputs.index(loop.outputs[i].array)) for i in told)
        return replace(loop, step=step, outputs=found)

    marks = "_".join(map(str, outputs)), hex(sum(1 << k for k in loops))[2:]
    own = tuple(one(program.loops[k]) for k in loops)
    return Program(f"{program.name}_asked_{'_'.join(marks)}", own, program.n_inputs, len(outputs))


@once
def _single_program(program: Program, kinds: tuple[_Kind, ...]) -> Program:
    """The program, whose loops are of these kinds."""
    loops = [Loop(lambda *_: ((0.0,), (), ()), 1, NOTHING, writes=(slot(0),))]
    for loop, kind in zip(program.loops, kinds, strict=True):
        loops += [_keeping_loop(loop, kind)] if loop.when is not None else []
        loops.append(_single_loop(loop, kind))
    marks = int("1" + "".join(str(int(x)) for kind in kinds for group in kind for x in group), 2)
    name = f"{program.name}_single_{marks:x}"
    return Program(name, tuple(loops), program.n_inputs, program.n_outputs, reversible=True)


def _taken(columns: Iterator[int], places: Sequence[Slots], rows: tuple[bool, ...]) -> tuple[Slots, ...]:
    """The places that the next columns name."""
    found: list[Slots] = []
    for place, row in zip(places, rows, strict=True):
        found += [Slots(next(columns), 0, place.tree)] if row else [slot(next(columns)) for _ in range(place.count)]
    return tuple(found)


def _grouped(values: tuple, places: Sequence[Slots], rows: tuple[bool, ...]) -> list[Any]:
    """The values of the slots, in the form of the step."""
    rest = iter(values)
    both = zip(places, rows, strict=True)
    return [next(rest) if row else jax.tree.unflatten(p.tree, [next(rest) for _ in range(p.count)]) for p, row in both]


def _apart(values: Sequence[Any], rows: tuple[bool, ...]) -> tuple:
    """The same the other way round."""
    found: list[Any] = []
    for value, row in zip(values, rows, strict=True):
        found += [value] if row else jax.tree.leaves(value)
    return tuple(found)


def _made(loop: Loop, kind: _Kind) -> list[Slots]:
    """All places that turns give new slots."""
    return [*loop.writes, *kind.sums(loop.adds)]


def _keeping_loop(loop: Loop, kind: _Kind) -> Loop:
    """What lanes have in new slots that leave out a turn; zero in the others."""
    columns = iter(range(1, 1 << 30))
    made = _made(loop, kind)
    places = [x for x, keeps in zip(made, kind.keeps, strict=True) if keeps]
    reads = _taken(columns, places, kind.kept)
    writes = tuple(Slots(next(columns), 0, place.tree) for place in made)

    def step(_: Any, __: tuple, values: tuple) -> tuple:
        old = iter(_grouped(values[1:], places, kind.kept))
        does = values[0] != 0

        def kept(x: Any) -> Any:
            return jax.tree.map(lambda x: jnp.where(does, jnp.zeros_like(x), x), x)

        both = zip(made, kind.keeps, strict=True)
        new = (kept(next(old)) if keeps else jax.tree.unflatten(p.tree, [0.0] * p.count) for p, keeps in both)
        return tuple(new), (), ()

    return Loop(step, next(columns), NOTHING, reads=(slot(0), *reads), writes=writes)


def _single_loop(loop: Loop, kind: _Kind) -> Loop:
    columns = iter(range(loop.columns, 1 << 30))

    def lane(x: Lane) -> Lane:
        return x._replace(column=next(columns)) if x.column is None else x

    inputs, outputs = tuple(map(lane, loop.inputs)), tuple(map(lane, loop.outputs))
    when = None if loop.when is None else Slots(next(columns), 0, NUMBER)
    seen = [*loop.reads, *kind.sums(loop.adds)]
    stay = [x for x, stays in zip(loop.adds, kind.in_place, strict=True) if stays]
    reads, adds = _taken(columns, seen, kind.reads), _taken(columns, stay, kind.adds)
    writes = tuple(Slots(next(columns), 0, place.tree) for place in _made(loop, kind))
    n_reads = len(loop.reads)

    def step(known: Any, given: tuple, values: tuple) -> tuple:
        now = _grouped(values, seen, kind.reads)
        made, added, results = loop.step(known, given, tuple(now[:n_reads]))
        in_place = [x for x, stays in zip(added, kind.in_place, strict=True) if stays]
        new = *made, *map(_plus, now[n_reads:], kind.sums(tuple(added)))
        return new, _apart(in_place, kind.adds), results

    count = next(columns)
    return Loop(step, count, loop.constants, reads, writes, adds, inputs, outputs, when=when)


def _plus(a: Any, b: Any) -> Any:
    return jax.tree.map(lambda x, y: x + y, a, b)

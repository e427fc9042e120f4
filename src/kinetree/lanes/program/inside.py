"""A program inside another: some of its lane arrays lie in slots of the memory that both share.

So forward dynamics, which reads its inputs and writes its results as lane arrays, becomes the middle of a step that
makes the inputs and takes the results.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .program import NUMBER, Lane, Loop, Slots


class Inside(NamedTuple):
    """A loop that was moved inside another program, and how its table is made from that which it had."""

    loop: Loop
    own: tuple[int, ...]  # columns that name slots of its own memory
    new: tuple[tuple[str, int], ...]  # for each new column: the array that it goes into, and the column it comes from

    def table(self, table: np.ndarray, first: int, slots: Mapping[str, Callable[[np.ndarray], Any]]) -> np.ndarray:
        """The table, where its own memory begins at slot `first`, and column c of an array at `slots[array](c)`."""
        moved = table.astype(np.int64)
        moved[:, list(self.own)] += first
        columns = [np.asarray(slots[array](moved[:, column])).reshape(-1, 1) for array, column in self.new]
        return np.ascontiguousarray(np.concatenate([moved, *columns], 1).astype(np.int32))


def inside(loop: Loop, inputs: tuple[str | int, ...], outputs: tuple[str, ...], apart: Mapping[str, int]) -> Inside:
    """A loop whose arrays lie in slots.

    Arguments:
        loop: its tables name all its slots and data.
        inputs: for each lane array that it reads, a name where it lies in slots, or else its number as a lane array.
        outputs: the names of those that it writes.
        apart: how many slots a column of a named array is from the next.
    """
    names = [(inputs[x.array], x) for x in loop.inputs] + [(outputs[x.array], x) for x in loop.outputs]
    new = tuple(dict.fromkeys((name, _column(x)) for name, x in names if isinstance(name, str)))

    def slot(name: str, x: Lane) -> Slots:
        return Slots(loop.columns + new.index((name, _column(x))), x.offset * apart[name], NUMBER)

    given = [inputs[x.array] for x in loop.inputs]
    fetched = tuple(slot(name, x) for name, x in zip(given, loop.inputs, strict=True) if isinstance(name, str))
    lanes = tuple(x._replace(array=k) for k, x in zip(given, loop.inputs, strict=True) if isinstance(k, int))
    count = len(loop.reads)

    def step(known: Any, arrays: tuple, reads: tuple) -> tuple:
        slots, rest = iter(reads[count:]), iter(arrays)
        seen = tuple(next(slots if isinstance(name, str) else rest) for name in given)
        writes, adds, results = loop.step(known, seen, reads[:count])
        return (*writes, *results), adds, ()

    own = {_column(s) for s in (*loop.reads, *loop.writes, *loop.adds)}
    moved = replace(
        loop,
        step=step,
        columns=loop.columns + len(new),
        reads=(*loop.reads, *fetched),
        writes=(*loop.writes, *(slot(outputs[x.array], x) for x in loop.outputs)),
        inputs=lanes,
        outputs=(),
    )
    return Inside(moved, tuple(sorted(own)), new)


def _column(place: Slots | Lane) -> int:
    assert place.column is not None
    return place.column

"""A program inside another one: some of its lane arrays become slots of the memory that both share.

Forward dynamics reads its inputs and writes its results as lane arrays. Here it becomes the middle of a simulation
step, which makes its inputs and uses its results.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .program import NUMBER, Lane, Loop, Slots


class Inside(NamedTuple):
    """A loop that was moved inside another program, and how its new table is made from its old one."""

    loop: Loop
    own: tuple[int, ...]  # columns that name slots of its own memory
    new: tuple[tuple[str, int], ...]  # for each new column: the array that it names, and the old column

    def table(self, table: np.ndarray, first: int, slots: Mapping[str, Callable[[np.ndarray], Any]]) -> np.ndarray:
        """The new table. Its own memory begins at slot `first`; column c of an array is in slot `slots[array](c)`."""
        moved = table.astype(np.int64)
        moved[:, list(self.own)] += first
        columns = [np.asarray(slots[array](moved[:, column])).reshape(-1, 1) for array, column in self.new]
        return np.ascontiguousarray(np.concatenate([moved, *columns], 1).astype(np.int32))


def inside(loop: Loop, inputs: tuple[str | int, ...], outputs: tuple[str, ...], apart: Mapping[str, int]) -> Inside:
    """A loop whose arrays lie in slots.

    Arguments:
        loop: its tables name all its slots and data.
        inputs: for each lane array that it reads, a name if it lies in slots, else its number as a lane array.
        outputs: the names of the arrays that it writes. apart: the distance in slots between two columns of a named
        array.
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

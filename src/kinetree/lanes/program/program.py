"""The lane program: a short list of loops over `[slot, lane]` memory.

A lane is one state of a robot, or one chunk of a long chain. All lanes run the same program. A loop is a step and an
integer table: each turn takes one row of the table, reads the slots it names, calls the step, and writes or adds to
the slots it names. A step is a pure function of components, written in `jax.numpy`, that knows nothing of lanes or
slots; so the same step runs in XLA, in the vector registers of a CPU, and in the threads of a GPU. Tables and row data
are run-time inputs: two models of the same size share one compiled program.

Loops may be repeated, for each lane until it is done (`Repeat`), and turns left out where a lane does not need them
(`Loop.when`). What a lane computes never depends on the lanes beside it: a lane that takes no part keeps its memory and
its outputs as they are.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np


class Slots(NamedTuple):
    """Consecutive slots that hold one pytree of scalars, at `table[turn, column] + offset`.

    Without a column (None) they are the same for all turns, at `offset`. `cold` ones are rarely used: a device may keep
    them in slower memory than the others. They come after all others, and have columns of their own. Where `total` is
    given, turns add to one of several blocks, and only the sum of the blocks counts: all may go to the one that begins
    there. `block` is the size of the blocks that the column names the first slots of, 0 where it names something else.
    The blocks that one loop names never overlap in part. `apart` says that a turn reads here what it does not change.
    """

    column: int | None
    offset: int
    tree: Any  # treedef of what they hold
    cold: bool = False
    total: int | None = None
    block: int = 0
    apart: bool = False

    @property
    def whole(self) -> "Slots":
        """Where all turns may add to."""
        return self if self.total is None else Slots(None, self.total + self.offset, self.tree)

    @property
    def count(self) -> int:
        """How many slots."""
        return self.tree.num_leaves


NUMBER, NOTHING = (jax.tree.structure(x) for x in (0.0, ()))  # what many slots and constants hold


def slot(column: int) -> Slots:
    """One number, in the slot that a column of the table names."""
    return Slots(column, 0, NUMBER)


class Lane(NamedTuple):
    """One scalar of each lane's own data: column `table[turn, column] + offset` of lane array number `array`.

    Without a column (None) it is the same for all turns, at `offset`.
    """

    array: int
    column: int | None
    offset: int = 0


def number_in(place: Slots | Lane, row: Any) -> int:
    """Number of the first slot, or of the column, that a row of a table means."""
    return place.offset + (0 if place.column is None else int(row[place.column]))


POOL = 1 << 30  # numbers; the length that steps assume of a pool, because one text serves pools of any length

Step = Callable[[Any, tuple, tuple], tuple[tuple, tuple, tuple]]


@dataclass(frozen=True)
class Loop:
    """`step(constants, inputs, reads) -> (writes, adds, outputs)`, once for each row of a table.

    `constants` is a treedef; each turn has its own values. Writes replace, adds accumulate; both happen after all
    reads of the turn. Slots that are added to must have been written before, and every output column must be written
    by some turn: memory starts out undefined. Where `when` names a slot, only the lanes do a turn in which that slot is
    not 0. The slots that a turn writes and adds to are all different.

    What a `scratch` loop in a `Repeat` writes is needed in the same pass only, after it was written: lanes that no
    longer take part may find anything there. That spares a CPU to read what it keeps for them.

    Of the turns of a `rare` loop few are done in a lane, and none of them changes whether another is done.

    A loop that `lists` (a name, a slot) puts those of its turns on a list after which that slot is not 0; where it is
    the same slot for all turns, nobody else looks at it. Loops that `follow` the list have the same turns, and do none
    that is not on it: their conditions are 0 there, and stay so until the list is made again. A CPU then looks at no
    others. A `backward` loop has the same turns from the last to the first.

    A loop with a `pool` has more constants than its turns name: further rows after those of the turns. Its step is
    given (constants, pool), where the pool is one long array of all constants, and finds what it needs there at run
    time. Each lane does it by itself: it may have loops and arrays of its own (alone.py).
    """

    step: Step
    columns: int
    constants: Any
    reads: tuple[Slots, ...] = ()
    writes: tuple[Slots, ...] = ()
    adds: tuple[Slots, ...] = ()
    inputs: tuple[Lane, ...] = ()
    outputs: tuple[Lane, ...] = ()
    when: Slots | None = None
    scratch: bool = False
    rare: bool = False
    lists: tuple[str, Slots] | None = None
    follows: str = ""
    backward: bool = False
    pool: bool = False

    @property
    def places(self) -> tuple[Slots | Lane, ...]:
        """All that its turns name."""
        return (*self.reads, *self.writes, *self.adds, *self.inputs, *self.outputs)


@dataclass(frozen=True)
class Repeat:
    """Its loops, again and again for each lane while slot number `going` is not 0, but at most `most` times.

    The slot is looked at before each time, also the first. Repeats may stand in one another. `uniform` promises that
    all lanes that begin go on equally often.
    """

    body: "tuple[Loop | Repeat, ...]"
    going: int
    most: int
    uniform: bool = False


Body = tuple[Loop | Repeat, ...]


def flattened(body: Body) -> Iterator[Loop]:
    """All loops, in the order in which they stand: the order of their tables and constants."""
    for part in body:
        if isinstance(part, Repeat):
            yield from flattened(part.body)
        else:
            yield part


@dataclass(frozen=True, eq=False)
class Straight:
    """Tables known when a program is compiled, the widths of its inputs and outputs, and perhaps its constants."""

    tables: tuple[np.ndarray, ...]
    widths: tuple[int, ...]
    constants: tuple[np.ndarray | None, ...] | None  # None for loops whose constants are not known
    mirror: np.ndarray = field(default_factory=lambda: np.zeros((0, 3), np.int64))  # blocks that are alike (fold.py)

    @property
    def digest(self) -> str:
        """A digest of all numbers."""
        digest = hashlib.sha256(repr(self.widths).encode())
        for x in (*self.tables, *(self.constants or ()), self.mirror):
            known = b"" if x is None else f"{x.shape} {x.dtype}".encode() + np.ascontiguousarray(x).tobytes()
            digest.update(known + b";")
        return digest.hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class Program:
    """Loops and repeats, run one after the other. Compared by identity: make each program once.

    `reversible` promises that a slot, once read, is never changed again. Then values that the steps saw are still there
    when the program is run backwards, and its derivatives are lane programs too (derivative.py). `straight` is for one
    mechanism alone: the native bodies then take nothing from the tables that they are given (straight.py; sequence.py
    for those that are not `even`, on GPUs). The turns of a `woven` program follow each other as its tables say
    (woven.py), and only native bodies can run it: a `simple` one, of loops without conditions. Reversible ones name no
    slots or data without a column of a table.
    """

    name: str
    body: Body
    n_inputs: int
    n_outputs: int
    reversible: bool = False
    straight: Straight | None = None
    woven: bool = False
    ranks: tuple[int, ...] = ()  # Axes of each output of one state, for direct calls; vectors unless told.

    @property
    def output_ranks(self) -> tuple[int, ...]:
        """Axes of each output of one state."""
        return self.ranks or (1,) * self.n_outputs

    def __post_init__(self) -> None:
        if not self.simple and (self.reversible or self.woven):
            raise ValueError(f"{self.name} has more than plain loops, so it is neither reversible nor woven")
        if self.reversible and any(place.column is None for loop in self.loops for place in loop.places):
            raise ValueError(f"{self.name} is reversible, so its tables must name all its slots and data")

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """All loops, also those that are repeated, in the order of the tables and constants."""
        return tuple(flattened(self.body))

    @property
    def simple(self) -> bool:
        """True if it is a list of loops, and all lanes do all of their turns."""
        return all(isinstance(part, Loop) and part.when is None for part in self.body)

    @property
    def even(self) -> bool:
        """True if all lanes do the same turns, equally often."""

        def of(body: Body) -> bool:
            return all(part.when is None if isinstance(part, Loop) else part.uniform and of(part.body) for part in body)

        return of(self.body)


class Memory:
    """How the slots of one row are divided into named fields."""

    def __init__(self, **fields: Any):
        self.fields, self.size, self.cold = {}, 0, False
        for name, example in fields.items():
            tree = jax.tree.structure(example)
            self.fields[name] = (self.size, tree)
            self.size += tree.num_leaves

    def at(self, column: int | None, name: str) -> Slots:
        """A field of the row whose first slot stands in this column of the table; without one, of the first row."""
        offset, tree = self.fields[name]
        return Slots(column, offset, tree, self.cold, block=self.size)

    def of(self, column: int | None, *names: str) -> tuple[Slots, ...]:
        """Several fields of that row."""
        return tuple(self.at(column, name) for name in names)

    def base(self, row: Any) -> Any:
        """First slot of a row; the base, row −1, comes first."""
        return (np.asarray(row) + 1) * self.size

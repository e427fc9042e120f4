"""The lane program: a short list of loops over `[slot, lane]` memory.

A lane is one state of a robot, or one chunk of a long chain. All lanes run the same program. A loop is a step and an
integer table. Each turn takes one row of the table, reads the slots that it names, calls the step, and writes or adds
to the slots that it names. A step is a pure function of components, written in `jax.numpy`, that does not know lanes or
slots. So the same step runs in XLA, in the vector registers of a CPU, and in the threads of a GPU. Tables and row data
are run-time inputs: two models of the same size share one compiled program.

Loops may be repeated, for each lane until it is done (`Repeat`), and a lane can skip turns that it does not need
(`Loop.when`). The results of a lane never depend on the lanes beside it: a lane that takes no part keeps its memory and
its outputs.
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

    Without a column (None) they are the same for all turns, at `offset`. Cold slots are rarely used, so a device may
    keep them in slower memory. They come after all others, and have their own columns. `block` is the size of a block
    if the column names the first slot of a block, else 0. The blocks of one loop are equal or do not overlap. `apart`
    promises that a turn does not change the slots that it reads here.
    """

    column: int | None
    offset: int
    tree: Any  # treedef of their values
    cold: bool = False
    block: int = 0
    apart: bool = False

    @property
    def count(self) -> int:
        """The number of slots."""
        return self.tree.num_leaves


NUMBER, NOTHING = (jax.tree.structure(x) for x in (0.0, ()))  # common contents of slots and constants


def slot(column: int) -> Slots:
    """The slot of one number, named by a column of the table."""
    return Slots(column, 0, NUMBER)


class Lane(NamedTuple):
    """One scalar of each lane's own data: column `table[turn, column] + offset` of lane array number `array`.

    Without a column (None) it is the same for all turns, at `offset`.
    """

    array: int
    column: int | None
    offset: int = 0


def number_in(place: Slots | Lane, row: Any) -> int:
    """The number of the first slot, or of the column, that a row of a table names."""
    return place.offset + (0 if place.column is None else int(row[place.column]))


def numbers_of(places: tuple[Slots, ...], table: np.ndarray) -> np.ndarray:
    """The numbers of all slots that turns name, (turns, count)."""

    def of(place: Slots) -> np.ndarray:
        first: Any = 0 if place.column is None else table[:, place.column : place.column + 1].astype(np.int64)
        return np.broadcast_to(first + place.offset + np.arange(place.count), (len(table), place.count))

    return np.concatenate([np.zeros((len(table), 0), np.int64), *map(of, places)], 1)


POOL = 1 << 30  # numbers; the length that steps assume of a pool, because one text serves pools of any length

Step = Callable[[Any, tuple, tuple], tuple[tuple, tuple, tuple]]


@dataclass(frozen=True)
class Loop:
    """`step(constants, inputs, reads) -> (writes, adds, outputs)`, once for each row of a table.

    `constants` is a treedef; each turn has its own values. Writes replace, adds accumulate; both happen after all reads
    of the turn. Memory is undefined at first, so slots must be written before a turn adds to them, and every output
    column must be written by some turn. If `when` names a slot, only lanes in which that slot is not 0 do the turn. The
    slots that a turn writes and adds to are all different.

    A `scratch` loop in a `Repeat` writes values that are needed only later in the same pass. Lanes that no longer take
    part may get any value there, so a CPU need not load and keep their old values.

    A lane does few turns of a `rare` loop, and none of them changes the condition of another.

    A loop that `lists` (a name, a slot) makes a list of its turns after which that slot is not 0. If it is the same
    slot for all turns, no other loop reads it. Loops that `follow` the list have the same turns, and do only those on
    the list: the conditions of the others are 0 until the list is made again. So a CPU visits only turns on the list,
    in a repeat only those that a lane needs that goes on. A `backward` loop has the same turns from the last to the
    first.

    `skips`, a column and a slot, is for turns that change nothing where the slot is 0, but for a slot that all turns
    write. The column says how many of the next turns name the same slot: they are left out if it is 0 in all lanes. No
    turn changes its own slot, and only a CPU uses this.

    `special`, a column and another loop, is for turns whose entry in that column is not 0: the other loop has the same
    columns, and does them in less time, with the same bits in all slots that are read later. It has no constants,
    inputs or outputs, and only a CPU uses it.

    A loop with a `pool` has more constants than its turns name: further rows after those of the turns. Its step gets
    (constants, pool), where the pool is one long array of all constants, and reads from it at run time. Each lane runs
    the step by itself, so it may have loops and arrays of its own (alone.py).

    A loop with `alike` does the same to each of so many columns: a tuple of that length anywhere in its reads, writes
    and adds has a number of each column, and so do its outputs. Its step takes such tuples of any length. So where one
    lane runs by itself, columns can lie in a vector register (cpu/alike.py).
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
    skips: tuple[int, Slots] | None = None
    special: "tuple[int, Loop] | None" = None
    alike: int = 1

    @property
    def places(self) -> tuple[Slots | Lane, ...]:
        """All places that its turns name."""
        return (*self.reads, *self.writes, *self.adds, *self.inputs, *self.outputs)

    @property
    def clears(self) -> bool:
        """True if it only writes zeros to outputs, the same in every lane."""
        taken = (*self.reads, *self.writes, *self.adds, *self.inputs)
        if taken or not self.outputs or self.constants.num_leaves or self.when is not None:
            return False
        with jax.ensure_compile_time_eval():  # zeros of JAX are known numbers, too, where a program is being traced
            return not any(self.step(jax.tree.unflatten(self.constants, ()), (), ())[2])

    @property
    def every_place(self) -> tuple[Slots | Lane, ...]:
        """The same, and the condition."""
        return self.places if self.when is None else (*self.places, self.when)


@dataclass(frozen=True)
class Repeat:
    """Repeats its loops, for each lane while slot number `going` is not 0, at most `most` times.

    The slot is tested before each time, also before the first. Repeats may be nested. `uniform` promises that all lanes
    that begin go on equally often.
    """

    body: "tuple[Loop | Repeat, ...]"
    going: int
    most: int
    uniform: bool = False


Body = tuple[Loop | Repeat, ...]


def flattened(body: Body) -> Iterator[Loop]:
    """All loops in order, which is the order of their tables and constants."""
    for part in body:
        if isinstance(part, Repeat):
            yield from flattened(part.body)
        else:
            yield part


def uneven_repeats(body: Body) -> Iterator[Repeat]:
    """Repeats that lanes do unequally often; but not those within others of them."""
    for part in body:
        if isinstance(part, Repeat):
            yield from uneven_repeats(part.body) if part.uniform else (part,)


@dataclass(frozen=True, eq=False)
class Straight:
    """What is known when a program is compiled: tables, widths of inputs and outputs, perhaps constants."""

    tables: tuple[np.ndarray, ...]
    widths: tuple[int, ...]
    constants: tuple[np.ndarray | None, ...] | None  # None for loops whose constants are not known
    mirror: np.ndarray = field(default_factory=lambda: np.zeros((0, 3), np.int64))  # pairs of similar blocks (fold.py)
    hot: int | None = None  # how many slots come before the cold ones; None: all are hot
    by_columns: int = 0  # the last inputs, which GPUs read by columns: wide ones, of which each turn needs a part

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

    `reversible` promises that a slot is never changed after it was read. Then all values that the steps read are still
    there when the program runs backwards, and its derivatives are lane programs too (derivative.py). A reversible
    program names all slots and data by columns of tables. A program with `straight` is for one mechanism: native code
    ignores the tables that it gets (straight.py; on GPUs sequence.py for programs that are not `even`). In a `woven`
    program each turn names the next one in the tables (woven.py). Only native code can run it, and only a `simple`
    program, of loops without conditions, can be woven.
    """

    name: str
    body: Body
    n_inputs: int
    n_outputs: int
    reversible: bool = False
    straight: Straight | None = None
    woven: bool = False
    ranks: tuple[int, ...] = ()  # the number of axes of each output of one state, for direct calls; 1 by default

    @property
    def output_ranks(self) -> tuple[int, ...]:
        """The number of axes of each output of one state."""
        return self.ranks or (1,) * self.n_outputs

    def __post_init__(self) -> None:
        if self.woven and not self.simple:
            raise ValueError(f"{self.name} has more than plain loops, so it is not woven")
        if self.reversible and any(isinstance(part, Repeat) for part in self.body):
            raise ValueError(f"{self.name} repeats loops, so it is not reversible")
        if self.reversible and any(place.column is None for loop in self.loops for place in loop.every_place):
            raise ValueError(f"{self.name} is reversible, so its tables must name all its slots and data")

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """All loops, also those that are repeated, in the order of the tables and constants."""
        return tuple(flattened(self.body))

    @property
    def simple(self) -> bool:
        """True if it has only loops, without repeats, and all lanes do all turns."""
        return all(isinstance(part, Loop) and part.when is None for part in self.body)

    @property
    def even(self) -> bool:
        """True if all lanes do the same turns, equally often."""

        def of(body: Body) -> bool:
            return all(part.when is None if isinstance(part, Loop) else part.uniform and of(part.body) for part in body)

        return of(self.body)

    @property
    def searches(self) -> bool:
        """True if some lanes may repeat loops more often than others, until they find a solution."""

        def of(part: Loop | Repeat) -> bool:
            return isinstance(part, Repeat) and (not part.uniform or any(map(of, part.body)))

        return any(map(of, self.body))


class Memory:
    """The layout of the slots of one row: named fields."""

    def __init__(self, **fields: Any):
        self.fields, self.size, self.cold = {}, 0, False
        for name, example in fields.items():
            tree = jax.tree.structure(example)
            self.fields[name] = (self.size, tree)
            self.size += tree.num_leaves

    def at(self, column: int | None, name: str) -> Slots:
        """A field of the row whose first slot is in this column of the table; without a column, of the first row."""
        offset, tree = self.fields[name]
        return Slots(column, offset, tree, self.cold, block=self.size)

    def of(self, column: int | None, *names: str) -> tuple[Slots, ...]:
        """Several fields of that row."""
        return tuple(self.at(column, name) for name in names)

    def base(self, row: Any) -> Any:
        """The first slot of a row; the base, row −1, comes first."""
        return (np.asarray(row) + 1) * self.size

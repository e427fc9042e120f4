"""The lane program: a short list of loops over `[slot, lane]` memory.

A lane is one state of a robot, or one chunk of a long chain. All lanes run the same program. A loop is a step and an
integer table: each turn takes one row of the table, reads the slots it names, calls the step, and writes or adds to
the slots it names. A step is a pure function of components, written in `jax.numpy`, that knows nothing of lanes or
slots; so the same step runs in XLA, in the vector registers of a CPU, and in the threads of a GPU. Tables and row data
are run-time inputs: two models of the same size share one compiled program.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np


class Slots(NamedTuple):
    """Consecutive slots that hold one pytree of scalars, at `table[turn, column] + offset`."""

    column: int
    offset: int
    tree: Any  # treedef of what they hold

    @property
    def count(self) -> int:
        """How many slots."""
        return self.tree.num_leaves


class Lane(NamedTuple):
    """One scalar of each lane's own data: column `table[turn, column] + offset` of lane array number `array`."""

    array: int
    column: int
    offset: int = 0


Step = Callable[[Any, tuple, tuple], tuple[tuple, tuple, tuple]]


@dataclass(frozen=True)
class Loop:
    """`step(constants, inputs, reads) -> (writes, adds, outputs)`, once for each row of a table.

    `constants` is a treedef; each turn has its own values. Writes replace, adds accumulate; both happen after all
    reads of the turn. Slots that are added to must have been written before, and every output column must be written
    by some turn: memory starts out undefined.
    """

    step: Step
    columns: int
    constants: Any
    reads: tuple[Slots, ...] = ()
    writes: tuple[Slots, ...] = ()
    adds: tuple[Slots, ...] = ()
    inputs: tuple[Lane, ...] = ()
    outputs: tuple[Lane, ...] = ()


@dataclass(frozen=True, eq=False)
class Straight:
    """Tables known when a program is compiled, the widths of its inputs and outputs, and perhaps its constants."""

    tables: tuple[np.ndarray, ...]
    widths: tuple[int, ...]
    constants: tuple[np.ndarray, ...] | None

    @property
    def digest(self) -> str:
        """Of all numbers."""
        digest = hashlib.sha256(repr(self.widths).encode())
        for x in (*self.tables, *(self.constants or ())):
            digest.update(f"{x.shape} {x.dtype}".encode() + np.ascontiguousarray(x).tobytes())
        return digest.hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class Program:
    """Loops, run one after the other. Compared by identity: make each program once.

    `reversible` promises that a slot, once read, is never changed again. Then values that the steps saw are still there
    when the program is run backwards, and its derivatives are lane programs too (derivative.py). `straight` is for one
    mechanism alone: the native bodies then take nothing from the tables that they are given (straight.py). The turns
    of a `woven` program follow each other as its tables say (woven.py), and only native bodies can run it.
    """

    name: str
    loops: tuple[Loop, ...]
    n_inputs: int
    n_outputs: int
    reversible: bool = False
    straight: Straight | None = None
    woven: bool = False


class Memory:
    """How the slots of one row are divided into named fields."""

    def __init__(self, **fields: Any):
        self.fields, self.size = {}, 0
        for name, example in fields.items():
            tree = jax.tree.structure(example)
            self.fields[name] = (self.size, tree)
            self.size += tree.num_leaves

    def at(self, column: int, name: str) -> Slots:
        """A field of the row whose first slot stands in this column of the table."""
        offset, tree = self.fields[name]
        return Slots(column, offset, tree)

    def base(self, row: Any) -> Any:
        """First slot of a row; the base, row −1, comes first."""
        return (np.asarray(row) + 1) * self.size

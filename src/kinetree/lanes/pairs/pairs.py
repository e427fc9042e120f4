"""A function of all pairs: entry (i, j) of a dense matrix from the numbers of i and the numbers of j.

In JAX this is a map over two broadcast axes; platforms without native code run it so. XLA reads both operands again for
every entry. Native code keeps the operands of a column in registers while it goes down the rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray

from kinetree._varying import SharedPrimitive, custom_jvp

from ..llvm.emit import Emitter
from ..program.record import recorded
from ..target import Target, define_eager, lower


class Case(NamedTuple):
    """If `holds(i, j)`, a function of integers, an entry is `value(i, j)`, a function of reals.

    `side`: the case holds only below the diagonal (BELOW, i > j), above it (ABOVE), or on it (ON).
    """

    holds: Callable[[Any, Any], Any]
    value: Callable[[Any, Any], Any]
    side: int


BELOW, ON, ABOVE = -1, 0, 1


@dataclass(frozen=True, eq=False)
class Pairs:
    """An entry is the value of the first case that holds, else zero. Compared by identity: make each object once."""

    name: str
    cases: tuple[Case, ...]
    reals: Any  # treedefs of the numbers of one member
    wholes: Any


def each_pair(pairs: Pairs, reals: Any, wholes: Any) -> Any:
    """The matrix, (n, n), of members whose leaves are (n,), by XLA."""

    def sides(x: Any) -> tuple[Any, Any]:
        return jax.tree.map(lambda x: x[:, None], x), jax.tree.map(lambda x: x[None, :], x)

    entry: Any = None
    for case in reversed(pairs.cases):
        value = case.value(*sides(reals))
        entry = jnp.where(case.holds(*sides(wholes)), value, jnp.zeros_like(value) if entry is None else entry)
    return entry


def by_xla(*arrays: Any, pairs: Pairs) -> list:
    """The body for any platform, on the leaves."""
    count = pairs.reals.num_leaves
    reals, wholes = jax.tree.unflatten(pairs.reals, arrays[:count]), jax.tree.unflatten(pairs.wholes, arrays[count:])
    return [each_pair(pairs, reals, wholes)]


def _natively(target: Target, *arrays: Any, pairs: Pairs) -> list | None:
    return target.pairs(pairs, arrays)


PAIRS = SharedPrimitive("kinetree_pairs")
PAIRS.multiple_results = True
PAIRS.def_abstract_eval(lambda *arrays, pairs: [ShapedArray((arrays[0].shape[0],) * 2, arrays[0].dtype)])
lower(PAIRS, by_xla, _natively)
define_eager(PAIRS)


@partial(custom_jvp, nondiff_argnums=(0,))
def all_pairs(pairs: Pairs, reals: Any, wholes: Any) -> Any:
    """The matrix of all pairs, native where possible; batches go matrix by matrix, derivatives by XLA."""
    arrays = [jnp.asarray(x) for x in jax.tree.leaves(reals)] + [
        jnp.asarray(x, jnp.int32) for x in jax.tree.leaves(wholes)
    ]
    return jax.custom_batching.sequential_vmap(lambda *arrays: PAIRS.bind(*arrays, pairs=pairs)[0])(*arrays)


@all_pairs.defjvp
def _derivative(pairs: Pairs, primals: tuple, tangents: tuple) -> tuple:
    return jax.jvp(lambda reals: each_pair(pairs, reals, primals[1]), primals[:1], tangents[:1])


ARRAYS = ("%row_reals", "%row_wholes", "%column_reals", "%column_wholes", "%entries")
EVERY_SIDE = (BELOW, ON, ABOVE)
TOGETHER = 2  # numbers of one load; the numbers of a row are padded to a multiple of this


def _traced(function: Any, tree: Any, dtype: Any) -> Any:
    """The equations of a function of two members, on scalars."""
    member = jax.tree.unflatten(tree, [jax.ShapeDtypeStruct((), dtype)] * tree.num_leaves)
    return recorded(function, member, member)


def _filled(fields: int) -> int:
    return -(-fields // TOGETHER) * TOGETHER


def stacked(pairs: Pairs, arrays: Any) -> list:
    """The operands: reals and wholes of rows, by member, then those of columns, by field."""
    groups = [jnp.stack(arrays[: pairs.reals.num_leaves]), jnp.stack(arrays[pairs.reals.num_leaves :])]
    return [jnp.pad(g.T, ((0, 0), (0, _filled(len(g)) - len(g)))) for g in groups] + groups


class PairsText(ABC):
    """Writes the loop down a strip of rows. A target adds the places of strips and the access to memory.

    All cases that can hold in a strip are computed, and one is selected. If none holds in a turn, zeros are written at
    once.
    """

    rows: int  # in one turn
    whole: str  # the type of whole numbers in memory

    def __init__(self, pairs: Pairs, width: int, dtype: np.dtype):
        self.to = to = Emitter(width, dtype)
        whole = np.dtype(f"int{to.bits}")  # the emitter needs integers as wide as reals
        self.reals, self.wholes = pairs.reals.num_leaves, pairs.wholes.num_leaves
        self.cases = [
            (c.side, _traced(c.holds, pairs.wholes, whole), _traced(c.value, pairs.reals, dtype)) for c in pairs.cases
        ]
        self.columns: list[tuple[str, list[str], list[str]]] = []

    @abstractmethod
    def of_column(self, array: str, place: str, kind: str) -> str:
        """One of the numbers of a column."""

    @abstractmethod
    def of_row(self, array: str, place: str, kind: str) -> str:
        """One of the numbers of a row."""

    @abstractmethod
    def write(self, place: str, entry: str) -> None:
        """Write entries of a row, in the columns from one place on."""

    def column(self, number: str) -> tuple[str, list[str], list[str]]:
        """The index of a column, and its reals and wholes."""
        to, fields = self.to, range(max(self.reals, self.wholes))
        places = [to.op(f"add i64 {to.op(f'mul i64 %n, {k}')}, {number}") for k in fields]
        reals = [self.of_column("%column_reals", place, to.scalar) for place in places[: self.reals]]
        return number, reals, [self.of_column("%column_wholes", place, self.whole) for place in places[: self.wholes]]

    def row(self, array: str, count: int, kind: str, number: str) -> list[str]:
        """The reals or wholes of a row."""
        at = self.to.op(f"mul i64 {number}, {_filled(count)}")
        return [self.of_row(array, self.to.op(f"add i64 {at}, {k}"), kind) for k in range(count)]

    def strip(self, name: str, sides: tuple[int, ...], first: str, end: str, after: str) -> None:
        """From label `name` to label `after`: go down these rows, with only the cases of these sides."""
        to = self.to
        here = [(holds, value) for side, holds, value in self.cases if side in sides]
        to.label(name)
        last = to.op(f"sub i64 {end}, 1")
        to.into(f"{name}_turn")
        top = f"%{name}_row"
        to.lines.append(f"  {top} = phi i64 [ {first}, %{name} ], [ {top}_next, %{name}_next ]")
        # rows beyond the last repeat the last one, and write the same numbers
        rows = [to.smaller(to.op(f"add i64 {top}, {k}"), last) for k in range(self.rows)]
        truths = []  # for each row, column and case
        for row in rows:
            of_row = self.row("%row_wholes", self.wholes, self.whole, row)
            truths.append([[to.jaxpr(holds, [*of_row, *w])[0] for holds, _ in here] for _, _, w in self.columns])
        anything = to.splat("i1", "0")
        for truth in (t for of_row in truths for of_column in of_row for t in of_column):
            anything = to.op(f"or {to.truth} {anything}, {truth}")
        if to.width > 1:
            bits = to.op(f"bitcast {to.truth} {anything} to i{to.width}")
            anything = to.op(f"icmp ne i{to.width} {bits}, 0")
        to.branch(anything, f"{name}_compute", f"{name}_nothing")
        for label, values in (("compute", [value for _, value in here]), ("nothing", [])):
            to.label(f"{name}_{label}")
            to.begin_block()
            for row, of_row in zip(rows, truths, strict=True):
                self.entries(row, of_row, values)
            to.go(f"{name}_next")
        to.label(f"{name}_next")
        to.lines.append(f"  {top}_next = add i64 {top}, {self.rows}")
        to.branch(to.op(f"icmp slt i64 {top}_next, {end}"), f"{name}_turn", after)

    def entries(self, row: str, truths: list[list[str]], values: list[Any]) -> None:
        """Write a row's entries in the columns: the value of the first case that holds; zeros without any."""
        to = self.to
        of_row = self.row("%row_reals", self.reals, to.scalar, row) if values else []
        start = to.op(f"mul i64 {row}, %n")
        for (column, of_column, _), holding in zip(self.columns, truths, strict=True):
            entry = to.number(0.0)
            for truth, value in reversed(list(zip(holding, values, strict=False))):
                (number,) = to.jaxpr(value, [*of_row, *of_column])
                entry = to.op(f"select {to.truth} {truth}, {to.real} {number}, {to.real} {entry}")
            self.write(to.op(f"add i64 {start}, {column}"), entry)

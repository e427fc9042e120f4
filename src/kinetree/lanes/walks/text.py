"""A walk as LLVM text: one loop over the turns, the state in registers, for vectors of a CPU and threads of a GPU."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from ..llvm.emit import Emitter
from ..llvm.kernel import with_helpers
from ..program.record import recorded
from .walk import Walk


def traced(walk: Walk, dtype: Any) -> Any:
    """The equations of a step on scalars."""
    scalar, truth = jax.ShapeDtypeStruct((), dtype), jax.ShapeDtypeStruct((), np.bool_)

    def like(tree: Any) -> Any:
        return jax.tree.unflatten(tree, [scalar] * tree.num_leaves)

    return recorded(walk.step, like(walk.state), like(walk.streams), like(walk.gathered), truth)


@contextmanager
def each_turn(to: Emitter, carried: list[str], reverse: bool) -> Iterator[str]:
    """A context: the text written inside is for each turn, in order or in reverse. `carried` change from turn to turn.

    The list has the values of the states, before the loop, inside it, and after it.
    """
    places = [to.variable(to.real) for _ in carried]

    def keep() -> None:
        for place, value in zip(places, carried, strict=True):
            to.do(f"store {to.real} {value}, ptr {place}")

    def fetch() -> None:
        to.begin_block()
        carried[:] = [to.op(f"load {to.real}, ptr {place}") for place in places]

    keep()
    with to.each("%turns") as turn:
        fetch()
        yield to.op(f"sub i64 {to.op('sub i64 %turns, 1')}, {turn}") if reverse else turn
        keep()
    fetch()


class WalkText:
    """Writes the loop. `space` is the type of pointers, `pointers` their names in the order of the arrays."""

    space = ""

    def __init__(self, walk: Walk, closed: Any, width: int, dtype: Any):
        self.walk, self.closed = walk, closed
        self.to = Emitter(width, dtype)
        n = walk.state.num_leaves
        counts = [n, walk.sources, 1, len(walk.widths), walk.gathered.num_leaves, n, walk.outputs]
        self.starts = [int(c) for c in np.cumsum([0, *counts])]
        self.pointers: list[str] = []

    def group(self, k: int) -> list[str]:
        """The pointers of group k: states, sources, rows, streams, gathered, final states, results."""
        return self.pointers[self.starts[k] : self.starts[k + 1]]

    def place(self, pointer: str, index: str, kind: str) -> str:
        """Address of an element."""
        return self.to.op(f"getelementptr {kind}, ptr{self.space} {pointer}, i64 {index}")

    def read(self, pointer: str, index: str, kind: str = "") -> str:
        """One number for each lane, side by side."""
        kind = kind or self.to.scalar
        size = 4 if kind == "i32" else self.to.dtype.itemsize
        place = self.place(pointer, index, kind)
        return self.to.op(f"load {self.to.vector(kind)}, ptr{self.space} {place}, align {size}")

    def write(self, pointer: str, index: str, value: str) -> None:
        """One number for each lane, side by side."""
        to = self.to
        place = self.place(pointer, index, to.scalar)
        to.do(f"store {to.real} {value}, ptr{self.space} {place}, align {to.dtype.itemsize}")

    def present(self, index: str) -> str:
        """True in lanes that have a row."""
        kind = self.to.vector("i32")
        return self.to.op(f"icmp sge {kind} {index}, {self.to.splat('i32', '0')}")

    def gather(self, pointer: str, index: str, present: str) -> str:
        """Each lane's own element; zero if there is none."""
        to, zero = self.to, self.to.number(0.0)
        if to.width == 1:
            inside = to.op(f"select i1 {present}, i32 {index}, i32 0")
            value = self.read(pointer, to.op(f"sext i32 {inside} to i64"))
            return to.op(f"select i1 {present}, {to.scalar} {value}, {to.scalar} {zero}")
        pointers, name = self._pointers(pointer, index)
        to.declare(f"{to.real} @llvm.masked.gather.{name}({to.vector('ptr')}, i32, {to.truth}, {to.real})")
        return to.op(
            f"call {to.real} @llvm.masked.gather.{name}({to.vector('ptr')} {pointers}, i32 {to.dtype.itemsize}, "
            f"{to.truth} {present}, {to.real} {zero})"
        )

    def _pointers(self, pointer: str, index: str) -> tuple[str, str]:
        to = self.to
        wide = to.op(f"sext {to.vector('i32')} {index} to {to.vector('i64')}")
        pointers = to.op(f"getelementptr {to.scalar}, ptr {pointer}, {to.vector('i64')} {wide}")
        return pointers, f"v{to.width}f{to.bits}.v{to.width}p0"

    def scatter(self, values: list[tuple[str, str]], index: str, present: str) -> None:
        """Write each lane's values to its own elements, if there are any."""
        to = self.to
        if to.width == 1:
            with to.when(present):
                wide = to.op(f"sext i32 {index} to i64")
                for pointer, value in values:
                    self.write(pointer, wide, value)
            return
        for pointer, value in values:
            pointers, name = self._pointers(pointer, index)
            to.declare(f"void @llvm.masked.scatter.{name}({to.real}, {to.vector('ptr')}, i32, {to.truth})")
            to.do(
                f"call void @llvm.masked.scatter.{name}({to.real} {value}, {to.vector('ptr')} {pointers}, "
                f"i32 {to.dtype.itemsize}, {to.truth} {present})"
            )

    def in_turn(self, turn: str, field: int, width: int, lane: str) -> str:
        """Index of a field of a cell in an array of (turns, width, lanes)."""
        to = self.to
        before = to.op(f"add i64 {to.op(f'mul i64 {turn}, {width}')}, {field}")
        return to.op(f"add i64 {to.op(f'mul i64 {before}, %lanes')}, {lane}")

    def ahead(self, pointer: str, turn: str, field: int, width: int, lane: str) -> None:
        """Prefetch a field of a later turn. On a GPU do nothing, as it has other threads to run."""

    def start(self, lane: str) -> list[str]:
        """The start state of a lane."""
        if not self.walk.sources:
            return [self.read(p, lane) for p in self.group(0)]
        places = [self.read(p, lane, "i32") for p in self.group(1)]
        found = [(place, self.present(place)) for place in places]
        totals = []
        for pointer in self.group(0):
            parts = [self.gather(pointer, *where) for where in found]
            total = parts[0]
            for part in parts[1:]:
                total = self.to.arithmetic("fadd", total, part)
            totals.append(total)
        return totals

    def turns(self, lane: str, done: str) -> None:
        """The loop, for the lanes from `lane` on; then go to label `done`."""
        to, walk = self.to, self.walk
        carried, streams = self.start(lane), self.group(3)
        with each_turn(to, carried, walk.reverse) as turn:
            cell = to.op(f"add i64 {to.op(f'mul i64 {turn}, %lanes')}, {lane}")
            rows = self.read(self.group(2)[0], cell, "i32")
            present = self.present(rows)
            values = list(carried)
            for array, field in walk.fields:
                self.ahead(streams[array], turn, field, walk.widths[array], lane)
                values.append(self.read(streams[array], self.in_turn(turn, field, walk.widths[array], lane)))
            values += [self.gather(pointer, rows, present) for pointer in self.group(4)]
            results = to.jaxpr(self.closed, [*values, present])
            carried[:], results = results[: len(carried)], results[len(carried) :]
            if walk.scattered and results:
                self.scatter(list(zip(self.group(6), results, strict=True)), rows, present)
            else:
                for field, value in enumerate(results):
                    self.write(self.group(6)[0], self.in_turn(turn, field, len(results), lane), value)
        for pointer, value in zip(self.group(5), carried, strict=True):
            self.write(pointer, lane, value)
        to.go(done)

    def text(self) -> str:
        """Declarations and definitions."""
        return with_helpers(self.to)

"""A walk as LLVM text: one loop over the turns, the state in registers, for vectors of a CPU and threads of a GPU."""

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


def begin_turns(to: Emitter, states: int) -> tuple[list[str], int]:
    """Begin the loop over the turns, %t. Returns names of the carried states, and the line for their definitions."""
    to.into("begin")
    to.into("turn")
    to.begin_block()
    to.lines.append("  %t = phi i64 [ 0, %begin ], [ %u, %next ]")
    return [f"%c{i}" for i in range(states)], len(to.lines)


def carry(to: Emitter, carried: list[str], place: int, start: list[str], new: list[str]) -> None:
    """Define the carried states at their line: first the start state, then the result of the turn before."""
    to.lines[place:place] = [
        f"  {c} = phi {to.real} [ {a}, %begin ], [ {b}, %next ]" for c, a, b in zip(carried, start, new, strict=True)
    ]


def end_turns(to: Emitter) -> None:
    """End the loop; the text continues at label `finish`."""
    to.label("next")
    to.lines.append("  %u = add i64 %t, 1")
    to.branch(to.op("icmp slt i64 %u, %turns"), "turn", "finish")
    to.label("finish")


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

    def scatter(self, values: list[tuple[str, str]], index: str, present: str, after: str) -> None:
        """Write each lane's values to its own elements, if there are any; continue at label `after`."""
        to = self.to
        if to.width == 1:
            to.branch(present, "store", after)
            to.label("store")
            wide = to.op(f"sext i32 {index} to i64")
            for pointer, value in values:
                self.write(pointer, wide, value)
        else:
            for pointer, value in values:
                pointers, name = self._pointers(pointer, index)
                to.declare(f"void @llvm.masked.scatter.{name}({to.real}, {to.vector('ptr')}, i32, {to.truth})")
                to.do(
                    f"call void @llvm.masked.scatter.{name}({to.real} {value}, {to.vector('ptr')} {pointers}, "
                    f"i32 {to.dtype.itemsize}, {to.truth} {present})"
                )
        to.go(after)

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
        """The loop from label `begin` to label `done`, for the lanes from `lane` on."""
        to, walk = self.to, self.walk
        start = self.start(lane)
        carried, place = begin_turns(to, len(start))
        turn = to.op(f"sub i64 {to.op('sub i64 %turns, 1')}, %t") if walk.reverse else "%t"
        cell = to.op(f"add i64 {to.op(f'mul i64 {turn}, %lanes')}, {lane}")
        rows = self.read(self.group(2)[0], cell, "i32")
        present = self.present(rows)
        values = list(carried)
        streams = self.group(3)
        for array, field in walk.fields:
            self.ahead(streams[array], turn, field, walk.widths[array], lane)
            values.append(self.read(streams[array], self.in_turn(turn, field, walk.widths[array], lane)))
        values += [self.gather(pointer, rows, present) for pointer in self.group(4)]
        results = to.jaxpr(self.closed, [*values, present])
        new, results = results[: len(start)], results[len(start) :]
        carry(to, carried, place, start, new)
        if walk.scattered and results:
            self.scatter(list(zip(self.group(6), results, strict=True)), rows, present, "next")
        else:
            for field, value in enumerate(results):
                self.write(self.group(6)[0], self.in_turn(turn, field, len(results), lane), value)
            to.go("next")
        end_turns(to)
        for pointer, value in zip(self.group(5), new, strict=True):
            self.write(pointer, lane, value)
        to.go(done)

    def text(self) -> str:
        """Declarations and definitions."""
        return with_helpers(self.to)

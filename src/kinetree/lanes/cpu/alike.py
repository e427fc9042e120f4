"""Turns that do the same to several columns (`Loop.alike`), for a single lane: vectors hold columns in place of lanes.

One state of a robot leaves vector registers empty. Derivatives of forward dynamics are solved for by many such columns.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import jax

from ..llvm.emit import Emitter, trace
from ..program.program import Loop, Slots

WIDTHS = (8, 4, 2, 1)  # columns of a vector; LLVM divides those that are wider than a register


def side_by_side(writer: Any, loop: Loop, given: list[Any]) -> None:
    """Write one turn of the loop for a `BlockWriter` of one lane, with `given` constants and inputs."""
    to, done = writer.to, 0
    reads = tuple(x._replace(tree=_one_column(x.tree, loop.alike)) for x in loop.reads)
    step = trace(replace(loop, reads=reads), to.dtype)
    for width in WIDTHS:
        while loop.alike - done >= width:
            with _widened(to, width):
                _columns(writer, loop, step, [to.broadcast(x) for x in given], done)
            done += width


@contextmanager
def _widened(to: Emitter, width: int) -> Iterator[None]:
    """A context: the text written inside is on vectors of so many numbers, although there is one lane."""
    before = to.width, to.real, to.truth
    to.width = width
    to.real, to.truth = to.vector(to.scalar), to.vector("i1")
    yield
    to.width, to.real, to.truth = before


def _one_column(tree: Any, count: int) -> Any:
    """The structure with a tuple of one number in place of each tuple of `count`."""

    def many(x: Any) -> bool:
        return type(x) is tuple and len(x) == count

    whole = jax.tree.unflatten(tree, [0.0] * tree.num_leaves)
    return jax.tree.structure(jax.tree.map(lambda x: x[:1] if many(x) else x, whole, is_leaf=many))


def _columns(writer: Any, loop: Loop, step: Any, given: list[Any], first: int) -> None:
    """Write the columns from `first` on, as many as a vector holds: first all reads, then all writes."""
    to, align = writer.to, f"align {writer.size}"

    def places(slots: Slots) -> tuple[list[str], str]:
        """Where the numbers are, each the first of those in a vector, and their type."""
        one = _one_column(slots.tree, loop.alike).num_leaves == slots.count
        numbers = writer.slots_of(slots) if one else writer.slots_of(slots)[first :: loop.alike]
        return [to.at(writer.slots, x, to.scalar) for x in numbers], to.scalar if one else to.real

    def load(place: str, kind: str) -> str:
        value = to.op(f"load {kind}, ptr {place}, {align}")
        return value if kind == to.real else to.broadcast(value)

    reads = [load(place, kind) for slots in loop.reads for found, kind in (places(slots),) for place in found]
    results = iter(to.jaxpr(step, [*given, *reads]))
    for slots in (*loop.writes, *loop.adds):
        for place in places(slots)[0]:
            value = next(results)
            value = value if slots in loop.writes else to.arithmetic("fadd", load(place, to.real), value)
            to.do(f"store {to.real} {value}, ptr {place}, {align}")
    for k in range(0, len(loop.outputs), loop.alike):
        value = next(results)
        for column, x in enumerate(loop.outputs[k + first : k + first + to.width]):
            one = to.op(f"extractelement {to.real} {value}, i32 {column}") if to.width > 1 else value
            to.store(to.scalar, one, writer.outputs[x.array], writer.column_of(x), to.scalar, f", {align}")

"""Walks over blocks of lanes as LLVM text: one core goes through a huge tree block by block, in its own cache.

A block has as many lanes as a vector register, and some turns. Its arrays are (turns, fields, lanes), so that a core
reads and writes forward without a gap. Every function has the form `f(ptr operands, i64 count)`; its operands are the
addresses of its arrays. A list of such calls (lists.py) is an algorithm on one tree.

A scan goes over a small tree, one element after the other. It finds what enters each chunk of a huge tree.
"""

from dataclasses import dataclass
from typing import Any

from .. import tuning
from ..llvm.emit import Emitter
from ..walks.text import each_turn, traced
from ..walks.walk import Walk

NOWHERE = (-1, 0)  # the place of a field that is not stored, because the walk does not use it


@dataclass(frozen=True)
class BlockWalk:
    """A walk over one block, and where its operands lie.

    The operands, in order: the start states of the lanes, side by side, (fields, lanes); the arrays of the streams; the
    array of gathered inputs, if there are any, whose fields are `taken`; the rows, −1 for none; the arrays of results;
    and, if it `ends`, the place of the final states, side by side. Result k goes to field `results[k]`: the number of
    an array, and a place in it.
    """

    walk: Walk
    name: str
    taken: tuple[int, ...] = ()
    arrays: int = 0  # fields of the array of gathered inputs
    results: tuple[tuple[int, int], ...] = ()
    widths: tuple[int, ...] = ()  # fields of each result array
    ends: bool = False


class BlockText:
    """Writes the function of a block walk, for vectors of `width` lanes."""

    def __init__(self, block: BlockWalk, width: int, dtype: Any):
        self.block, self.walk = block, block.walk
        to = self.to = Emitter(width, dtype)
        self.size = to.dtype.itemsize
        to.begin(f"void @{block.name}(ptr %operands, i64 %turns)")
        counts = (1, len(self.walk.widths), bool(block.taken), 1, len(block.widths), block.ends)
        operands = iter([to.load("ptr", "%operands", 8 * k) for k in range(sum(counts))])
        (start,), streams, taken, (rows,), results, final = ([next(operands) for _ in range(n)] for n in counts)
        carried = [self._read(start, str(k * width)) for k in range(self.walk.state.num_leaves)]
        self._turns(carried, streams, taken, rows, results)
        for k, value in enumerate(carried if block.ends else ()):
            self._write(final[0], str(k * width), value)
        to.end()

    def _read(self, base: str, index: str) -> str:
        to = self.to
        place = to.op(f"getelementptr {to.scalar}, ptr {base}, i64 {index}")
        return to.op(f"load {to.real}, ptr {place}, align {self.size}")

    def _write(self, base: str, index: str, value: str) -> None:
        to = self.to
        place = to.op(f"getelementptr {to.scalar}, ptr {base}, i64 {index}")
        to.do(f"store {to.real} {value}, ptr {place}, align {self.size}")

    def _exist(self, rows: str, turn: str) -> str:
        """A mask of the lanes that have a row."""
        to, kind = self.to, self.to.vector("i32")
        index = to.load(kind, rows, to.op(f"mul i64 {turn}, {to.width}"), "i32", ", align 4")
        return to.op(f"icmp sge {kind} {index}, zeroinitializer")

    def _turns(self, carried: list[str], streams: list[str], taken: list[str], rows: str, results: list[str]) -> None:
        """The loop; `carried` are the states before it, and then those after it."""
        to, walk, width = self.to, self.walk, self.to.width
        with each_turn(to, carried, walk.reverse) as turn:
            later = to.op(f"add i64 {turn}, {-tuning.PREFETCH_TURNS if walk.reverse else tuning.PREFETCH_TURNS}")

            def cell(fields: int, field: int, at: str = turn) -> str:
                return to.op(f"add i64 {to.op(f'mul i64 {at}, {fields * width}')}, {field * width}")

            values = list(carried)
            for array, field in walk.fields:
                if (array, field) == NOWHERE:
                    values.append(to.number(0.0))
                    continue
                to.prefetch(to.at(streams[array], cell(walk.widths[array], field, later), to.scalar))
                values.append(self._read(streams[array], cell(walk.widths[array], field)))
            values += [self._read(taken[0], cell(self.block.arrays, field)) for field in self.block.taken]
            found = to.jaxpr(traced(walk, to.dtype), [*values, self._exist(rows, turn)])
            carried[:], found = found[: len(carried)], found[len(carried) :]
            for (array, field), value in zip(self.block.results, found, strict=True):
                self._write(results[array], cell(self.block.widths[array], field), value)


@dataclass(frozen=True)
class TreeScan:
    """A scan: `walk` goes over the elements of a tree, outward or, if reversed, inward.

    Operands: numbers of the elements, parents first; numbers of their parents; the states; the arrays of the fields.
    The arrays are those of blocks, (blocks, fields, lanes), one element to a lane. Outward, the step of the parent
    turns the parent's state into the state of the element. Inward, the result of an element's step is added to its
    parent's state.
    """

    walk: Walk
    name: str


class TreeScanText:
    """Writes the function of a scan, for arrays of blocks of `width` lanes."""

    def __init__(self, scan: TreeScan, width: int, dtype: Any):
        walk, self.width = scan.walk, width
        to = self.to = Emitter(1, dtype)
        to.begin(f"void @{scan.name}(ptr %operands, i64 %count)")
        order, parents, states, *arrays = (to.load("ptr", "%operands", 8 * k) for k in range(3 + len(walk.widths)))
        count = walk.state.num_leaves
        with to.each("%count") as number:
            to.begin_block()
            at = to.op(f"sub i64 {to.op('sub i64 %count, 1')}, {number}") if walk.reverse else number
            element, parent = (to.op(f"sext i32 {to.load('i32', p, at, 'i32')} to i64") for p in (order, parents))
            source, target = (element, parent) if walk.reverse else (parent, element)
            state = [to.load(to.scalar, self._cell(states, source, count, k)) for k in range(count)]
            fields = [to.load(to.scalar, self._cell(arrays[a], source, walk.widths[a], f)) for a, f in walk.fields]
            new = to.jaxpr(traced(walk, dtype), [*state, *fields, "1"])
            for k, value in enumerate(new):
                cell = self._cell(states, target, count, k)
                if walk.reverse:
                    value = to.op(f"fadd {to.scalar} {to.load(to.scalar, cell)}, {value}")
                to.store(to.scalar, value, cell)
        to.end()

    def _cell(self, base: str, element: str, fields: int, field: int) -> str:
        to = self.to
        block, lane = to.op(f"sdiv i64 {element}, {self.width}"), to.op(f"srem i64 {element}, {self.width}")
        first = to.op(f"mul i64 {block}, {fields * self.width}")
        return to.at(base, to.op(f"add i64 {to.op(f'add i64 {first}, {field * self.width}')}, {lane}"), to.scalar)

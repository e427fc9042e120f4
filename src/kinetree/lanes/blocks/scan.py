"""Scans over a small tree, one element after the other, in native code: what enters each chunk of a huge tree."""

from dataclasses import dataclass
from typing import Any

from ..llvm.emit import Emitter
from ..walks.text import traced
from ..walks.walk import Walk


@dataclass(frozen=True)
class TreeScan:
    """`walk` goes over the elements of a tree, outward or, reversed, inward.

    Operands: numbers of the elements, parents first; numbers of their parents; the states; the arrays of the fields.
    Arrays are those of blocks, (blocks, fields, lanes), an element to a lane. Outward, an element's state is what its
    parent makes of the state that it has. Inward, what an element makes of its state is added to that of its parent.
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
        to.branch(to.op("icmp sgt i64 %count, 0"), "turn", "done")
        to.label("turn")
        to.begin_block()
        to.lines.append("  %i = phi i64 [ 0, %entry ], [ %next, %turn ]")
        at = to.op(f"sub i64 {to.op('sub i64 %count, 1')}, %i") if walk.reverse else "%i"
        element, parent = (to.op(f"sext i32 {to.load('i32', p, at, 'i32')} to i64") for p in (order, parents))
        count = walk.state.num_leaves
        source, target = (element, parent) if walk.reverse else (parent, element)
        state = [to.load(to.scalar, self._cell(states, source, count, k)) for k in range(count)]
        fields = [to.load(to.scalar, self._cell(arrays[a], source, walk.widths[a], f)) for a, f in walk.fields]
        new = to.jaxpr(traced(walk, dtype), [*state, *fields, "1"])
        for k, value in enumerate(new):
            cell = self._cell(states, target, count, k)
            if walk.reverse:
                value = to.op(f"fadd {to.scalar} {to.load(to.scalar, cell)}, {value}")
            to.store(to.scalar, value, cell)
        to.lines.append("  %next = add i64 %i, 1")
        to.branch(to.op("icmp slt i64 %next, %count"), "turn", "done")
        to.label("done")
        to.end()

    def _cell(self, base: str, element: str, fields: int, field: int) -> str:
        to = self.to
        block, lane = to.op(f"sdiv i64 {element}, {self.width}"), to.op(f"srem i64 {element}, {self.width}")
        first = to.op(f"mul i64 {block}, {fields * self.width}")
        return to.at(base, to.op(f"add i64 {to.op(f'add i64 {first}, {field * self.width}')}, {lane}"), to.scalar)

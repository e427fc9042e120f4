"""Walks on this CPU: lanes in vector registers, blocks of them on XLA's threads.

The handler gets the arrays in the order of walks/text.py. Its attributes are: how many lanes a thread takes at a time,
the numbers of lanes and turns, and the address of the resident array.
"""

from functools import partial
from typing import Any

import numpy as np

from .. import tuning
from ..kept.once import once
from ..llvm.handler import LANES, MEMORY, POINTERS, SCRATCH, arrays_handler, attribute, given_or, task_text
from ..llvm.text import Text, over_blocks
from ..llvm.trigonometry import lane_module
from ..walks.text import WalkText, traced
from ..walks.walk import Resident, Walk, WalkSize, ffi_call, first_stream
from .host import cpu_target, vector_width

TURNS = SCRATCH  # in a task's record: walks have no scratch, programs no turns of their own


class CpuWalk(WalkText):
    """`name(ptr arrays, i64 turns, i64 lanes, i64 lo, i64 hi)`: lanes lo to hi, at least one block of them."""

    def __init__(self, walk: Walk, closed: Any, width: int, dtype: Any, name: str):
        super().__init__(walk, closed, width, dtype)
        to = self.to
        to.begin(f"internal void @{name}(ptr %arrays, i64 %turns, i64 %lanes, i64 %lo, i64 %hi)")
        self.pointers = [to.load("ptr", "%arrays", k, "ptr") for k in range(self.starts[-1])]
        over_blocks(to, width, "%lo", "%hi", lambda lane: self.turns(lane, "blockend"))

    def ahead(self, pointer: str, turn: str, field: int, width: int, lane: str) -> None:
        """Prefetch a field of a later turn: the hardware does not look that far ahead."""
        to = self.to
        later = to.op(f"add i64 {turn}, {-tuning.PREFETCH_TURNS if self.walk.reverse else tuning.PREFETCH_TURNS}")
        place = self.place(pointer, self.in_turn(later, field, width, lane), to.scalar)
        to.prefetch(place)


def _arguments(to: Text) -> str:
    turns, lanes = (to.load("i64", "%job", o) for o in (TURNS, LANES))
    return f"ptr {to.at('%job', POINTERS)}, i64 {turns}, i64 {lanes}"


def _prepare(to: Text, job: str, walk: Walk) -> None:
    to.store("i64", attribute(to, 2), job, TURNS)
    if walk.widths:
        place = POINTERS + 8 * first_stream(walk)
        to.store("ptr", given_or(to, attribute(to, 3), to.load("ptr", job, place)), job, place)


def cpu_text(walk: Walk, dtype: np.dtype, width: int) -> str:
    """The whole module: for vectors, for scalars, and the handler."""
    closed = traced(walk, dtype)
    functions = [CpuWalk(walk, closed, w, dtype, name) for w, name in ((width, "lanes"), (1, "lane"))]
    task, handler = task_text(_arguments, width), arrays_handler(*_counts(functions[0]), partial(_prepare, walk=walk))
    return lane_module(MEMORY, *(f.text() for f in functions), str(task), str(handler))


def _counts(text: WalkText) -> tuple[int, int]:
    return text.starts[5], text.starts[7] - text.starts[5]


@once
def _target(walk: Walk, dtype: str) -> str | None:
    return cpu_target(walk.name, walk, dtype, partial(cpu_text, walk))


def take_native_walk(walk: Walk, shape: WalkSize, arrays: Any, resident: Resident | None = None) -> list | None:
    """Results on traced arrays, or None if there is no native body."""
    dtype = np.dtype(arrays[0].dtype)
    name = _target(walk, dtype.name)
    block = vector_width(dtype)
    grain = max(1, -(-shape.lanes // tuning.WALK_TASKS // block)) * block
    return None if name is None else ffi_call(name, walk, shape, arrays, resident, grain)

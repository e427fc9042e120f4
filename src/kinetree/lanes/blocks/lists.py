"""Lists of native calls, run by several threads: this is how a CPU walks a huge tree.

A call is a function of text.py, a count, and operands. A task is several calls, one after the other, on the same data.
Threads take tasks in order, so a task may wait for an earlier one. An operand is an address, or a place in memory that
differs from run to run: the thread's own memory, or an input array.
"""

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..cpu.host import loaded, vector_width
from ..llvm.emit import Emitter
from ..llvm.kernel import with_helpers
from ..llvm.text import Text
from ..llvm.trigonometry import lane_module
from .moves import BlockMoves, moves
from .text import BlockText, BlockWalk, TreeScan, TreeScanText

MAX_OPERANDS = 20  # arrays that one native call takes
WORDS = 2 + MAX_OPERANDS
KIND = 56  # bits of an offset; the bits above them say which memory the offset is in
OWN, GIVEN = 1, 2  # kinds of memory: the thread's own, the first input array (then the others); 0 is an address


def place(kind: int, offset: Any) -> Any:
    """An operand: an offset in bytes, in the thread's own memory or in an input array."""
    return (kind << KIND) + offset


def call(address: Any, count: Any, *operands: Any) -> np.ndarray:
    """Calls as an array (calls, words): functions, counts and operands. Each operand is one number, or one per call."""
    parts = np.broadcast_arrays(*(np.asarray(x, np.int64) for x in (address, count, *operands)))
    words = np.zeros((parts[0].size, WORDS), np.int64)
    for k, part in enumerate(parts):
        words[:, k] = part.reshape(-1)
    return words


class Tasks(NamedTuple):
    """Calls, and the place among them where each task begins."""

    calls: np.ndarray
    starts: np.ndarray  # one entry per task, and one for the end

    @staticmethod
    def of(tasks: Sequence[np.ndarray]) -> "Tasks":
        """Tasks, each a list of calls."""
        starts = np.cumsum([0, *(len(t) for t in tasks)])
        return Tasks(np.concatenate(tasks), starts)

    @staticmethod
    def side_by_side(*calls: np.ndarray) -> "Tasks":
        """Tasks from lists of equal length: task k is call k of every list."""
        tasks, steps = len(calls[0]), len(calls)
        return Tasks(np.stack(calls, 1).reshape(tasks * steps, WORDS), np.arange(tasks + 1) * steps)

    @staticmethod
    def grouped(steps: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> "Tasks":
        """Tasks from lists of calls. Each call comes with the number of its task and its place within the step.

        A task has its calls of the first list, in the order of their places, then those of the second list, and so on.
        """
        calls, task, number = (np.concatenate(parts) for parts in zip(*steps, strict=True))
        step = np.repeat(np.arange(len(steps)), [len(s[0]) for s in steps])
        starts = np.concatenate([[0], np.cumsum(np.bincount(task))])
        return Tasks(calls[np.lexsort((number, step, task))], starts)


# Offsets in a job, after the part that helpers use: the next task, the number of tasks, where each begins, the calls,
# the number of threads that take part, and for each thread the addresses that stand for its places.
NEXT, TASKS, STARTS, CALLS, MEMBERS, BASES, JOB = range(64, 64 + 56, 8)


def _work() -> str:
    """`work(job)`: run tasks until none is left."""
    to = Text("w")
    to.begin("void @work(ptr %job)")
    to.do(f"%operands = alloca [{MAX_OPERANDS} x ptr]")
    member = to.op(f"atomicrmw add ptr {to.at('%job', MEMBERS)}, i64 1 monotonic")
    bases = to.load("ptr", to.load("ptr", "%job", BASES), member, "ptr")
    tasks, starts, calls = (to.load(kind, "%job", at) for kind, at in (("i64", TASKS), ("ptr", STARTS), ("ptr", CALLS)))
    to.into("take_task")
    task = to.op(f"atomicrmw add ptr {to.at('%job', NEXT)}, i64 1 monotonic")
    with to.when(to.op(f"icmp sge i64 {task}, {tasks}")):
        to.give()
    begin, end = (to.load("i64", starts, t, "i64") for t in (task, to.op(f"add i64 {task}, 1")))
    with to.each(end, begin) as number:
        record = to.at(calls, to.op(f"mul i64 {number}, {WORDS}"), "i64")
        for k in range(MAX_OPERANDS):
            operand = to.load("i64", record, 2 + k, "i64")
            base = to.load("i64", bases, to.op(f"lshr i64 {operand}, {KIND}"), "i64")
            inside = to.op(f"and i64 {operand}, {(1 << KIND) - 1}")
            to.store("i64", to.op(f"add i64 {base}, {inside}"), "%operands", k, "i64")
        to.do(f"call void {to.load('ptr', record)}(ptr %operands, i64 {to.load('i64', record, 1, 'i64')})")
    to.go("take_task")
    to.lines.append("}")
    return str(to)


class BlockCode:
    """Machine code of some walks and scans, and of the moves of data between them."""

    def __init__(
        self,
        name: str,
        walks: Sequence[BlockWalk],
        scans: Sequence[TreeScan],
        moved: BlockMoves,
        dtype: Any,
    ):
        self.dtype = np.dtype(dtype)
        self.width = vector_width(self.dtype)
        emitter = Emitter(self.width, self.dtype)
        others = moves(emitter, moved)

        def text() -> str:
            written = [BlockText(w, self.width, self.dtype).to for w in walks]
            written += [TreeScanText(s, self.width, self.dtype).to for s in scans]
            return lane_module(with_helpers(*written), *others.values(), _work())

        code = loaded(name, (walks, scans, moved), self.dtype, text)
        self._engine = code.engine
        self.address = {n: code.address(n) for n in (*(w.name for w in (*walks, *scans)), *others)}
        self.work = code.address("work")

    def run(self, calls: np.ndarray) -> None:
        """Make some calls now, on this thread; all operands are addresses."""
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
        for one in calls:
            function(int(one[0]))(one[2:].ctypes.data, int(one[1]))

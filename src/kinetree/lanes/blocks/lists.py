"""Lists of native calls, carried out by several threads: how a huge tree is walked on a CPU.

A call is a function of text.py, a count, and operands. Calls that follow each other on the same data are a task;
threads take tasks in order, so a task may wait for one that comes before it. An operand is an address, or a place in
something that differs from one run to the next: the memory that a thread has to itself, or an array that was given.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..cpu.helpers import TAKE, share_job
from ..cpu.host import loaded, vector_width
from ..llvm.emit import Emitter
from ..llvm.kernel import with_helpers
from ..llvm.text import Text
from ..llvm.trigonometry import lane_module
from .moves import BlockMoves, moves
from .text import BlockText, BlockWalk, TreeScan, TreeScanText

MAX_OPERANDS = 20  # arrays that one native call takes
WORDS = 2 + MAX_OPERANDS
KIND = 56  # bits of a place; what it is a place in stands above them
OWN, GIVEN = 1, 2  # kinds: the thread's own memory, the first array that is given; 0 is an address


def place(kind: int, offset: Any) -> Any:
    """An operand: an offset in bytes, in the thread's own memory or in a given array."""
    return (kind << KIND) + offset


def call(address: Any, count: Any, *operands: Any) -> np.ndarray:
    """Calls, (calls, words): functions, counts and operands, which are numbers, or arrays with one for each call."""
    parts = np.broadcast_arrays(*(np.asarray(x, np.int64) for x in (address, count, *operands)))
    words = np.zeros((parts[0].size, WORDS), np.int64)
    for k, part in enumerate(parts):
        words[:, k] = part.reshape(-1)
    return words


class Tasks(NamedTuple):
    """Calls, and where each task begins among them."""

    calls: np.ndarray
    starts: np.ndarray  # one more than there are tasks

    @staticmethod
    def of(tasks: Sequence[np.ndarray]) -> "Tasks":
        """Tasks, each a list of calls."""
        starts = np.cumsum([0, *(len(t) for t in tasks)])
        return Tasks(np.concatenate(tasks), starts)

    @staticmethod
    def side_by_side(*calls: np.ndarray) -> "Tasks":
        """Lists of equally many calls as tasks: task k is call k of every list."""
        tasks, steps = len(calls[0]), len(calls)
        return Tasks(np.stack(calls, 1).reshape(tasks * steps, WORDS), np.arange(tasks + 1) * steps)

    @staticmethod
    def grouped(steps: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> "Tasks":
        """From lists of calls, with the task that each belongs to, and its number within the step.

        A task is its calls of the first list, in the order of their numbers, then those of the next.
        """
        calls, task, number = (np.concatenate(parts) for parts in zip(*steps, strict=True))
        step = np.repeat(np.arange(len(steps)), [len(s[0]) for s in steps])
        starts = np.concatenate([[0], np.cumsum(np.bincount(task))])
        return Tasks(calls[np.lexsort((number, step, task))], starts)


# Offsets in a job, after what helpers want of it: the next task, how many there are, where each begins, the calls,
# how many threads take part, and what each of them has instead of places.
NEXT, TASKS, STARTS, CALLS, MEMBERS, BASES, JOB = range(64, 64 + 56, 8)


def _work() -> str:
    """`work(job)`: take tasks until none is left."""
    to = Text("w")
    to.begin("void @work(ptr %job)")
    to.do(f"%operands = alloca [{MAX_OPERANDS} x ptr]")
    member = to.op(f"atomicrmw add ptr {to.at('%job', MEMBERS)}, i64 1 monotonic")
    bases = to.load("ptr", to.load("ptr", "%job", BASES), member, "ptr")
    tasks, starts, calls = (to.load(kind, "%job", at) for kind, at in (("i64", TASKS), ("ptr", STARTS), ("ptr", CALLS)))
    to.into("take_task")
    task = to.op(f"atomicrmw add ptr {to.at('%job', NEXT)}, i64 1 monotonic")
    to.branch(to.op(f"icmp slt i64 {task}, {tasks}"), "task", "done")
    to.label("task")
    begin, end = (to.load("i64", starts, t, "i64") for t in (task, to.op(f"add i64 {task}, 1")))
    to.into("check")
    to.lines.append(f"  %c = phi i64 [ {begin}, %task ], [ %d, %call ]")
    to.branch(to.op(f"icmp slt i64 %c, {end}"), "call", "take_task")
    to.label("call")
    record = to.at(calls, to.op(f"mul i64 %c, {WORDS}"), "i64")
    for k in range(MAX_OPERANDS):
        operand = to.load("i64", record, 2 + k, "i64")
        base = to.load("i64", bases, to.op(f"lshr i64 {operand}, {KIND}"), "i64")
        inside = to.op(f"and i64 {operand}, {(1 << KIND) - 1}")
        to.store("i64", to.op(f"add i64 {base}, {inside}"), "%operands", k, "i64")
    to.do(f"call void {to.load('ptr', record)}(ptr %operands, i64 {to.load('i64', record, 1, 'i64')})")
    to.lines.append("  %d = add i64 %c, 1")
    to.go("check")
    to.label("done")
    to.end()
    return str(to)


class BlockCode:
    """Machine code of some walks and scans, and of what lists of calls move besides."""

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

    def run(self, tasks: Tasks, own: Sequence[np.ndarray], given: Sequence[np.ndarray]) -> None:
        """Carry out all tasks, with no more threads than there are memories `own`."""
        bases = [np.array([0, memory.ctypes.data, *(x.ctypes.data for x in given)], np.int64) for memory in own]
        each = np.array([b.ctypes.data for b in bases], np.int64)
        job = np.zeros(JOB // 8, np.int64)
        job[TAKE // 8], job[BASES // 8] = self.work, each.ctypes.data
        job[TASKS // 8], job[STARTS // 8] = len(tasks.starts) - 1, tasks.starts.ctypes.data
        job[CALLS // 8] = tasks.calls.ctypes.data
        share_job(job, min(len(own), len(tasks.starts) - 1) - 1)

"""Helpers: native threads that take part in a job, and then stay awake for a while to wait for the next one.

To wake a sleeping thread takes 60 µs, a third of the time of 4096 states of an arm. So a helper that has done its part
watches its own *cell* for a while before it sleeps. A caller with a job to share puts the job's address there, by one
compare-and-exchange. The content of a cell changes in these ways only:

    AWAKE -> job            offered
    ASLEEP -> job           offered, and called to wake up
    job -> BUSY -> AWAKE    the helper took it, and is done
    job -> AWAKE            the caller took it back: nothing was left to do
    AWAKE -> ASLEEP         nothing came

A job's function takes parts from a counter until none is left, and its caller takes parts as well. So the caller waits
only for parts that were begun, never for a helper that is late, has another job, or stayed in the parent of a fork.

A helper stays off the processor of its caller. Linux often wakes a thread on the processor of the one that called it,
though others are idle, and moves it only after milliseconds. There it would wait for its caller to sleep. So a caller
that finds itself on another processor than last time takes its own from those that the helper may use.

A helper never ends; one that is no longer needed sleeps. It does not use Python: it never takes the interpreter's lock,
and at exit it is not stopped. It sleeps on a lock of CPython's stable ABI, which any thread may release.
"""

import ctypes
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from .. import tuning
from ..kept.once import immortal, once
from ..llvm.scratch import PLACES
from ..llvm.text import Text, module_of
from . import threads
from .host import MachineCode, loaded
from .interpreter import LINUX, Caller

HINT = "@llvm.aarch64.hint(i32 1)"  # the instruction `yield`
PAUSE = {"x86_64": "@llvm.x86.sse2.pause()", "aarch64": HINT, "arm64": HINT}.get(platform.machine(), "")

TAKE, BACK = 0, 8  # offsets in a job: its function of the job, and how many helpers have come back from it
STATE, LOCK, THREAD, AWAY = 0, 8, 16, 24  # offsets in a cell; the last two: the helper's number, who it keeps off, + 1
CELL = 128  # bytes of a cell: processors fetch lines of cache in pairs
SHARE = 0  # offset in a team: the function `share`; the helpers' cells follow, the first at CELL
SCRATCH_PLACES = CELL - 8 * PLACES  # offset in a team: scratch memory that all callers share (scratch.py)
AWAKE, ASLEEP, BUSY = range(3)  # states of a helper; any other number is the address of a job

MAX_HELPERS = threads.MAX_THREADS - 1  # helpers
PROCESSORS = 1024  # processors of a set in Linux; on machines with more, helpers run wherever the system puts them


class CellText(Caller):
    """A text with the operations on cells and jobs."""

    def state(self, cell: str) -> str:
        """The state in a cell."""
        return self.op(f"load atomic i64, ptr {self.at(cell, STATE)} monotonic, align 8")

    def exchange(self, cell: str, old: str | int, new: str | int) -> str:
        """Compare-and-exchange: true if the cell held `old` and now holds `new`. Earlier writes are then visible."""
        pair = self.op(f"cmpxchg ptr {self.at(cell, STATE)}, i64 {old}, i64 {new} acq_rel monotonic, align 8")
        return self.op(f"extractvalue {{ i64, i1 }} {pair}, 1")

    def count(self, counter: str, step: int) -> str:
        """Add to a number in memory; returns the sum."""
        total = self.op(f"add i64 {self.load('i64', counter)}, {step}")
        self.store("i64", total, counter)
        return total

    def wait(self, looks: str, again: str) -> None:
        """Pause, then jump to label `again`; go on after many `looks`."""
        if PAUSE:
            self.do(f"call void {PAUSE}")
        phase = self.op(f"urem i64 {self.count(looks, 1)}, {tuning.HELPER_LOOKS}")
        self.require(self.op(f"icmp eq i64 {phase}, 0"), otherwise=again)
        self.call("sched_yield")


def helpers_text() -> str:
    """Definitions of `helper` and `share`."""
    pause = [f"declare void {PAUSE.replace(' 1', '')}"] if PAUSE else []
    return module_of(*pause, str(_helper()), str(_share()))


def _helper() -> Text:
    """`helper(cell)`: the life of a helper."""
    to = CellText("h")
    to.begin("void @helper(ptr %cell)")
    looks, end = to.variable("i64", 0), to.variable("i64", 0)
    to.do("%time = alloca [2 x i64]")
    if LINUX:
        to.store("i64", to.call("PyThread_get_thread_native_id"), "%cell", THREAD)
    to.into("rest")  # The helper stays awake for a while from here on.
    to.store("i64", to.op(f"add i64 {_now(to)}, {tuning.HELPER_AWAKE_NS}"), end)
    to.into("look")
    job = to.state("%cell")
    with to.when(to.op(f"icmp ule i64 {job}, {BUSY}")):
        to.wait(looks, "look")
        to.require(to.op(f"icmp sge i64 {_now(to)}, {to.load('i64', end)}"), otherwise="look")
        to.require(to.exchange("%cell", AWAKE, ASLEEP), otherwise="look")
        to.call("PyThread_acquire_lock", f"ptr {to.load('ptr', '%cell', LOCK)}", "i32 1")
        to.go("rest")
    to.require(to.exchange("%cell", job, BUSY), otherwise="look")
    address = to.op(f"inttoptr i64 {job} to ptr")
    to.do(f"call void {to.load('ptr', address, TAKE)}(ptr {address})")
    # The helper is ready again before the caller learns that it is done.
    to.do(f"store atomic i64 {AWAKE}, ptr {to.at('%cell', STATE)} release, align 8")
    to.op(f"atomicrmw add ptr {to.at(address, BACK)}, i64 1 release")
    to.go("rest")
    to.lines.append("}")
    return to


def _now(to: CellText) -> str:
    """Nanoseconds on a clock."""
    to.call("clock_gettime", f"i32 {time.CLOCK_MONOTONIC}", "ptr %time")
    seconds, rest = (to.load("i64", "%time", offset) for offset in (0, 8))
    return to.op(f"add i64 {to.op(f'mul i64 {seconds}, 1000000000')}, {rest}")


def _share() -> Text:
    """`share(team, job, helpers, wanted)`: run the job on this thread and on up to `wanted` idle helpers."""
    to = CellText("s")
    to.begin("void @share(ptr %team, ptr %job, i64 %helpers, i64 %wanted)")
    offers, looks = to.variable("i64", 0), to.variable("i64", 0)
    job = to.op("ptrtoint ptr %job to i64")
    to.require(to.op("icmp sgt i64 %wanted, 0"), otherwise="begin")
    here = to.op(f"add i32 {to.call('sched_getcpu')}, 1") if LINUX else ""
    for old in (AWAKE, ASLEEP):
        with _each_cell(to, old, job) as cell:
            if LINUX:
                _keep_away(to, cell, here)
            if old == ASLEEP:
                to.call("PyThread_release_lock", f"ptr {to.load('ptr', cell, LOCK)}")
            to.require(to.op(f"icmp slt i64 {to.count(offers, 1)}, %wanted"), otherwise="begin")
    to.into("begin")
    to.do(f"call void {to.load('ptr', '%job', TAKE)}(ptr %job)")
    with _each_cell(to, job, AWAKE):  # taken back
        to.count(offers, -1)
    to.into("wait")
    back = to.op(f"load atomic i64, ptr {to.at('%job', BACK)} acquire, align 8")
    with to.when(to.op(f"icmp slt i64 {back}, {to.load('i64', offers)}")):
        to.wait(looks, "wait")
        to.go("wait")
    to.end()
    return to


def _keep_away(to: CellText, cell: str, here: str) -> None:
    """Keep a helper off a processor, given as its number + 1. It may use all others that the caller may use."""
    thread = to.load("i64", cell, THREAD)  # 0 until the helper runs for the first time
    new = to.op(f"icmp ne i32 {to.load('i32', cell, AWAY)}, {here}")
    with to.when(to.op(f"and i1 {new}, {to.op(f'icmp ne i64 {thread}, 0')}")):
        to.store("i32", here, cell, AWAY)
        others, size = to.variable(f"[{PROCESSORS // 32} x i32]"), f"i64 {PROCESSORS // 8}"
        failed = to.call("sched_getaffinity", "i32 0", size, f"ptr {others}")
        with to.when(to.op(f"icmp eq i32 {failed}, 0")):
            number = to.op(f"sub i32 {here}, 1")
            place = to.at(others, to.op(f"zext i32 {to.op(f'lshr i32 {number}, 5')} to i64"), "i32")
            bit = to.op(f"shl i32 1, {to.op(f'and i32 {number}, 31')}")
            to.store("i32", to.op(f"and i32 {to.load('i32', place)}, {to.op(f'xor i32 {bit}, -1')}"), place)
            # The system refuses an empty set.
            to.call("sched_setaffinity", f"i32 {to.op(f'trunc i64 {thread} to i32')}", size, f"ptr {others}")


@contextmanager
def _each_cell(to: CellText, old: str | int, new: str | int) -> Iterator[str]:
    """A context: replace `old` by `new` in the cells of all helpers; the text inside is for each cell that held `old`.

    Read first, then exchange: a read does not take the cache line away from its owner.
    """
    with to.each("%helpers") as k:
        cell = to.at("%team", to.op(f"mul i64 {to.op(f'add i64 {k}, 1')}, {CELL}"))
        with to.when(to.op(f"icmp eq i64 {to.state(cell)}, {old}")), to.when(to.exchange(cell, old, new)):
            yield cell


@once
def _code() -> MachineCode:
    return immortal(loaded("helpers", None, np.dtype(np.int64), helpers_text))


@once
def team() -> int:
    """The address of the team, the same in the whole life of a process."""
    memory = immortal(np.zeros((MAX_HELPERS + 2) * CELL, np.uint8)).ctypes.data
    return memory + -memory % CELL


@once
def ready_team() -> int:
    """The team, with the function `share`."""
    ctypes.c_int64.from_address(team() + SHARE).value = _code().address("share")
    return team()


_started = 0


def call_helpers() -> int:
    """The number of helpers that native code may use.

    The first call starts the helpers. The first call after a fork, or with more threads, starts the missing ones.
    """
    global _started
    with threads.changing:
        if threads.helper_count.value == threads.UNKNOWN:
            wanted = min(threads.threads() - 1, MAX_HELPERS)
            while _started < wanted and _start(ready_team() + CELL * (1 + _started)):
                _started += 1
            threads.helper_count.value = min(wanted, _started)
        return threads.helper_count.value


def _start(cell: int) -> bool:
    """Start a helper that watches a cell; False if the system refuses another thread."""
    api, pointer, place = ctypes.pythonapi, ctypes.c_void_p, ctypes.c_int64.from_address
    api.PyThread_allocate_lock.restype, api.PyThread_start_new_thread.restype = pointer, ctypes.c_ulong
    lock = api.PyThread_allocate_lock()
    if lock is None:
        return False
    api.PyThread_acquire_lock(pointer(lock), 1)  # Releasing this lock wakes the helper.
    place(cell + STATE).value, place(cell + LOCK).value = AWAKE, lock
    place(cell + THREAD).value = place(cell + AWAY).value = 0
    return api.PyThread_start_new_thread(pointer(_code().address("helper")), pointer(cell)) != ctypes.c_ulong(-1).value


def _after_fork() -> None:
    global _started
    _started = 0  # The helpers stayed in the parent process.


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

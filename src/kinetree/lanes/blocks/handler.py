"""Lists of calls carried out natively, by a direct call or inside `jit`.

All lists stand in a table of this process. A compiled program knows its lists by a token, because it may outlive them
or be loaded in another process. Tokens are never used twice, so in these cases the handler finds no lists and returns
an error. Lists have memory of their own, so the thread that runs, changes or removes them holds their lock.

The arrays that XLA passes have leading axes for any number of states. The states are computed one after the other. The
first array has one more axis; in the other arrays all axes after those of the states belong to one state.
"""

import ctypes
import itertools
import os
import time
import weakref
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ..cpu import threads
from ..cpu.helpers import TAKE, call_helpers, ready_team
from ..cpu.host import MachineCode, loaded
from ..ffi import register, supported
from ..kept.once import immortal, once
from ..llvm.handler import answer_metadata, attribute, operands, refuse, results, text_constant
from ..llvm.text import Text, module_of
from .lists import BASES, CALLS, JOB, STARTS, TASKS, Tasks

MAX_LISTS = 4096  # lists that one process may have at the same time
MAX_ARRAYS = 64
# Offsets in an entry: its token; the lock; the lists and their number; the function that runs their tasks; the bases of
# the operands of each thread, and the number of threads; the address of the number of helpers; the team of helpers.
TOKEN, LOCK, LISTS, PHASES, WORK, THREADS, MEMBERS, HELPERS, TEAM, ENTRY = range(0, 80, 8)
NOT_FOUND = 5  # an error code of XLA
GONE = "kinetree: this program was compiled for a tree that is not in this process, or not any more"


def _text() -> str:
    table = f"@entries = internal global [{MAX_LISTS * ENTRY} x i8] zeroinitializer, align 64"
    address = "define ptr @table() {\n  ret ptr @entries\n}"
    parts = (_lock(), _unlock(), _perform(), _handler())
    return module_of(text_constant("gone", GONE), table, address, "declare i32 @sched_yield()", *map(str, parts))


def _lock() -> Text:
    to = Text("l")
    to.begin("void @lock(ptr %lists)")
    to.into("look")
    pair = to.op(f"cmpxchg ptr {to.at('%lists', LOCK)}, i64 0, i64 1 acq_rel monotonic, align 8")
    with to.when(to.op(f"extractvalue {{ i64, i1 }} {pair}, 1")):
        to.give()
    to.op("call i32 @sched_yield()")
    to.go("look")
    to.lines.append("}")
    return to


def _unlock() -> Text:
    to = Text("u")
    to.begin("void @unlock(ptr %lists)")
    to.do(f"store atomic i64 0, ptr {to.at('%lists', LOCK)} release, align 8")
    to.end()
    return to


def _perform() -> Text:
    """`perform(lists, addresses, count)`: run all lists on arrays at these addresses. The caller holds the lock."""
    to = Text("p")
    to.begin("void @perform(ptr %lists, ptr %addresses, i64 %count)")
    to.do(f"%job = alloca [{JOB // 8} x i64], align 64")
    threads, members = to.load("ptr", "%lists", THREADS), to.load("i64", "%lists", MEMBERS)
    helpers = to.load("i64", to.load("ptr", "%lists", HELPERS))
    first, phases = to.load("ptr", "%lists", LISTS), to.load("i64", "%lists", PHASES)
    with to.each(members) as member:
        bases = to.load("ptr", threads, member, "ptr")
        with to.each("%count") as array:
            address = to.load("i64", "%addresses", array, "i64")
            to.store("i64", address, bases, to.op(f"add i64 {array}, 2"), "i64")
    work, group = to.load("ptr", "%lists", WORK), to.load("ptr", "%lists", TEAM)
    with to.each(phases) as phase:
        here = to.at(first, to.op(f"mul i64 {phase}, 24"))
        tasks, starts, calls = (to.load("i64", here, 8 * k) for k in range(3))
        for word in range(JOB // 8):
            to.store("i64", 0, "%job", 8 * word)
        for value, offset in ((tasks, TASKS), (starts, STARTS), (calls, CALLS)):
            to.store("i64", value, "%job", offset)
        to.store("ptr", work, "%job", TAKE)
        to.store("ptr", threads, "%job", BASES)
        wanted = to.smaller(to.op(f"sub i64 {to.smaller(tasks, members)}, 1"), helpers)
        to.do(f"call void {to.load('ptr', group)}(ptr {group}, ptr %job, i64 {helpers}, i64 {wanted})")
    to.end()
    return to


def _handler() -> Text:
    """The handler. Its attributes: the token, the bytes of a number, and the numbers of operands and results."""
    to = Text("h")
    to.begin("ptr @handler(ptr %frame)")
    to.do("%failure = alloca [4 x i64]")
    to.do(f"%addresses = alloca [{MAX_ARRAYS} x i64]")
    to.do(f"%bytes = alloca [{MAX_ARRAYS} x i64]")
    found, states = to.variable("ptr", "null"), to.variable("i64", 1)
    answer_metadata(to, traits=0)
    token, size, inputs, outputs = (attribute(to, k) for k in range(4))
    with to.each(MAX_LISTS) as entry:
        lists = to.at("@entries", to.op(f"mul i64 {entry}, {ENTRY}"))
        with to.when(to.op(f"icmp eq i64 {to.load('i64', lists, TOKEN)}, {token}")):
            to.store("ptr", lists, found)
            to.go("found")
    to.into("gone")
    refuse(to, NOT_FOUND, "@gone")
    to.label("found")
    lists = to.load("ptr", found)
    to.do(f"call void @lock(ptr {lists})")
    with to.when(to.op(f"icmp ne i64 {to.load('i64', lists, TOKEN)}, {token}")):
        to.do(f"call void @unlock(ptr {lists})")
        to.go("gone")
    given, made = operands(to), results(to)
    first = to.load("ptr", given)
    dims, axes = to.load("ptr", first, 40), to.op(f"sub i64 {to.load('i64', first, 32)}, 1")
    with to.each(axes) as axis:
        to.store("i64", to.op(f"mul i64 {to.load('i64', states)}, {to.load('i64', dims, axis, 'i64')}"), states)
    count, total = to.load("i64", states), to.op(f"add i64 {inputs}, {outputs}")

    def buffer(number: str) -> str:
        """The operand or result with this number; operands come first."""
        is_given = to.op(f"icmp slt i64 {number}, {inputs}")
        of = to.op(f"select i1 {is_given}, ptr {given}, ptr {made}")
        own = to.op(f"select i1 {is_given}, i64 {number}, i64 {to.op(f'sub i64 {number}, {inputs}')}")
        return to.load("ptr", of, own, "ptr")

    some = to.larger(count, 1)
    with to.each(total) as number:
        measured = buffer(number)
        dims, axes = to.load("ptr", measured, 40), to.load("i64", measured, 32)
        to.store("i64", size, "%bytes", number, "i64")
        with to.each(axes) as axis:
            whole = to.op(f"mul i64 {to.load('i64', '%bytes', number, 'i64')}, {to.load('i64', dims, axis, 'i64')}")
            to.store("i64", whole, "%bytes", number, "i64")
        whole = to.load("i64", "%bytes", number, "i64")
        to.store("i64", to.op(f"udiv i64 {whole}, {some}"), "%bytes", number, "i64")
    with to.each(count) as state:
        with to.each(total) as array:
            before = to.op(f"mul i64 {state}, {to.load('i64', '%bytes', array, 'i64')}")
            place = to.at(to.load("ptr", buffer(array), 24), before)
            to.store("ptr", place, "%addresses", array, "i64")
        to.do(f"call void @perform(ptr {lists}, ptr %addresses, i64 {total})")
    to.do(f"call void @unlock(ptr {lists})")
    to.end("ptr null")
    return to


@once
def _code() -> MachineCode:
    return immortal(loaded("blocks_handler", None, np.dtype(np.int64), _text))


@once
def _function(name: str, arguments: int) -> Any:
    kinds = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)[:arguments]
    return ctypes.CFUNCTYPE(ctypes.c_void_p if name == "table" else None, *kinds)(_code().address(name))


@once
def _entries() -> np.ndarray:
    memory = (ctypes.c_int64 * (MAX_LISTS * ENTRY // 8)).from_address(_function("table", 0)())
    return np.ctypeslib.as_array(memory).reshape(MAX_LISTS, ENTRY // 8)


_tokens = itertools.count(1)


@once
def _first_token(process: int) -> int:
    return (process << 40) ^ (time.time_ns() << 8)


class Lists:
    """Lists of calls, ready to run. `arrays` are the inputs, then the results."""

    def __init__(self, tasks: Sequence[Tasks], work: int, own_bytes: int, arrays: int):
        self._own_bytes, self._arrays, self._tasks = own_bytes, arrays, tasks
        with threads.changing:
            free = np.flatnonzero(_entries()[:, TOKEN // 8] == 0)
            if not free.size:
                raise RuntimeError(f"there are {MAX_LISTS} plans for huge trees already")
            self._entry = _entries()[free[0]]
            self.token = (_first_token(os.getpid()) + next(_tokens)) & ((1 << 62) - 1)
            self._entry[TOKEN // 8] = self.token
        self._lists = np.array(
            [(len(t.starts) - 1, t.starts.ctypes.data, t.calls.ctypes.data) for t in tasks], np.int64
        ).reshape(-1, 3)
        self._members: list[np.ndarray] = []
        values = {LISTS: self._lists.ctypes.data, PHASES: len(tasks), WORK: work, LOCK: 0, MEMBERS: 0}
        values |= {HELPERS: ctypes.addressof(threads.helper_count), TEAM: ready_team()}
        for offset, value in values.items():
            self._entry[offset // 8] = value
        self._threads = np.zeros(0, np.int64)
        weakref.finalize(self, _forget, self._entry, self.token, os.getpid())

    def _make_room(self) -> None:
        """Memory for all threads; called with the lock held."""
        call_helpers()
        while len(self._members) < 2 * threads.threads():
            memory = np.zeros(self._own_bytes + 64, np.uint8)
            base = np.zeros(2 + self._arrays, np.int64)
            base[1] = memory.ctypes.data + -memory.ctypes.data % 64
            self._members += [memory, base]
        self._threads = np.array([b.ctypes.data for b in self._members[1::2]], np.int64)
        self._entry[THREADS // 8], self._entry[MEMBERS // 8] = self._threads.ctypes.data, len(self._threads)

    def __call__(self, arrays: Sequence[np.ndarray]) -> None:
        """Run the lists on contiguous arrays."""
        addresses = np.array([x.ctypes.data for x in arrays], np.int64)
        entry = self._entry.ctypes.data
        _function("lock", 1)(entry)
        try:
            if len(self._members) < 2 * threads.threads() or threads.helper_count.value == threads.UNKNOWN:
                self._make_room()
            _function("perform", 3)(entry, addresses.ctypes.data, len(arrays))
        finally:
            _function("unlock", 1)(entry)

    def traced(self, arrays: Sequence[Any], wanted: Sequence[Any]) -> list[Any]:
        """Results on traced arrays. The first array is (..., numbers); all axes before the last are axes of states."""
        _function("lock", 1)(self._entry.ctypes.data)
        try:
            self._make_room()
        finally:
            _function("unlock", 1)(self._entry.ctypes.data)
        name = register(_code().name, _code().address("handler"), "cpu", _code().engine)
        numbers = (self.token, np.dtype(arrays[0].dtype).itemsize, len(arrays), len(wanted))
        names = ("a_token", "b_size", "c_inputs", "d_outputs")
        call = jax.ffi.ffi_call(name, tuple(wanted), vmap_method="broadcast_all")
        return list(call(*arrays, **{k: np.int64(v) for k, v in zip(names, numbers, strict=True)}))


def _forget(entry: np.ndarray, token: int, process: int) -> None:
    """Remove lists once no thread runs them. A forked child leaves its parent's lists: their locks may be held."""
    if process == os.getpid() and entry[TOKEN // 8] == token:
        _function("lock", 1)(entry.ctypes.data)
        entry[TOKEN // 8] = 0
        _function("unlock", 1)(entry.ctypes.data)


def serve_jit() -> bool:
    """True if programs of XLA can run lists."""
    return supported()

"""The threads of the native body for NumPy arrays. Inside `jit` XLA's own threads are used instead."""

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

UNKNOWN = -1
helper_count = ctypes.c_int64(UNKNOWN)  # how many helpers native code may call; helpers.py starts and counts them
changing = Lock()  # held while a number here changes

_threads: int | None = None
_executor: ThreadPoolExecutor | None = None


def set_threads(n: int | None) -> None:
    """How many CPU threads the native body uses; None is all cores. KINETREE_THREADS sets the start value."""
    global _threads, _executor
    if n is not None and n < 1:
        raise ValueError(f"at least one thread is needed, not {n}")
    with changing:
        _threads, _executor = n, None
        helper_count.value = 0 if n == 1 else UNKNOWN


def threads() -> int:
    """The number in force."""
    if _threads is not None:
        return _threads
    given = os.environ.get("KINETREE_THREADS", "")
    if given.isdigit():
        return max(1, int(given))
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pool() -> ThreadPoolExecutor:
    """Threads to help the calling one, one fewer than the number in force."""
    global _executor
    if _executor is None:
        _executor = ThreadPoolExecutor(max(1, threads() - 1), "kinetree")
    return _executor


def _after_fork() -> None:
    global _executor, changing
    _executor, changing = None, Lock()  # their threads, and who may have held this one, stayed in the parent
    if helper_count.value:
        helper_count.value = UNKNOWN


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

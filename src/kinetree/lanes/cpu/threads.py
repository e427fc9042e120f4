"""The threads of the native body for NumPy arrays. Inside `jit` XLA's own threads are used instead."""

import ctypes
import operator
import os
from threading import Lock

from ..kept.notice import warn_once

UNKNOWN = -1
MAX_THREADS = 1024  # more than any machine has cores; each thread takes memory
helper_count = ctypes.c_int64(UNKNOWN)  # how many helpers native code may call; helpers.py starts and counts them
changing = Lock()  # held while a number here changes

_threads: int | None = None


def set_threads(n: int | None) -> None:
    """Set how many CPU threads native code uses; None is all cores. KINETREE_THREADS sets the start value."""
    global _threads
    if n is not None:
        n = _checked(n)
    with changing:
        _threads = n
        helper_count.value = 0 if n == 1 else UNKNOWN


def _checked(n: int) -> int:
    try:
        whole = operator.index(n)
    except TypeError:
        raise ValueError(f"the number of threads must be a whole number, not {n!r}") from None
    if not 1 <= whole <= MAX_THREADS:
        raise ValueError(f"at least one thread is needed, and at most {MAX_THREADS}, not {whole}")
    return whole


def threads() -> int:
    """The number of CPU threads that native code uses."""
    return _threads if _threads is not None else _of_environment() or cores()


def _of_environment() -> int | None:
    given = os.environ.get("KINETREE_THREADS", "").strip()
    if not given:
        return None
    try:
        if not given.isascii():
            raise ValueError("digits are 0 to 9")
        return _checked(int(given))
    except ValueError:
        warn_once(f"KINETREE_THREADS must be a whole number from 1 to {MAX_THREADS}, not {given!r}; all cores are used")
        return None


def cores() -> int:
    """The number of cores that this process may use."""
    have = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(have, MAX_THREADS)


def _after_fork() -> None:
    global changing
    changing = Lock()  # a thread that held it stayed in the parent
    if helper_count.value:
        helper_count.value = UNKNOWN


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

"""Checks of memory in advance: a result that can not fit raises a MemoryError, and does not kill the process."""

import math
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np

UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")
GROUP = Path("/sys/fs/cgroup")
SMALL = 1 << 28  # bytes; smaller results are not checked, as a check takes a tenth of a millisecond


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # "max" where there is no limit
        return None


def _of_system() -> int | None:
    """Bytes that this machine can still give out."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _of_group() -> int | None:
    """Bytes that are left to the process's control group, by which containers are limited: version 2, or 1."""
    for folder, limit, used in ((GROUP, "max", "current"), (GROUP / "memory", "limit_in_bytes", "usage_in_bytes")):
        most, now = (_number(folder / f"memory.{name}") for name in (limit, used))
        if most is not None and now is not None:
            return max(0, most - now + _cached_files(folder / "memory.stat"))
    return None


def _cached_files(path: Path) -> int:
    """Bytes of a group that hold copies of files, and can be freed at once."""
    try:
        facts = dict(line.split() for line in path.read_text().splitlines())
        return int(facts.get("total_inactive_file", facts.get("inactive_file", 0)))
    except (OSError, ValueError):
        return 0


def available_memory() -> int | None:
    """Bytes that results may take on JAX's default device; None if unknown."""
    if jax.default_backend() != "cpu":
        return (jax.devices()[0].memory_stats() or {}).get("bytes_limit")
    return min((x for x in (_of_system(), _of_group()) if x is not None), default=None)


def in_words(size: float) -> str:
    """A number of bytes as text."""
    power = min(len(UNITS) - 1, int(math.log(max(1, size), 1000)))
    return f"{size / 1000**power:.3g} {UNITS[power]}"


def require_memory(needed: int, what: str, instead: str) -> None:
    """Raise MemoryError if `what` needs more bytes than are free; `instead` says what to do."""
    if needed < SMALL:
        return
    available = available_memory()
    if available is not None and needed > available:
        raise MemoryError(f"{what} needs {in_words(needed)} of memory, and {in_words(available)} are left: {instead}")


def require_matrices(what: str, like: Any, rows: int, columns: int, *, copies: int, instead: str) -> None:
    """Check the memory for a matrix for each state of `like`, (batch, ...). Its shape is known under tracing, too.

    `copies` is the number of such matrices at a time, with intermediate ones; `instead` names a way without them.
    """
    batch = like.shape[0]
    needed = batch * rows * columns * np.dtype(like.dtype).itemsize * copies
    ways = f"use smaller batches, or {instead}" if batch > 1 else f"use {instead}"
    require_memory(needed, f"{what} ({batch:,} of {rows:,} × {columns:,})", ways)

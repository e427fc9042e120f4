"""The lane machine: programs over `[slot, lane]` memory, and the bodies that run them."""

from contextlib import suppress

from .cpu.threads import set_threads
from .native import native_enabled
from .program import xla
from .program.program import Lane, Loop, Memory, Program, Repeat, Slots
from .program.straight import written_out
from .program.woven import Woven, weave
from .run import run

with suppress(ImportError, OSError):  # llvmlite may be missing, or broken: whoever needs it says so
    from .cpu import compiled  # noqa: F401 - here, not in the middle of a first call
    from .cuda import driver  # noqa: F401

__all__ = [
    "Lane",
    "Loop",
    "Memory",
    "Program",
    "Repeat",
    "Slots",
    "Woven",
    "native_enabled",
    "run",
    "set_threads",
    "weave",
    "written_out",
    "xla",
]

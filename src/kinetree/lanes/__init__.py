"""The lane machine: programs over `[slot, lane]` memory, and the bodies that run them."""

from contextlib import suppress

from . import xla
from .native import native_enabled
from .program import Lane, Loop, Memory, Program, Repeat, Slots
from .run import run
from .straight import written_out
from .threads import set_threads
from .woven import Woven, weave

with suppress(ImportError, OSError):  # llvmlite may be missing, or broken: whoever needs it says so
    from . import cpu, cuda  # noqa: F401 - here, not in the middle of a first call

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

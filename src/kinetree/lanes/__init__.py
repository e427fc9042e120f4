"""The lane machine: programs over `[slot, lane]` memory, and the bodies that run them."""

from . import xla
from .native import native_enabled
from .program import Lane, Loop, Memory, Program, Slots
from .run import run
from .straight import written_out
from .threads import set_threads
from .woven import Woven, weave

__all__ = [
    "Lane",
    "Loop",
    "Memory",
    "Program",
    "Slots",
    "Woven",
    "native_enabled",
    "run",
    "set_threads",
    "weave",
    "written_out",
    "xla",
]

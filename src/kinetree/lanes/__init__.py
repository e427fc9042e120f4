"""The lane machine: programs over `[slot, lane]` memory, and the bodies that run them."""

from .cpu.threads import set_threads
from .ffi import native_enabled
from .primitive import run, run_slope
from .program import xla
from .program.program import NOTHING, NUMBER, Body, Lane, Loop, Memory, Program, Repeat, Slots, slot
from .program.straight import written_out
from .program.woven import Woven, weave
from .target import add_target

try:  # here, not in the middle of a first call
    from .cpu.target import CPU
    from .cuda.target import CUDA
except (ImportError, OSError) as _error:  # llvmlite is missing or broken; the code that needs it will say so
    add_target("cpu", _error)
    add_target("cuda", _error)
else:
    add_target("cpu", CPU)
    add_target("cuda", CUDA)

__all__ = [
    "NOTHING",
    "NUMBER",
    "Body",
    "Lane",
    "Loop",
    "Memory",
    "Program",
    "Repeat",
    "Slots",
    "Woven",
    "native_enabled",
    "run",
    "run_slope",
    "set_threads",
    "slot",
    "weave",
    "written_out",
    "xla",
]

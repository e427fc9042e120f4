"""The lane machine: programs over `[slot, lane]` memory, and the bodies that run them."""

from . import xla
from .program import Binding, Lane, Loop, Memory, Program, Slots, stack_constants
from .run import native_enabled, run

__all__ = ["Binding", "Lane", "Loop", "Memory", "Program", "Slots", "native_enabled", "run", "stack_constants", "xla"]

"""The lane machine: programs over `[slot, lane]` memory, and the bodies that run them."""

from .program import Binding, Lane, Loop, Memory, Program, Slots, stack_constants
from .run import run

__all__ = ["Binding", "Lane", "Loop", "Memory", "Program", "Slots", "run", "stack_constants"]

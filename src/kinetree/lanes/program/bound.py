"""What a compiled call of a lane program depends on."""

from typing import Any, NamedTuple

from .program import Program
from .woven import Woven


class Bound(NamedTuple):
    """A program, its number of slots, and the widths of its outputs.

    If there is a `woven` program, native code runs that one. If there is a program `written` out for one mechanism,
    GPUs run that one.
    """

    program: Program
    slots: int
    widths: tuple[int, ...]
    woven: Woven | None = None
    written: Program | None = None

    def split(self, arguments: Any) -> tuple[tuple, tuple, tuple, tuple]:
        """Tables, constants, inputs, and the remaining arguments."""
        n, m = len(self.program.loops), self.program.n_inputs
        a = tuple(arguments)
        return a[:n], a[n : 2 * n], a[2 * n : 2 * n + m], a[2 * n + m :]

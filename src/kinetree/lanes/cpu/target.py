"""The CPU as a target: lanes in vector registers, blocks of lanes on threads."""

from typing import Any

from ..target import Facts, Target
from .pairs import pairs_matrix
from .programs import compiled_program, run_program
from .threads import threads
from .walks import take_native_walk

MIN_ROWS_OF_WALKS = 1000  # rows, from which native walks are faster than XLA's loops (cpu/huge)
LANES_OF_THREAD = 32  # chunks a thread: a few blocks of lanes, so that threads end at about the same time (cpu/huge)


class Cpu(Target):
    """This machine's processor, x86 or ARM: LLVM knows its registers (host.py)."""

    facts = Facts("cpu", native=True, serves_numpy=True, written_out_min_states=1 << 12, level_cost=4)

    def run(self, program: Any, slots: int, widths: tuple, tables: tuple, constants: tuple, inputs: tuple) -> Any:
        """See Target."""
        return run_program(program, slots, widths, tables, constants, inputs)

    def walk(self, walk: Any, shape: Any, arrays: Any) -> list | None:
        """See Target."""
        return take_native_walk(walk, shape, arrays)

    def pairs(self, pairs: Any, arrays: Any) -> list | None:
        """See Target."""
        return pairs_matrix(pairs, arrays)

    def compiled(self, program: Any, dtype: str) -> Any:
        """See Target."""
        return compiled_program(program, dtype)

    def chunks(self, rows: int) -> int:
        """See Target."""
        return LANES_OF_THREAD * max(2, threads()) if rows >= MIN_ROWS_OF_WALKS else 0

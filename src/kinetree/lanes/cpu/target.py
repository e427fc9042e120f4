"""The CPU as a target: lanes in vector registers, blocks of lanes on threads."""

from typing import Any

from .. import tuning
from ..target import Facts, Target
from .pairs import pairs_matrix
from .programs import compiled_program, run_program
from .threads import threads
from .walks import take_native_walk


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
        return tuning.CHUNKS_OF_THREAD * max(2, threads()) if rows >= tuning.WALKS_MIN_ROWS else 0

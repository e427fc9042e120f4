"""An NVIDIA GPU as a target: a lane to a thread."""

from typing import Any

from .. import tuning
from ..target import Facts, Target
from .pairs import pairs_matrix
from .programs import run_program
from .walks import take_native_walk


class Cuda(Target):
    """All NVIDIA GPUs of the machine."""

    facts = Facts("gpu", native=True, weaves=True, written_out_min_states=1 << 14, level_cost=16)

    def run(self, program: Any, slots: int, widths: tuple, tables: tuple, constants: tuple, inputs: tuple) -> Any:
        """See Target."""
        return run_program(program, slots, widths, tables, constants, inputs)

    def walk(self, walk: Any, shape: Any, arrays: Any) -> list | None:
        """See Target."""
        return take_native_walk(walk, shape, arrays)

    def pairs(self, pairs: Any, arrays: Any) -> list | None:
        """See Target."""
        return pairs_matrix(pairs, arrays)

    def chunks(self, rows: int) -> int:
        """See Target."""
        return min(tuning.GPU_MAX_CHUNKS, -(-rows // tuning.GPU_CHUNK_ROWS))

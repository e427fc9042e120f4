"""The CPU as a target, x86 or ARM: lanes in vector registers, blocks of lanes on threads."""

from .. import tuning
from ..target import Facts, Target
from .pairs import pairs_matrix
from .programs import compiled_program, run_program
from .threads import threads
from .walks import take_native_walk


def chunks(rows: int) -> int:
    """Lanes that long paths are cut into."""
    return tuning.CHUNKS_OF_THREAD * max(2, threads()) if rows >= tuning.WALKS_MIN_ROWS else 0


CPU = Target(
    Facts(
        "cpu",
        native=True,
        serves_numpy=True,
        written_out_min_states=1 << 12,
        written_out_step_rows=tuning.CPU_WRITTEN_OUT_STEP_ROWS,
        level_cost=4,
    ),
    run_program,
    take_native_walk,
    pairs_matrix,
    chunks,
    compiled_program,
)

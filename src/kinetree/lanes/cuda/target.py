"""All NVIDIA GPUs of the machine as a target: a lane to a thread."""

from .. import tuning
from ..target import Facts, Target
from .pairs import pairs_matrix
from .programs import run_program
from .walks import take_native_walk


def chunks(rows: int) -> int:
    """Lanes that long paths are cut into."""
    return min(tuning.GPU_MAX_CHUNKS, -(-rows // tuning.GPU_CHUNK_ROWS))


CUDA = Target(
    Facts(
        "gpu",
        native=True,
        weaves=True,
        written_out_min_states=1 << 14,
        written_out_step_rows=tuning.GPU_WRITTEN_OUT_STEP_ROWS,
        sequence_rows=tuning.GPU_SEQUENCE_MAX_ROWS,
        level_cost=16,
    ),
    run_program,
    take_native_walk,
    pairs_matrix,
    chunks,
)

"""Lane programs on an NVIDIA GPU, behind an FFI target: the kernel of a program, its handler, and its calls."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import tuning
from ..kept.once import OncePerOwner
from ..llvm.handler import address, dimension, operands, results
from ..llvm.text import Text
from ..program.bound import Bound
from ..program.program import Program
from .driver import Made, begin_handler, chip, cuda_target, launch_values
from .exchange import threads_of_lane
from .ptx import Access, Assembly, local_slots, ptx, reach_of
from .sequence import sequence_ptx
from .tile import WARP, block_size, tile_bytes
from .transpose import by_rows


class Launch(NamedTuple):
    """How a kernel is launched: threads of a block and of a lane, and the shared memory of a block.

    All threads of a block leave a multiprocessor together. A large batch may have larger blocks than a small
    one, which must reach all multiprocessors.
    """

    block: int
    shared_of_column: int = 0  # bytes of shared memory for each column of inputs and outputs
    threads: int = 1  # to a lane
    large_block: int = 0  # threads of a block in a large batch; 0: as in a small one


def _handler(program: Program, launch: Launch, function: int) -> Text:
    """The handler, up to its end."""
    count = len(program.loops)
    to = begin_handler(2 * (program.n_inputs + program.n_outputs) + 3 * count + 3)
    given, made = operands(to), results(to)
    arrays = [(given, 2 * count + k) for k in range(program.n_inputs)] + [(made, k) for k in range(program.n_outputs)]
    pointers = [*arrays, *((given, count + k) for k in range(count)), *((given, k) for k in range(count))]
    lanes = dimension(to, given, 2 * count, 0)
    values = [("ptr", address(to, *place)) for place in pointers]
    values += [("i64", dimension(to, given, k, 0)) for k in range(count)]
    widths = [dimension(to, *place, 1) for place in arrays]
    values += [("i64", width) for width in widths]
    room = made, program.n_outputs
    values += [("i64", lanes), ("ptr", address(to, *room)), ("i64", dimension(to, *room, 1))]
    columns = "0"
    for width in widths:
        columns = to.op(f"add i64 {columns}, {width}")
    shared = to.op(f"mul i64 {columns}, {launch.shared_of_column}")
    threads = to.op(f"mul i64 {lanes}, {launch.threads}")
    block: int | str = launch.block
    if launch.large_block:
        many = to.op(f"icmp uge i64 {threads}, {tuning.GPU_CROWD_THREADS}")
        block = to.op(f"select i1 {many}, i64 {launch.large_block}, i64 {launch.block}")
    launch_values(to, values, threads, function, block, to.op(f"trunc i64 {shared} to i32"))
    return to


class ProgramKernel(NamedTuple):
    """The kernel of a program, and how it is launched, reads arrays, and keeps slots."""

    assembly: Assembly
    launch: Launch
    reach: Access = Access.ROWS
    global_scratch: bool = False


def program_kernel(
    program: Program, dtype: np.dtype, slots: int, widths: tuple[int, ...], near: int | None = None
) -> ProgramKernel:
    """The kernel for a robot with about this many slots, and these widths of inputs and outputs.

    Only the first `near` slots of a program that is written out are in fast memory; None means all.
    """
    if program.straight is not None and not program.even:
        assembly = sequence_ptx(program, slots, dtype, chip(), near)
        threads, large_block = threads_of_lane(assembly), tuning.GPU_BLOCK_THREADS
        return ProgramKernel(assembly, Launch(tuning.GPU_SEQUENCE_THREADS, threads=threads, large_block=large_block))
    reach, room = reach_of(program, widths, dtype.itemsize), local_slots(slots, dtype)
    launch = Launch(tuning.GPU_BLOCK_THREADS if program.simple else tuning.GPU_REPEAT_THREADS)
    if reach is Access.TILE:
        threads = block_size(sum(widths), dtype.itemsize)
        launch = Launch(threads, shared_of_column=tile_bytes(1, dtype.itemsize, threads))
    return ProgramKernel(ptx(program, dtype, room, chip(), reach), launch, reach, room == 0)


_targets: OncePerOwner[tuple[str, bool, bool] | None] = OncePerOwner()


def program_target(
    program: Program, dtype: str, slots: int, widths: tuple, near: int | None = None
) -> tuple[str, bool, bool] | None:
    """Name of the FFI target; true if it reads arrays by columns; true if slots lie in global memory.

    None if there is no target. `widths` are those of inputs and outputs. `near` is as for `program_kernel`.
    """

    def make() -> tuple[str, bool, bool] | None:
        kernels: list[ProgramKernel] = []

        def made() -> Made:
            kernels.append(program_kernel(program, np.dtype(dtype), slots, widths, near))
            assembly, launch, *_ = kernels[0]
            return assembly, partial(_handler, program, launch), "".join(f"_{n}" for n in launch)

        name = cuda_target(program.name, np.dtype(dtype), made)
        return None if name is None else (name, kernels[0].reach is Access.COLUMNS, kernels[0].global_scratch)

    return _targets.get(program, (dtype, slots, widths, near), make)


def run_program(bound: Bound, tables: tuple, constants: tuple, inputs: tuple) -> list | None:
    """Outputs of a program on traced arrays; None if there is no native body."""
    program, slots, widths, written = bound.program, bound.slots, bound.widths, bound.written
    lanes, dtype = inputs[0].shape[0], np.dtype(inputs[0].dtype)
    columns = (*(x.shape[1] for x in inputs), *widths)
    target, cold, last = None, 0, 0
    if written is not None and written.straight is not None:
        near = near_slots(slots, slots if written.straight.hot is None else written.straight.hot, dtype.itemsize)
        target = program_target(written, dtype.name, slots, columns, near)
        cold, last = 0 if near is None else slots - near, written.straight.by_columns
    if target is None:
        target, cold, last = program_target(program, dtype.name, slots, columns), 0, 0
    if target is None or lanes == 0:
        return None
    name, by_columns, in_global_memory = target
    layouts: dict[str, Any] = {}
    if by_columns or last:
        rows = 2 * len(tables) + (0 if by_columns else len(inputs) - last)
        layouts["input_layouts"] = [None] * rows + [(1, 0)] * (2 * len(tables) + len(inputs) - rows)
    if by_columns:
        layouts["output_layouts"] = [(1, 0)] * len(widths) + [None]

    def call(inputs: tuple) -> tuple:
        count = inputs[0].shape[0]
        wanted = [jax.ShapeDtypeStruct((count, w), dtype) for w in widths]
        room = (-(-count // WARP) * WARP, cold) if cold else (slots if in_global_memory else 1, count)
        wanted.append(jax.ShapeDtypeStruct(room, dtype))
        given = (*tables, *constants, *inputs)
        made = tuple(jax.ffi.ffi_call(name, tuple(wanted), **layouts)(*given, slots=np.int64(slots)))[: len(widths)]
        return tuple(map(by_rows, made)) if by_columns else made

    far = slots if in_global_memory else cold
    return list(in_slices(call, inputs, most_lanes(far * dtype.itemsize) if far else lanes))


def near_slots(slots: int, hot: int, itemsize: int) -> int | None:
    """How many slots of a written-out program are in fast memory: all (None), those that are not cold, or none."""
    most = tuning.GPU_SEQUENCE_MAX_BYTES // itemsize
    return None if slots <= most else hot if hot <= most else 0


def most_lanes(bytes_of_lane: int) -> int:
    """The number of lanes whose slots take a quarter of the device's memory."""
    memory = jax.devices()[0].memory_stats() or {}
    return max(1024, memory.get("bytes_limit", 1 << 34) // 4 // bytes_of_lane)


def in_slices(call: Callable[[tuple], tuple], inputs: tuple, most: int) -> tuple:
    """The results of `call` on (lanes, width) arrays, with at most `most` lanes in one launch."""
    lanes = inputs[0].shape[0]
    if lanes <= most:
        return call(inputs)
    count = -(-lanes // most)
    size = -(-lanes // count)

    def cut(x: Any) -> Any:
        return jnp.pad(x, ((0, count * size - lanes), (0, 0))).reshape(count, size, x.shape[1])

    results = jax.lax.map(call, tuple(map(cut, inputs)))
    return tuple(y.reshape(count * size, y.shape[2])[:lanes] for y in results)

"""A lane program as a CUDA kernel, one thread for each lane: the loops of kernel.py, with slots in local memory.

Lane arrays are (lanes, width). If a program is written out and its rows are short, each thread reads its own row; so do
threads of programs with repeats. Longer rows go through shared memory (tile.py). If they are too long for that, arrays
come by columns, so that the threads of a warp read side by side. Slots that do not fit in local memory go to a (slots,
lanes) array in global memory.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np

from .. import tuning
from ..kept.cache import entry_name, keep_cached, read_cached
from ..kept.once import once
from ..llvm.alone import Room
from ..llvm.emit import trace
from ..llvm.kernel import LoopWriter
from ..llvm.text import Text
from ..llvm.trigonometry import lane_module
from ..program.program import Program
from .tile import SHARED, Tile, block_size, tile_memory

GLOBAL = "ptr addrspace(1)"
LAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
ALIGNED = 128  # bytes: the alignment of XLA's arrays
ARGUMENT_BYTES = 8  # bytes of each argument of a kernel
MAX_ARGUMENTS_BYTES = 4096  # bytes of all arguments of a kernel, before version 8.1 of PTX (CUDA 12.1)
CHIPS = (90, 89, 86, 80)  # newer chips run the text of these; older ones have no asynchronous copy to shared memory


def global_thread(to: Text) -> tuple[str, str]:
    """The number of this thread in the grid, and in its block."""
    calls = [f"i32 @llvm.nvvm.read.ptx.sreg.{name}()" for name in ("tid.x", "ctaid.x", "ntid.x")]
    for call in calls:
        to.declare(call)
    thread, block, size = (to.op(f"zext i32 {to.op(f'call {call}')} to i64") for call in calls)
    return to.op(f"add i64 {to.op(f'mul i64 {block}, {size}')}, {thread}"), thread


class Access(Enum):
    """How a thread accesses the numbers of its lane."""

    ROWS = "rows"
    TILE = "tile"
    COLUMNS = "columns"


def reach_of(program: Program, widths: tuple[int, ...], itemsize: int) -> Access:
    """The fastest access for a program with inputs and outputs of these widths."""
    if not program.simple:
        # Each input is read once, slots are read often: shared memory would make the cache for slots smaller.
        return Access.ROWS
    inputs, outputs = sum(widths[: program.n_inputs]), sum(widths[program.n_inputs :])
    if program.straight and inputs <= tuning.INPUTS_IN_REGISTERS and outputs <= tuning.GPU_OUTPUTS_BY_ROWS:
        return Access.ROWS
    return Access.TILE if block_size(sum(widths), itemsize) else Access.COLUMNS


class CudaWriter(LoopWriter):
    """The loops of a kernel. Lane arrays lie by rows, or by columns; a subclass adds the places of slots."""

    def __init__(self, program: Program, jaxprs: list[Any], dtype: Any):
        super().__init__(program, jaxprs, 1, dtype)
        self.inputs = [f"in{k}" for k in range(program.n_inputs)]
        self.outputs = [f"out{k}" for k in range(program.n_outputs)]
        self.arrays = self.inputs + self.outputs
        self.widths = [f"%width{n}" for n in self.arrays]
        self.by_columns = range(0)  # the arrays that lie by columns
        self.lane = ""

    def begin(self) -> None:
        """Write the head of the kernel."""
        count = range(len(self.program.loops))
        names = self.arrays + [f"const{k}" for k in count] + [f"tab{k}" for k in count]
        arguments = [f"{GLOBAL} noalias align {ALIGNED} %{n}" for n in names]
        arguments += [f"i64 %turns{k}" for k in count] + [f"i64 %width{n}" for n in self.arrays]
        arguments += ["i64 %lanes", f"{GLOBAL} noalias %scratch", "i64 %room"]
        self.to.begin(f"ptx_kernel void @kernel({', '.join(arguments)})")

    def loops(self) -> None:
        """Write the whole program, from label `before0` to label `done`."""
        count = range(len(self.program.loops))
        constants, tables, turns = ([f"%{name}{k}" for k in count] for name in ("const", "tab", "turns"))
        self.body(constants, tables, turns, "done")
        self.to.label("done")

    def end(self) -> None:
        """Write the end of the kernel."""
        self.to.end()

    def _load(self, kind: str, base: str, index: str | int, extra: str = "") -> str:
        place = self.to.op(f"getelementptr {kind}, {GLOBAL} {base}, i64 {index}")
        return self.to.op(f"load {kind}, {GLOBAL} {place}{extra}")

    def constant(self, kind: str, base: str, index: str | int) -> str:
        """Through the read-only cache: the same for all threads."""
        return self._load(kind, base, index, ", !invariant.load !8")

    def pool(self, constants: str) -> Room:
        """Through the read-only cache."""
        return Room(self.to.scalar, constants, GLOBAL, ", !invariant.load !8", shared=True, fixed=True)

    def number_at(self, array: int, column: str) -> str:
        """The address of this lane's number in a column of an array."""
        to = self.to
        first, size, second = self.lane, self.widths[array], column
        if array in self.by_columns:
            first, size, second = column, "%lanes", self.lane
        place = to.op(f"add i64 {to.op(f'mul i64 {first}, {size}')}, {second}")
        return f"{GLOBAL} {to.op(f'getelementptr {to.scalar}, {GLOBAL} %{self.arrays[array]}, i64 {place}')}"

    def read_lane(self, array: int, column: str) -> str:
        """From this lane's row."""
        return self.to.op(f"load {self.to.scalar}, {self.number_at(array, column)}, !invariant.load !8")

    def write_lane(self, array: int, column: str, value: str) -> None:
        """To this lane's row."""
        self.to.do(f"store {self.to.scalar} {value}, {self.number_at(self.program.n_inputs + array, column)}")


class Kernel(CudaWriter):
    """One thread for each lane, with `slots` slots in local memory; if `slots` is 0, in a global array."""

    def __init__(self, program: Program, jaxprs: list[Any], dtype: Any, slots: int, reach: Access):
        super().__init__(program, jaxprs, dtype)
        to = self.to
        self.begin()
        self.lane, thread = global_thread(to)
        self.local = to.op(f"alloca [{slots} x {to.scalar}], align {self.size}") if slots else ""
        if program.straight:
            self.widths = [str(w) for w in program.straight.widths]
        self.by_columns = range(len(self.arrays) if reach is Access.COLUMNS else 0)
        self.tile = Tile(to, self.size, self.widths, thread, self.lane) if reach is Access.TILE else None
        if self.tile:
            self.tile.fetch([f"%{n}" for n in self.inputs])
        if self.tile and program.simple:
            to.go("before0")  # All threads go on. Threads without a lane compute too; their results are not used.
        else:
            to.branch(to.op(f"icmp slt i64 {self.lane}, %lanes"), "before0", "done")
        self.loops()
        if self.tile:
            self.tile.give_back([f"%{n}" for n in self.outputs])
        self.end()

    def _slot(self, number: str) -> tuple[str, str]:
        to = self.to
        if self.local:
            return "ptr", to.op(f"getelementptr {to.scalar}, ptr {self.local}, i64 {number}")
        place = to.op(f"add i64 {to.op(f'mul i64 {number}, %lanes')}, {self.lane}")  # neighbours side by side
        return GLOBAL, to.op(f"getelementptr {to.scalar}, {GLOBAL} %scratch, i64 {place}")

    def read_slot(self, number: str) -> str:
        """From local or global memory."""
        space, place = self._slot(number)
        return self.to.op(f"load {self.to.scalar}, {space} {place}")

    def write_slot(self, number: str, value: str) -> None:
        """To local or global memory."""
        space, place = self._slot(number)
        self.to.do(f"store {self.to.scalar} {value}, {space} {place}")

    def number_at(self, array: int, column: str) -> str:
        """The address of this lane's number in a column of an array."""
        return f"{SHARED} {self.tile.cell(array, column)}" if self.tile else super().number_at(array, column)

    def read_lane(self, array: int, column: str) -> str:
        """From this lane's row."""
        if self.tile:  # volatile: else it would stay in a register from its first use to its last
            return self.to.op(f"load volatile {self.to.scalar}, {self.number_at(array, column)}")
        return super().read_lane(array, column)


def kernel_text(program: Program, dtype: Any, slots: int, reach: Access = Access.TILE) -> str:
    """The whole LLVM module of the kernel."""
    jaxprs = [trace(loop, dtype) for loop in program.loops]
    kernel = Kernel(program, jaxprs, dtype, slots, reach)
    return gpu_module(*([tile_memory(kernel.to.scalar)] if kernel.tile else []), kernel.text())


def gpu_module(*parts: str) -> str:
    """A whole module for NVIDIA chips."""
    head = f'target triple = "nvptx64-nvidia-cuda"\ntarget datalayout = "{LAYOUT}"'
    return head + "\n" + lane_module(*parts)


@once
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


class Assembly(NamedTuple):
    """PTX, under the name that its content gives it."""

    name: str
    text: str


def ptx(program: Program, dtype: Any, slots: int, chip: int = 90, reach: Access = Access.TILE) -> Assembly:
    """PTX of a program for chips of this compute capability and newer."""
    kind = np.dtype(dtype)
    passes = 3 if program.straight else 0  # in loops they gain nothing, and take a sixth of a first call
    made_from = (program, slots, reach.value)
    return assembled(program.name, made_from, kind, chip, lambda: kernel_text(program, kind, slots, reach), passes)


def assembled(
    name: str, made_from: Any, dtype: np.dtype, chip: int, text: Callable[[], str], passes: int = 3
) -> Assembly:
    """PTX of a module, from the cache if it is there. `passes` is LLVM's level of optimisation."""
    known = next(c for c in CHIPS if c <= max(chip, CHIPS[-1]))
    full_name = entry_name(name, made_from, dtype, f"ptx {known}", text)
    if (kept := read_cached(full_name)) is not None:
        return Assembly(full_name, kept.decode())
    made = _assemble(text(), known, passes)
    keep_cached(full_name, made.encode())
    return Assembly(full_name, made)


def features_for(text: str) -> str:
    """Features for LLVM: a kernel with very many loops has more arguments than older versions of PTX allow."""
    head = next(line for line in text.splitlines() if "ptx_kernel" in line)
    return "+ptx81" if ARGUMENT_BYTES * (head.count(",") + 1) > MAX_ARGUMENTS_BYTES else ""


def _assemble(text: str, known: int, passes: int) -> str:
    _initialize()
    module = llvm.parse_assembly(text)
    module.verify()
    target, features = llvm.Target.from_triple("nvptx64-nvidia-cuda"), features_for(text)
    plain = text.count("\n") >= tuning.GPU_PLAIN_MIN_LINES
    machine = target.create_target_machine(cpu=f"sm_{known}", features=features, opt=2 if plain else 3)
    options = llvm.create_pipeline_tuning_options(speed_level=0 if plain else passes)
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return machine.emit_assembly(module)


def local_slots(slots: int, dtype: Any) -> int:
    """Slots to compile for: rounded up, so that robots of similar size share a kernel; 0 means global memory."""
    step = max(tuning.GPU_MIN_ROOM, 1 << max(0, slots.bit_length() - 3))  # an eighth to a quarter of the slots
    room = -(-max(slots, 1) // step) * step
    return room if room * np.dtype(dtype).itemsize <= tuning.GPU_LOCAL_MAX_BYTES else 0

"""A lane program as a CUDA kernel, a lane to a thread: the loops of kernel.py, with slots in the thread's local memory.

Lane arrays are (width, lanes) here, so that the threads of a warp read neighbours. Slots that do not fit in local
memory go to a (slots, lanes) array in global memory.
"""

from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from .emit import trace
from .kernel import LoopWriter
from .program import Program
from .trigonometry import far_reduction

GLOBAL = "ptr addrspace(1)"
LAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
LOCAL_BYTES = 1 << 15  # of slots, a thread, before they move to global memory
CHIPS = (90, 89, 86, 80, 75, 70)  # newer chips run the text of these


class Kernel(LoopWriter):
    """The kernel, with room for `slots` in local memory, or in a global array where slots is 0."""

    def __init__(self, program: Program, jaxprs: list[Any], dtype: Any, slots: int):
        super().__init__(program, jaxprs, 1, dtype)
        to, count = self.to, range(len(program.loops))
        names = [f"in{k}" for k in range(program.n_inputs)] + [f"out{k}" for k in range(program.n_outputs)]
        names += [f"const{k}" for k in count] + [f"tab{k}" for k in count]
        arguments = [f"{GLOBAL} noalias %{n}" for n in names]
        arguments += [f"i64 %turns{k}" for k in count] + ["i64 %lanes", f"{GLOBAL} noalias %scratch"]
        to.lines.append(f"define ptx_kernel void @kernel({', '.join(arguments)}) {{")
        to.label("entry")
        registers = {r: f"i32 @llvm.nvvm.read.ptx.sreg.{r}()" for r in ("tid.x", "ctaid.x", "ntid.x")}
        for r in registers.values():
            to.declare(r)
        thread, block, size = (to.op(f"zext i32 {to.op(f'call {r}')} to i64") for r in registers.values())
        self.lane = to.op(f"add i64 {to.op(f'mul i64 {block}, {size}')}, {thread}")
        self.local = to.op(f"alloca [{slots} x {to.scalar}], align {self.size}") if slots else ""
        to.branch(to.op(f"icmp slt i64 {self.lane}, %lanes"), "before0", "done")
        for k in count:
            after = f"before{k + 1}" if k + 1 < len(count) else "done"
            self.loop(k, f"%const{k}", f"%tab{k}", f"%turns{k}", after)
        to.label("done")
        to.do("ret void")
        to.lines.append("}")

    def _load(self, kind: str, base: str, index: str | int, extra: str = "") -> str:
        place = self.to.op(f"getelementptr {kind}, {GLOBAL} {base}, i64 {index}")
        return self.to.op(f"load {kind}, {GLOBAL} {place}{extra}")

    def constant(self, kind: str, base: str, index: str | int) -> str:
        """Through the read-only cache: the same for all threads."""
        return self._load(kind, base, index, ", !invariant.load !8")

    def _of_lane(self, column: str) -> str:
        return self.to.op(f"add i64 {self.to.op(f'mul i64 {column}, %lanes')}, {self.lane}")

    def _slot(self, number: str) -> tuple[str, str]:
        to = self.to
        if self.local:
            return "ptr", to.op(f"getelementptr {to.scalar}, ptr {self.local}, i64 {number}")
        return GLOBAL, to.op(f"getelementptr {to.scalar}, {GLOBAL} %scratch, i64 {self._of_lane(number)}")

    def read_slot(self, number: str) -> str:
        """From local or global memory."""
        space, place = self._slot(number)
        return self.to.op(f"load {self.to.scalar}, {space} {place}")

    def write_slot(self, number: str, value: str) -> None:
        """To local or global memory."""
        space, place = self._slot(number)
        self.to.do(f"store {self.to.scalar} {value}, {space} {place}")

    def read_lane(self, array: int, column: str) -> str:
        """Neighbouring threads read neighbouring numbers."""
        return self._load(self.to.scalar, f"%in{array}", self._of_lane(column), ", !invariant.load !8")

    def write_lane(self, array: int, column: str, value: str) -> None:
        """Neighbouring threads write neighbouring numbers."""
        scalar = self.to.scalar
        place = self.to.op(f"getelementptr {scalar}, {GLOBAL} %out{array}, i64 {self._of_lane(column)}")
        self.to.do(f"store {scalar} {value}, {GLOBAL} {place}")


def kernel_text(program: Program, dtype: Any, slots: int) -> str:
    """The whole LLVM module of the kernel."""
    jaxprs = [trace(loop, dtype) for loop in program.loops]
    body = Kernel(program, jaxprs, dtype, slots).text()
    head = f'target triple = "nvptx64-nvidia-cuda"\ntarget datalayout = "{LAYOUT}"\n'
    lines = list(
        dict.fromkeys(line for line in (far_reduction() + "\n" + body).splitlines() if line.startswith("declare"))
    )
    rest = [line for line in (far_reduction() + "\n" + body).splitlines() if not line.startswith("declare")]
    weights = '!8 = !{}\n!9 = !{!"branch_weights", i32 1, i32 100000}\n'
    return head + "\n".join(lines + rest) + "\n" + weights


@cache
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def ptx(program: Program, dtype: Any, slots: int, chip: int = 90) -> str:
    """PTX of a program for chips of this compute capability and newer."""
    _initialize()
    module = llvm.parse_assembly(kernel_text(program, np.dtype(dtype), slots))
    module.verify()
    known = next(c for c in CHIPS if c <= max(chip, CHIPS[-1]))
    machine = llvm.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(cpu=f"sm_{known}", opt=3)
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    tuning.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return machine.emit_assembly(module)


def local_slots(slots: int, dtype: Any) -> int:
    """Room to compile for: rounded up, so that robots of about one size share a kernel; 0 means global memory."""
    step = max(64, 1 << (max(slots, 1).bit_length() - 3))
    room = -(-slots // step) * step
    return room if room * np.dtype(dtype).itemsize <= LOCAL_BYTES else 0

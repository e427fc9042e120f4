"""Native bodies of walks: machine code for this CPU, a kernel for a GPU, each behind an XLA handler.

Both handlers are given the arrays in the order of text.py, and as attributes the numbers of turns and lanes and,
on a CPU, how many lanes a thread takes at a time.
"""

from functools import partial
from typing import Any

import jax
import numpy as np

from ..cpu.host import cpu_target, vector_width
from ..cuda.ptx import gpu_module
from ..kept.once import once
from ..llvm.handler import LANES, MEMORY, POINTERS, SCRATCH, addresses, arrays_handler, attribute, task_text
from ..llvm.text import Text, module_of
from ..llvm.trigonometry import far_reduction
from .text import CpuWalk, PtxWalk, WalkText, traced
from .walk import Shape, Walk, shapes

TURNS = SCRATCH  # in a task's record: walks have no scratch, programs no turns of their own
TASKS_OF_ALL = 64  # as many as a large machine shares well


def _arguments(to: Text) -> str:
    turns, lanes = (to.load("i64", "%job", o) for o in (TURNS, LANES))
    return f"ptr {to.at('%job', POINTERS)}, i64 {turns}, i64 {lanes}"


def _keep_turns(to: Text, job: str) -> None:
    to.store("i64", attribute(to, 2), job, TURNS)


def cpu_text(walk: Walk, dtype: np.dtype, width: int) -> str:
    """The whole module: for vectors, for scalars, and the handler."""
    closed = traced(walk, dtype)
    functions = [CpuWalk(walk, closed, w, dtype, name) for w, name in ((width, "lanes"), (1, "lane"))]
    task, handler = task_text(width, _arguments), arrays_handler(*_counts(functions[0]), _keep_turns)
    return module_of(far_reduction(), MEMORY, *(f.text() for f in functions), str(task), str(handler))


def _counts(text: WalkText) -> tuple[int, int]:
    return text.starts[5], text.starts[7] - text.starts[5]


@once
def _cpu_target(walk: Walk, dtype: str) -> str | None:
    return cpu_target(walk.name, walk, dtype, partial(cpu_text, walk))


def gpu_text(walk: Walk, dtype: np.dtype) -> str:
    """The whole module of the kernel."""
    return gpu_module(PtxWalk(walk, traced(walk, dtype), dtype).text())


@once
def _cuda_target(walk: Walk, dtype: str) -> str | None:
    from ..cuda.driver import begin_handler, cuda_target, launch_values

    kind, n = np.dtype(dtype), walk.state.num_leaves
    inputs, outputs = n + walk.sources + 1 + len(walk.widths) + walk.gathered.num_leaves, n + walk.outputs

    def launch(function: int) -> Text:
        to = begin_handler(inputs + outputs + 2)
        lanes, turns = (attribute(to, k) for k in (1, 2))
        values = [("ptr", a) for a in addresses(to, inputs, outputs)]
        launch_values(to, [*values, ("i64", turns), ("i64", lanes)], lanes, function)
        return to

    return cuda_target(walk.name, walk, kind, lambda: gpu_text(walk, kind), launch)


def _call(name: str, walk: Walk, shape: Shape, arrays: Any) -> list:
    wanted = tuple(jax.ShapeDtypeStruct(s, arrays[0].dtype) for s in shapes(walk, shape))
    block = vector_width(np.dtype(arrays[0].dtype))
    grain = np.int64(max(1, -(-shape.lanes // TASKS_OF_ALL // block)) * block)
    numbers = {"a_grain": grain, "b_lanes": np.int64(shape.lanes), "c_turns": np.int64(shape.turns)}
    return list(jax.ffi.ffi_call(name, wanted)(*arrays, **numbers))


def on_cpu(walk: Walk, shape: Shape, arrays: Any) -> list | None:
    """Results on traced arrays, or None where there is no native body."""
    name = _cpu_target(walk, np.dtype(arrays[0].dtype).name)
    return None if name is None else _call(name, walk, shape, arrays)


def on_cuda(walk: Walk, shape: Shape, arrays: Any) -> list | None:
    """Results on traced arrays, or None where there is no native body."""
    name = _cuda_target(walk, np.dtype(arrays[0].dtype).name)
    return None if name is None else _call(name, walk, shape, arrays)

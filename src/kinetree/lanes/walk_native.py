"""Native bodies of walks: machine code for this CPU, a kernel for a GPU, each behind an XLA handler.

Both handlers are given the arrays in the order of walk_text.py, and as attributes the numbers of turns and lanes and,
on a CPU, how many lanes a thread takes at a time.
"""

from functools import cache
from typing import Any

import jax
import numpy as np

from .emit import UnknownPrimitive
from .handler import (
    LANES,
    POINTERS,
    SCRATCH,
    address,
    attribute,
    new_record,
    open_handler,
    operands,
    results,
    share,
    supported,
    task_text,
)
from .host import loaded, vector_width
from .native import DTYPES, native_enabled, register
from .ptx import gpu_module
from .text import Text, module_of
from .trigonometry import far_reduction
from .walk import Shape, Walk, shapes
from .walk_text import CpuWalk, PtxWalk, WalkText, traced

TURNS = SCRATCH  # in a task's record: walks have no scratch, programs no turns of their own
TASKS_OF_ALL = 64  # as many as a large machine shares well


def _addresses(to: Text, inputs: int, outputs: int) -> list[str]:
    given, made = operands(to), results(to)
    return [address(to, given, k) for k in range(inputs)] + [address(to, made, k) for k in range(outputs)]


def _arguments(to: Text) -> str:
    turns, lanes = (to.load("i64", "%job", o) for o in (TURNS, LANES))
    return f"ptr {to.at('%job', POINTERS)}, i64 {turns}, i64 {lanes}"


def _cpu_handler(inputs: int, outputs: int) -> Text:
    to = open_handler()
    grain, lanes, turns = (attribute(to, k) for k in range(3))
    job, parts = new_record(to, POINTERS + 8 * (inputs + outputs), lanes, grain)
    to.store("i64", turns, job, TURNS)
    for k, array in enumerate(_addresses(to, inputs, outputs)):
        to.store("ptr", array, job, POINTERS + 8 * k)
    share(to, job, parts)
    to.lines.append("}")
    return to


def cpu_text(walk: Walk, dtype: np.dtype, width: int) -> str:
    """The whole module: for vectors, for scalars, and the handler."""
    closed = traced(walk, dtype)
    functions = [CpuWalk(walk, closed, w, dtype, name) for w, name in ((width, "lanes"), (1, "lane"))]
    declarations = "declare ptr @aligned_alloc(i64, i64)\ndeclare void @free(ptr)"
    handler = _cpu_handler(*_counts(functions[0]))
    return module_of(
        far_reduction(), declarations, *(f.text() for f in functions), str(task_text(width, _arguments)), str(handler)
    )


def _counts(text: WalkText) -> tuple[int, int]:
    return text.starts[5], text.starts[7] - text.starts[5]


_engines: list[Any] = []  # of all handlers: they live as long as the process


@cache
def _cpu_target(walk: Walk, dtype: str) -> str | None:
    if not native_enabled() or dtype not in DTYPES or not supported():
        return None
    kind = np.dtype(dtype)
    try:
        engine, _ = loaded(walk.name, walk.signature, kind, lambda: cpu_text(walk, kind, vector_width(kind)))
    except (UnknownPrimitive, RuntimeError):
        return None
    _engines.append(engine)
    return register(f"kinetree_{walk.name}_{id(walk)}_{dtype}", engine.get_function_address("handler"), "cpu")


def gpu_text(walk: Walk, dtype: np.dtype) -> str:
    """The whole module of the kernel."""
    return gpu_module(PtxWalk(walk, traced(walk, dtype), dtype).text())


@cache
def _cuda_target(walk: Walk, dtype: str) -> str | None:
    from .cuda import begin_handler, cuda_target, launch_values

    kind, n = np.dtype(dtype), walk.state.num_leaves
    inputs, outputs = n + walk.sources + 1 + len(walk.widths) + walk.gathered.num_leaves, n + walk.outputs

    def launch(function: int) -> Text:
        to = begin_handler(inputs + outputs + 2)
        lanes, turns = (attribute(to, k) for k in (1, 2))
        values = [("ptr", a) for a in _addresses(to, inputs, outputs)]
        launch_values(to, [*values, ("i64", turns), ("i64", lanes)], lanes, function)
        return to

    return cuda_target(walk.name, walk.signature, kind, lambda: gpu_text(walk, kind), launch)


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

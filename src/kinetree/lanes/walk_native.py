"""Native bodies of walks: machine code for this CPU, a kernel for a GPU, each behind an XLA handler.

Both handlers are given the arrays in the order of walk_text.py, and as attributes the numbers of turns and lanes and,
on a CPU, how many lanes a thread takes at a time.
"""

from functools import cache
from typing import Any

import jax
import numpy as np

from .cpu import loaded, vector_width
from .emit import UnknownPrimitive
from .handler import COUNTER, DONE, GRAIN, LANES, POINTERS, TASKS, answer_metadata, release, share, supported
from .native import DTYPES, native_enabled, register
from .ptx import assembled, gpu_module
from .text import Text, module_of
from .trigonometry import far_reduction
from .walk import Shape, Walk, shapes
from .walk_text import CpuWalk, PtxWalk, WalkText, traced

TURNS = GRAIN + 8  # in a task's record, where programs have the size of their scratch
TASKS_OF_ALL = 64  # as many as a large machine shares well


def _attribute(to: Text, k: int) -> str:
    """The k-th attribute of the call, in alphabetical order."""
    attributes = to.load("ptr", "%frame", 160)
    return to.load("i64", to.load("ptr", to.load("ptr", attributes, 8 * k), 8))


def _array(to: Text, list_: str, k: int) -> str:
    return to.load("ptr", to.load("ptr", list_, 8 * k), 24)


def _arrays(to: Text, inputs: int, outputs: int) -> list[str]:
    arguments, results = to.load("ptr", "%frame", 72), to.load("ptr", "%frame", 112)
    return [_array(to, arguments, k) for k in range(inputs)] + [_array(to, results, k) for k in range(outputs)]


def _task(width: int) -> Text:
    """Take parts until none is left; the last one to leave frees the record."""
    to = Text("t")
    to.lines.append("define internal void @task(ptr %job) {")
    to.label("entry")
    tasks, lanes, grain, turns = (to.load("i64", "%job", o) for o in (TASKS, LANES, GRAIN, TURNS))
    to.go("take")
    to.label("take")
    part = to.op(f"atomicrmw add ptr {to.at('%job', COUNTER)}, i64 1 monotonic")
    to.branch(to.op(f"icmp slt i64 {part}, {tasks}"), "work", "leave")
    to.label("work")
    lo = to.op(f"mul i64 {part}, {grain}")
    # the last part also takes what is left over, so that every part is at least a block
    final = to.op(f"icmp eq i64 {to.op(f'add i64 {part}, 1')}, {tasks}")
    hi = to.op(f"select i1 {final}, i64 {lanes}, i64 {to.op(f'add i64 {lo}, {grain}')}")
    few = to.op(f"icmp slt i64 {to.op(f'sub i64 {hi}, {lo}')}, {width}")
    to.branch(few, "single", "block")
    for label, name in (("single", "lane"), ("block", "lanes")):
        to.label(label)
        to.do(f"call void @{name}(ptr {to.at('%job', POINTERS)}, i64 {turns}, i64 {lanes}, i64 {lo}, i64 {hi})")
        to.go("finished")
    to.label("finished")
    to.op(f"atomicrmw add ptr {to.at('%job', DONE)}, i64 1 release")
    to.go("take")
    to.label("leave")
    release(to, "%job", "out")
    to.label("out")
    to.do("ret void")
    to.lines.append("}")
    return to


def _cpu_handler(inputs: int, outputs: int) -> Text:
    to = Text("h")
    to.lines.append("define ptr @handler(ptr %frame) {")
    to.label("entry")
    for name, size in (("threads", 1), ("ask", 4), ("order", 5)):
        to.do(f"%{name} = alloca [{size} x i64]")
    answer_metadata(to, traits=0)
    size = (POINTERS + 8 * (inputs + outputs) + 63) // 64 * 64
    job = to.op(f"call ptr @aligned_alloc(i64 64, i64 {size})")
    grain, lanes, turns = (_attribute(to, k) for k in range(3))
    parts = to.op(f"sdiv i64 {lanes}, {grain}")
    parts = to.op(f"select i1 {to.op(f'icmp slt i64 {parts}, 1')}, i64 1, i64 {parts}")
    fields = ((0, COUNTER), (0, DONE), (parts, TASKS), (lanes, LANES), (grain, GRAIN), (turns, TURNS))
    for value, offset in fields:
        to.store("i64", value, job, offset)
    for k, array in enumerate(_arrays(to, inputs, outputs)):
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
    return module_of(far_reduction(), declarations, *(f.text() for f in functions), str(_task(width)), str(handler))


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
    if not native_enabled() or dtype not in DTYPES or not supported():
        return None
    from .cuda import CudaError, begin_handler, chip, compiled_handler, launch_values, load_kernel

    kind = np.dtype(dtype)
    try:
        function = load_kernel(assembled(walk.name, walk.signature, kind, chip(), lambda: gpu_text(walk, kind)))
    except (CudaError, UnknownPrimitive, OSError, RuntimeError):
        return None
    n = walk.state.num_leaves
    inputs = n + walk.sources + 1 + len(walk.widths) + walk.gathered.num_leaves
    outputs = n + walk.outputs
    to = begin_handler(inputs + outputs + 2)
    lanes, turns = (_attribute(to, k) for k in (1, 2))
    values = [("ptr", a) for a in _arrays(to, inputs, outputs)]
    launch_values(to, [*values, ("i64", turns), ("i64", lanes)], lanes, function)
    to.lines.append("}")
    engine, handler = compiled_handler(str(to))
    _engines.append(engine)
    return register(f"kinetree_{walk.name}_{id(walk)}_{dtype}_cuda", handler, "CUDA")


def _call(name: str, walk: Walk, shape: Shape, arrays: Any) -> list:
    results = tuple(jax.ShapeDtypeStruct(s, arrays[0].dtype) for s in shapes(walk, shape))
    block = vector_width(np.dtype(arrays[0].dtype))
    grain = np.int64(max(1, -(-shape.lanes // TASKS_OF_ALL // block)) * block)
    numbers = {"a_grain": grain, "b_lanes": np.int64(shape.lanes), "c_turns": np.int64(shape.turns)}
    return list(jax.ffi.ffi_call(name, results)(*arrays, **numbers))


def on_cpu(walk: Walk, shape: Shape, arrays: Any) -> list | None:
    """Results on traced arrays, or None where there is no native body."""
    name = _cpu_target(walk, np.dtype(arrays[0].dtype).name)
    return None if name is None else _call(name, walk, shape, arrays)


def on_cuda(walk: Walk, shape: Shape, arrays: Any) -> list | None:
    """Results on traced arrays, or None where there is no native body."""
    name = _cuda_target(walk, np.dtype(arrays[0].dtype).name)
    return None if name is None else _call(name, walk, shape, arrays)

"""Where a lane program runs natively: compiled code for this CPU, an FFI target of it, a kernel of it on a GPU.

Each is made once and kept. Where one can not be had (a step with an unknown primitive, no llvmlite, a JAX whose FFI is
another), the XLA body serves, with the same result.
"""

import ctypes
import os
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .emit import UnknownPrimitive
from .handler import supported
from .program import Program

DTYPES = ("float32", "float64")


def native_enabled() -> bool:
    """Whether native bodies may be used at all: KINETREE_NATIVE=0 switches them off."""
    return os.environ.get("KINETREE_NATIVE") != "0"


@cache
def native(program: Program, dtype: str) -> Any:
    """The compiled program, or None where the native body can not serve."""
    if not native_enabled() or dtype not in DTYPES:
        return None
    try:
        from .cpu import compiled

        return compiled(program, dtype)
    except (UnknownPrimitive, ImportError, RuntimeError):
        return None  # a step with an unknown primitive, no llvmlite, or a host that LLVM does not know


def register(name: str, handler: int, platform: str) -> str:
    """Make a handler known to XLA under a name; returns the name."""
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    jax.ffi.register_ffi_target(name, capsule(handler, None, None), platform=platform)
    return name


@cache
def _cpu_target(program: Program, dtype: str) -> str | None:
    """Name of the program's FFI target for CPUs, registered once; None where it can not be."""
    compiled = native(program, dtype) if supported() else None
    if compiled is None:
        return None
    return register(f"kinetree_{program.name}_{id(program)}_{dtype}", compiled.handler, "cpu")


@cache
def _cuda_target(program: Program, dtype: str, slots: int, widths: tuple) -> tuple[str, bool, bool] | None:
    """Name of the FFI target for NVIDIA GPUs, whether it wants arrays by columns, and slots in global memory.

    None where there is none. `widths` are those of inputs and outputs.
    """
    if not native_enabled() or dtype not in DTYPES or not supported():
        return None
    try:
        from .cuda import CudaError, Reach, cuda_kernel
    except (ImportError, OSError):
        return None
    try:
        kernel = cuda_kernel(program, dtype, slots, widths)
    except (CudaError, UnknownPrimitive, OSError, RuntimeError):
        return None
    name = f"kinetree_{program.name}_{id(program)}_{dtype}_{slots}_{'_'.join(map(str, widths))}_cuda"
    return register(name, kernel.handler, "CUDA"), kernel.reach is Reach.COLUMNS, kernel.global_scratch


def _by_ffi(name: str, slots: int, results: list, data: tuple, **layouts: Any) -> Any:
    return jax.ffi.ffi_call(name, tuple(results), **layouts)(*data, slots=np.int64(slots))


def _results(widths: tuple, inputs: tuple) -> list:
    return [jax.ShapeDtypeStruct((inputs[0].shape[0], w), inputs[0].dtype) for w in widths]


def on_cpu(program: Program, slots: int, widths: tuple, tables: tuple, constants: tuple, inputs: tuple) -> tuple | None:
    """Outputs of a program on traced arrays, on a CPU; None where there is no native body."""
    name = _cpu_target(program, np.dtype(inputs[0].dtype).name)
    if name is None or inputs[0].shape[0] == 0:
        return None
    return tuple(_by_ffi(name, slots, _results(widths, inputs), (*tables, *constants, *inputs)))


def on_cuda(
    program: Program, slots: int, widths: tuple, tables: tuple, constants: tuple, inputs: tuple
) -> tuple | None:
    """Outputs of a program on traced arrays, on an NVIDIA GPU; None where there is no native body."""
    lanes, dtype = inputs[0].shape[0], inputs[0].dtype
    target = _cuda_target(program, np.dtype(dtype).name, slots, (*(x.shape[1] for x in inputs), *widths))
    if target is None or lanes == 0:
        return None
    name, by_columns, in_global_memory = target
    layouts: dict[str, Any] = {}
    if by_columns:
        layouts["input_layouts"] = [None] * (2 * len(tables)) + [(1, 0)] * len(inputs)
        layouts["output_layouts"] = [(1, 0)] * len(widths) + [None]

    def call(inputs: tuple) -> tuple:
        scratch = jax.ShapeDtypeStruct((slots if in_global_memory else 1, inputs[0].shape[0]), dtype)
        results = [*_results(widths, inputs), scratch]
        return tuple(_by_ffi(name, slots, results, (*tables, *constants, *inputs), **layouts))[: len(widths)]

    return in_slices(call, inputs, most_lanes(slots * np.dtype(dtype).itemsize) if in_global_memory else lanes)


def most_lanes(bytes_of_lane: int) -> int:
    """Lanes whose slots take a quarter of the device's memory."""
    memory = jax.devices()[0].memory_stats() or {}
    return max(1024, memory.get("bytes_limit", 1 << 34) // 4 // bytes_of_lane)


def in_slices(call: Callable[[tuple], tuple], inputs: tuple, most: int) -> tuple:
    """The results of `call` on (lanes, width) arrays, on no more than so many lanes at a time."""
    lanes = inputs[0].shape[0]
    if lanes <= most:
        return call(inputs)
    count = -(-lanes // most)
    size = -(-lanes // count)

    def cut(x: Any) -> Any:
        return jnp.pad(x, ((0, count * size - lanes), (0, 0))).reshape(count, size, x.shape[1])

    results = jax.lax.map(call, tuple(map(cut, inputs)))
    return tuple(y.reshape(count * size, y.shape[2])[:lanes] for y in results)

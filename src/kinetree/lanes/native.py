"""Where a lane program runs natively: compiled code for this CPU, an FFI target of it, a kernel of it on a GPU.

Each is made once and kept. Where one can not be had (a step with an unknown primitive, no llvmlite, a JAX whose FFI is
another), the XLA body serves, with the same result.
"""

import ctypes
import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .kept.notice import warn_not_native
from .kept.once import Once, OncePerOwner, immortal
from .llvm import handler
from .llvm.emit import UnknownPrimitive
from .program.program import Program

DTYPES = ("float32", "float64")


def native_enabled() -> bool:
    """Whether native bodies may be used at all: KINETREE_NATIVE=0 switches them off."""
    return os.environ.get("KINETREE_NATIVE") != "0"


def supported() -> bool:
    """Whether the JAX at hand can call native code; says so if it can not."""
    if handler.supported():
        return True
    known = " and ".join(".".join(map(str, v)) for v in handler.VERSIONS)
    spoken = ".".join(map(str, handler.version())) or "unknown"
    warn_not_native("everything inside jit", f"this JAX has version {spoken} of XLA's FFI, and {known} are known")
    return False


_compiled: OncePerOwner[Any] = OncePerOwner()  # by program


def native(program: Program, dtype: str) -> Any:
    """The compiled program, or None where the native body can not serve. It lives as long as the program."""
    return _compiled.get(program, dtype, lambda: _native(program, dtype))


def _native(program: Program, dtype: str) -> Any:
    if not native_enabled() or dtype not in DTYPES:
        return None
    try:
        from .cpu.compiled import CompiledProgram

        return CompiledProgram(program, dtype)
    except (UnknownPrimitive, ImportError, OSError, RuntimeError) as error:
        # a step with an unknown primitive, no llvmlite, or a host that LLVM does not know
        warn_not_native(program.name, error)
        return None


_registered: Once[str] = Once()


def register(name: str, handler: int, platform: str, owner: Any) -> str:
    """Make a handler known to XLA under the name of its content, once; returns the name of the target.

    XLA never forgets a handler, so its `owner` lives as long as the process.
    """

    def tell() -> str:
        capsule = ctypes.pythonapi.PyCapsule_New
        capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        immortal(owner)
        target = f"kinetree_{name}"
        jax.ffi.register_ffi_target(target, capsule(handler, None, None), platform=platform)
        return target

    return _registered.get((name, platform), tell)


_cpu_targets: OncePerOwner[str | None] = OncePerOwner()
_cuda_targets: OncePerOwner[tuple[str, bool, bool] | None] = OncePerOwner()


def _cpu_target(program: Program, dtype: str) -> str | None:
    """Name of the program's FFI target for CPUs, registered once; None where it can not be."""

    def make() -> str | None:
        compiled = native(program, dtype) if native_enabled() and supported() else None
        return None if compiled is None else register(compiled.name, compiled.handler, "cpu", compiled)

    return _cpu_targets.get(program, dtype, make)


def _cuda_target(program: Program, dtype: str, slots: int, widths: tuple) -> tuple[str, bool, bool] | None:
    """Name of the FFI target for NVIDIA GPUs, whether it wants arrays by columns, and slots in global memory.

    None where there is none. `widths` are those of inputs and outputs.
    """

    def make() -> tuple[str, bool, bool] | None:
        if not native_enabled() or dtype not in DTYPES or not supported():
            return None
        try:
            from .cuda.driver import Reach, program_kernel

            kernel = program_kernel(program, np.dtype(dtype), slots, widths)
        except (UnknownPrimitive, ImportError, OSError, RuntimeError) as error:
            warn_not_native(f"{program.name} on the GPU", error)
            return None
        name = register(kernel.name, kernel.handler, "CUDA", kernel)
        return name, kernel.reach is Reach.COLUMNS, kernel.global_scratch

    return _cuda_targets.get(program, (dtype, slots, widths), make)


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

"""Where a lane program runs natively: compiled code for this CPU, an FFI target of it, a kernel of it on a GPU.

Each is made once and kept. Where one can not be had (a step with an unknown primitive, no llvmlite, a JAX whose FFI is
another), the XLA body serves, with the same result.
"""

import ctypes
import os
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import xla
from .emit import UnknownPrimitive
from .handler import supported
from .program import Program


def native_enabled() -> bool:
    """Whether native bodies may be used at all: KINETREE_NATIVE=0 switches them off."""
    return os.environ.get("KINETREE_NATIVE") != "0"


@cache
def native(program: Program, dtype: str) -> Any:
    """The compiled program, or None where the native body can not serve."""
    if not native_enabled() or dtype not in ("float32", "float64"):
        return None
    try:
        from .cpu import compiled

        return compiled(program, dtype)
    except (UnknownPrimitive, ImportError, RuntimeError):
        return None  # a step with an unknown primitive, no llvmlite, or a host that LLVM does not know


def _register(name: str, handler: int, platform: str) -> str:
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
    return _register(f"kinetree_{program.name}_{id(program)}_{dtype}", compiled.handler, "cpu")


@cache
def _cuda_target(program: Program, dtype: str, slots: int) -> tuple[str, bool] | None:
    """Name of the FFI target for NVIDIA GPUs and whether it wants slots in global memory; None where there is none."""
    if native(program, dtype) is None or not supported() or jax.default_backend() != "gpu":
        return None
    try:
        from .cuda import CudaError, cuda_kernel
    except OSError:
        return None
    try:
        kernel = cuda_kernel(program, dtype, slots)
    except (CudaError, OSError):
        return None
    name = f"kinetree_{program.name}_{id(program)}_{dtype}_{slots}_cuda"
    return _register(name, kernel.handler, "CUDA"), kernel.global_scratch


def _by_ffi(
    name: str, slots: int, widths: tuple, scratch: int | None, tables: tuple, constants: tuple, inputs: tuple
) -> tuple:
    """One FFI call; `scratch` None is the CPU's, else the GPU's, with that many slots in global memory."""
    lanes, dtype = inputs[0].shape[0], inputs[0].dtype
    results = [jax.ShapeDtypeStruct((lanes, w), dtype) for w in widths]
    constants = tuple(jnp.asarray(c, dtype) for c in constants)
    options: dict[str, Any] = {}
    if scratch is not None:
        results.append(jax.ShapeDtypeStruct((scratch, lanes), dtype))
        by_column = (1, 0)  # neighbouring threads read neighbouring numbers
        options["input_layouts"] = [None] * (2 * len(tables)) + [by_column] * len(inputs)
        options["output_layouts"] = [by_column] * len(widths) + [None]
    call = jax.ffi.ffi_call(name, tuple(results), **options)
    return tuple(call(*tables, *constants, *inputs, slots=np.int64(slots)))[: len(widths)]


def anywhere(program: Program, slots: int, widths: tuple, tables: tuple, constants: tuple, inputs: tuple) -> tuple:
    """Outputs of a program on traced arrays, by the body of the platform that they are compiled for."""
    by_xla = partial(xla.run, program, slots, widths)
    dtype = np.dtype(inputs[0].dtype).name
    bodies: dict[str, Any] = {}
    if (cpu := _cpu_target(program, dtype)) is not None:
        bodies["cpu"] = partial(_by_ffi, cpu, slots, widths, None)
    if (cuda := _cuda_target(program, dtype, slots)) is not None:
        bodies["cuda"] = partial(_by_ffi, cuda[0], slots, widths, slots if cuda[1] else 1)
    if not bodies or inputs[0].shape[0] == 0:
        return by_xla(tables, constants, inputs)
    return jax.lax.platform_dependent(tables, constants, inputs, default=by_xla, **bodies)

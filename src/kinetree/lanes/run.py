"""Running a lane program: by the native body where there is one, else by XLA, with the same result.

NumPy arrays are computed in place by the compiled program. JAX arrays go through one traced call: on a CPU an XLA FFI
call of the same machine code, on an NVIDIA GPU one of a kernel made from the same text, elsewhere the XLA body. A
batch axis, `vmap` and nested `vmap` all become lanes; derivatives are taken through the XLA body.
"""

import ctypes
import os
from functools import cache, lru_cache, partial
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


@lru_cache(maxsize=512)
def _traced(program: Program, slots: int, widths: tuple, dtype: str) -> Any:
    """The program as a function of (tables, constants, inputs) that JAX can transform."""
    by_xla = partial(xla.run, program, slots, widths)
    bodies: dict[str, Any] = {}
    if (cpu := _cpu_target(program, dtype)) is not None:
        bodies["cpu"] = partial(_by_ffi, cpu, slots, widths, None)
    if (cuda := _cuda_target(program, dtype, slots)) is not None:
        bodies["cuda"] = partial(_by_ffi, cuda[0], slots, widths, slots if cuda[1] else 1)

    def anywhere(tables: tuple, constants: tuple, inputs: tuple) -> tuple:
        if not bodies or inputs[0].shape[0] == 0:
            return by_xla(tables, constants, inputs)
        return jax.lax.platform_dependent(tables, constants, inputs, default=by_xla, **bodies)

    lanes = jax.custom_batching.custom_vmap(anywhere)

    @lanes.def_vmap
    def more_lanes(size: int, batched: Any, tables: tuple, constants: tuple, inputs: tuple) -> tuple:
        if any(jax.tree.leaves(batched[:2])):  # different models side by side: not lanes of one program
            axes = jax.tree.map(lambda b: 0 if b else None, batched)
            return jax.vmap(by_xla, tuple(axes))(tables, constants, inputs), (True,) * len(widths)
        every = [x if b else jnp.broadcast_to(x, (size, *x.shape)) for x, b in zip(inputs, batched[2], strict=True)]
        results = lanes(tables, constants, tuple(x.reshape(-1, x.shape[-1]) for x in every))
        return tuple(y.reshape(size, -1, y.shape[-1]) for y in results), (True,) * len(widths)

    call = jax.custom_jvp(lanes)

    @call.defjvp
    def derivative(primals: tuple, tangents: tuple) -> tuple:
        tables, constants, inputs = primals
        return jax.jvp(partial(by_xla, tables), (constants, inputs), tuple(tangents[1:]))

    return jax.jit(call)


def run(program: Program, slots: int, widths: tuple, tables: tuple, constants: tuple, inputs: tuple) -> tuple:
    """Outputs (lanes, width) of a program on inputs (lanes, width).

    For each loop there is a table, (turns, columns) of int32, and an array of constants, (turns, count).
    """
    plain = all(isinstance(x, np.ndarray) for x in (*constants, *inputs))
    dtype = np.dtype(inputs[0].dtype).name
    if plain and (compiled := native(program, dtype)) is not None:
        return compiled(slots, widths, tables, constants, inputs)
    inputs = tuple(jnp.asarray(x) for x in inputs)
    dtype = np.dtype(inputs[0].dtype)  # JAX may have narrowed it
    constants = tuple(c if c.dtype == dtype else c.astype(dtype) for c in constants)
    return _traced(program, slots, tuple(widths), dtype.name)(tables, constants, inputs)

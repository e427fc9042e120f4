"""Running a lane program: by the native body where there is one, else by XLA, with the same result.

NumPy arrays are computed in place by the compiled program. JAX arrays go through one traced call: on a CPU an XLA FFI call of the
same machine code, elsewhere the XLA body. A batch axis, `vmap` and nested `vmap` all become lanes; derivatives are taken
through the XLA body.
"""

import ctypes
import os
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import xla
from .emit import UnknownPrimitive
from .handler import supported
from .program import Program


@lru_cache(maxsize=None)
def native(program: Program, dtype: str) -> Any:
    """The compiled program, or None where the native body can not serve."""
    if os.environ.get("KINETREE_NATIVE") == "0" or dtype not in ("float32", "float64"):
        return None
    try:
        from .cpu import compiled

        return compiled(program, dtype)
    except (UnknownPrimitive, ImportError, RuntimeError):
        return None  # a step with an unknown primitive, no llvmlite, or a host that LLVM does not know


@lru_cache(maxsize=None)
def _target(program: Program, dtype: str) -> str | None:
    """Name of the program's FFI target for CPUs, registered once; None where it can not be."""
    compiled = native(program, dtype) if supported() else None
    if compiled is None:
        return None
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    name = f"kinetree_{program.name}_{id(program)}_{dtype}"
    jax.ffi.register_ffi_target(name, capsule(compiled.handler, None, None), platform="cpu")
    return name


def _by_ffi(name: str, slots: int, widths: tuple, tables: tuple, constants: tuple, inputs: tuple) -> tuple:
    lanes, dtype = inputs[0].shape[0], inputs[0].dtype
    results = tuple(jax.ShapeDtypeStruct((lanes, w), dtype) for w in widths)
    constants = tuple(jnp.asarray(c, dtype) for c in constants)
    return tuple(jax.ffi.ffi_call(name, results)(*tables, *constants, *inputs, slots=np.int64(slots)))


@lru_cache(maxsize=512)
def _traced(program: Program, slots: int, widths: tuple, dtype: str) -> Any:
    """The program as a function of (tables, constants, inputs) that JAX can transform."""
    by_xla = partial(xla.run, program, slots, widths)
    name = _target(program, dtype)

    def anywhere(tables: tuple, constants: tuple, inputs: tuple) -> tuple:
        if name is None or inputs[0].shape[0] == 0:
            return by_xla(tables, constants, inputs)
        on_cpu = partial(_by_ffi, name, slots, widths)
        return jax.lax.platform_dependent(tables, constants, inputs, cpu=on_cpu, default=by_xla)

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
    """Outputs (lanes, width) of a program on inputs (lanes, width); tables and constants as in `Binding`."""
    plain = all(isinstance(x, np.ndarray) for x in (*constants, *inputs))
    dtype = np.dtype(inputs[0].dtype).name
    if plain and (compiled := native(program, dtype)) is not None:
        return compiled(slots, widths, tables, constants, inputs)
    inputs = tuple(jnp.asarray(x) for x in inputs)
    dtype = np.dtype(inputs[0].dtype).name  # JAX may have narrowed it
    constants = tuple(jnp.asarray(c, inputs[0].dtype) for c in constants)
    return _traced(program, slots, tuple(widths), dtype)(tuple(jnp.asarray(t) for t in tables), constants, inputs)

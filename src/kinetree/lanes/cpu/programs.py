"""Lane programs on this CPU: compiled for NumPy arrays, and behind an FFI target for JAX's."""

import jax
import numpy as np

from ..ffi import DTYPES, supported
from ..kept.notice import warn_not_native
from ..kept.once import OncePerOwner
from ..llvm.emit import UnknownPrimitive
from ..program.bound import Bound
from ..program.program import Program
from .compiled import CompiledProgram
from .host import register_handler

_compiled: OncePerOwner[CompiledProgram | None] = OncePerOwner()  # by program
_targets: OncePerOwner[str | None] = OncePerOwner()


def compiled_program(program: Program, dtype: str) -> CompiledProgram | None:
    """The compiled program, or None if there is no native body. It lives as long as the program."""

    def make() -> CompiledProgram | None:
        if dtype not in DTYPES:
            return None
        try:
            return CompiledProgram(program, dtype)
        except (UnknownPrimitive, OSError, RuntimeError) as error:
            # a step with an unknown primitive, or a host that LLVM does not know
            warn_not_native(program.name, error)
            return None

    return _compiled.get(program, dtype, make)


def _target(program: Program, dtype: str) -> str | None:
    def make() -> str | None:
        found = compiled_program(program, dtype) if supported() else None
        return None if found is None else register_handler(found.code, found)

    return _targets.get(program, dtype, make)


def run_program(bound: Bound, tables: tuple, constants: tuple, inputs: tuple) -> list | None:
    """Outputs of a program on traced arrays; None if there is no native body. Threads take lanes, not turns."""
    lanes, dtype = inputs[0].shape[0], inputs[0].dtype
    name = _target(bound.program, np.dtype(dtype).name)
    if name is None or lanes == 0:
        return None
    results = tuple(jax.ShapeDtypeStruct((lanes, w), dtype) for w in bound.widths)
    room = np.int64(bound.slots + sum(x.shape[1] for x in inputs) + sum(bound.widths))  # columns, then slots
    return list(jax.ffi.ffi_call(name, results)(*tables, *constants, *inputs, slots=room))

"""Machine code for this CPU: LLVM text, optimised, and kept on disk between processes (cache.py)."""

import os
import platform
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np

from ..kept.cache import entry_name, keep_cached, read_cached
from ..kept.notice import warn_not_native
from ..kept.once import once
from ..llvm.emit import UnknownPrimitive
from ..native import DTYPES, native_enabled, register, supported


@once
def host_cpu() -> tuple[str, str, int]:
    """The CPU's name, its features as LLVM spells them, and the bytes in a vector register."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    if os.environ.get("KINETREE_AVX512") == "0":
        for name in [f for f in features if f.startswith("avx512")]:
            features[name] = False
    flags = features.flatten()
    size = 64 if features.get("avx512f") else 32 if features.get("avx2") else 16
    if size == 64:
        flags += ",-prefer-256-bit"
    return llvm.get_host_cpu_name(), flags, size


def target_machine() -> Any:
    """A target machine for this host; an engine takes its own for good, so each asks for a new one."""
    cpu, flags, _ = host_cpu()
    return llvm.Target.from_default_triple().create_target_machine(cpu=cpu, features=flags, opt=3, jit=True)


def optimized(text: str) -> Any:
    """The module, verified and optimised; vectorised by us, so not by LLVM."""
    machine = target_machine()
    module = llvm.parse_assembly(text)
    module.verify()
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_vectorization = tuning.slp_vectorization = tuning.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return module


def vector_width(dtype: np.dtype) -> int:
    """Numbers in one vector register."""
    return host_cpu()[2] // dtype.itemsize


class MachineCode(NamedTuple):
    """A module in memory, under the name that its content gives it."""

    name: str
    engine: Any  # who holds it holds the code
    from_cache: bool

    def address(self, function: str) -> int:
        """Of a function in it."""
        return self.engine.get_function_address(function)


def loaded(name: str, made_from: Any, dtype: np.dtype, text: Callable[[], str]) -> MachineCode:
    """The machine code of a module that `text` writes from all that `made_from` holds."""
    cpu, flags, _ = host_cpu()
    full_name = entry_name(name, made_from, dtype, f"{sys.platform} {platform.machine()} {cpu} {flags}", text)
    machine = target_machine()
    code = found = read_cached(full_name)
    if code is None:
        code = machine.emit_object(optimized(text()))
        keep_cached(full_name, code)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return MachineCode(full_name, engine, found is not None)


def cpu_target(name: str, made_from: Any, dtype: str, text: Callable[[np.dtype, int], str]) -> str | None:
    """Name of the FFI target for the handler of a module; None where there can be none.

    `text` writes the module for a dtype and the numbers in a vector.
    """
    if not native_enabled() or dtype not in DTYPES or not supported():
        return None
    kind = np.dtype(dtype)
    try:
        code = loaded(name, made_from, kind, lambda: text(kind, vector_width(kind)))
    except (UnknownPrimitive, RuntimeError) as error:
        warn_not_native(name, error)
        return None
    return register(code.name, code.address("handler"), "cpu", code.engine)

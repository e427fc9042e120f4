"""Machine code for this CPU: LLVM text, optimised, and kept on disk between processes (cache.py)."""

import os
import platform
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from .cache import cached_entry, keep_cached, read_cached
from .emit import UnknownPrimitive
from .handler import supported
from .native import DTYPES, native_enabled, register


@cache
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


def loaded(name: str, signature: str, dtype: np.dtype, text: Callable[[], str]) -> tuple[Any, bool]:
    """An engine with the machine code of a module, and whether the code was found in the cache."""
    cpu, flags, _ = host_cpu()
    machine = target_machine()
    path = cached_entry(name, signature, dtype, f"{platform.machine()} {cpu} {flags}")
    code = found = read_cached(path)
    if code is None:
        code = machine.emit_object(optimized(text()))
        keep_cached(path, code)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine, found is not None


_engines: list[Any] = []  # of all handlers: they live as long as the process


def cpu_target(name: str, signature: str, dtype: str, text: Callable[[np.dtype, int], str]) -> str | None:
    """An FFI target, registered under a name of its own, for the handler of a module; None where there can be none.

    `text` writes the module for a dtype and the numbers in a vector.
    """
    if not native_enabled() or dtype not in DTYPES or not supported():
        return None
    kind = np.dtype(dtype)
    try:
        engine, _ = loaded(name, signature, kind, lambda: text(kind, vector_width(kind)))
    except (UnknownPrimitive, RuntimeError):
        return None
    _engines.append(engine)
    return register(f"kinetree_{name}_{len(_engines)}_{dtype}", engine.get_function_address("handler"), "cpu")

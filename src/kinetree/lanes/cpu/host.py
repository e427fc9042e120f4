"""Machine code for this CPU: LLVM text, optimised, and kept on disk between processes (cache.py)."""

import os
import platform
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np

from ..ffi import DTYPES, native_enabled, register, supported
from ..kept.cache import entry_name, keep_cached, read_cached
from ..kept.notice import warn_not_native
from ..kept.once import once
from ..llvm.emit import UnknownPrimitive


class Processor(NamedTuple):
    """What LLVM must know to write machine code for a processor."""

    triple: str  # of LLVM: "x86_64-unknown-linux-gnu", "aarch64-linux-gnu"
    name: str
    features: str  # as LLVM spells them
    vector_bytes: int  # in a vector register

    def machine(self, jit: bool = True) -> Any:
        """A target machine of LLVM; an engine takes its own for good, so each asks for a new one."""
        target = llvm.Target.from_triple(self.triple)
        return target.create_target_machine(cpu=self.name, features=self.features, opt=3, jit=jit)

    def width(self, dtype: np.dtype) -> int:
        """Numbers in one vector register."""
        return self.vector_bytes // dtype.itemsize


def register_bytes(features: dict[str, bool]) -> int:
    """Bytes in a vector register: SSE and NEON have 16."""
    return 64 if features.get("avx512f") else 32 if features.get("avx2") else 16


@once
def this_processor() -> Processor:
    """The one that Python runs on."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    if os.environ.get("KINETREE_AVX512") == "0":
        for name in [f for f in features if f.startswith("avx512")]:
            features[name] = False
    flags, size = features.flatten(), register_bytes(features)
    if size == 64:
        flags += ",-prefer-256-bit"
    return Processor(llvm.get_default_triple(), llvm.get_host_cpu_name(), flags, size)


def optimized(text: str, machine: Any) -> Any:
    """The module, verified and optimised; vectorised by us, so not by LLVM."""
    module = llvm.parse_assembly(text)
    module.verify()
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_vectorization = tuning.slp_vectorization = tuning.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return module


def machine_code(text: str) -> bytes:
    """An object file, from LLVM text. The tests put a quicker one in its place (tests/quick_code.py)."""
    machine = this_processor().machine()
    return machine.emit_object(optimized(text, machine))


def vector_width(dtype: np.dtype) -> int:
    """Numbers in one vector register."""
    return this_processor().width(dtype)


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
    own = this_processor()
    place = f"{sys.platform} {platform.machine()} {own.name} {own.features}"
    full_name = entry_name(name, made_from, dtype, place, text)
    code = found = read_cached(full_name)
    if code is None:
        code = machine_code(text())
        keep_cached(full_name, code)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), own.machine())
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

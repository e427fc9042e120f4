"""Machine code for this CPU: LLVM text, optimised, and kept on disk between processes (cache.py)."""

import ctypes
import os
import platform
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np

from ..ffi import DTYPES, native_enabled, register, supported
from ..kept.cache import entry_name, keep_cached, read_cached
from ..kept.notice import warn_not_native
from ..kept.once import once
from ..llvm.emit import UnknownPrimitive
from ..llvm.handler import CORES
from .threads import cores


class Processor(NamedTuple):
    """The facts about a processor that LLVM needs to write machine code."""

    triple: str  # of LLVM: "x86_64-unknown-linux-gnu", "aarch64-linux-gnu"
    name: str
    features: str  # as LLVM spells them
    vector_bytes: int  # in a vector register

    def machine(self, jit: bool = True) -> Any:
        """A new target machine of LLVM. An engine owns its machine, so each engine needs a new one."""
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


PASSES = (
    "always_inliner",
    "sroa",
    "instruction_combine",
    "new_gvn",
    "dead_code_elimination",
    "simplify_cfg",
)


def _side_by_side(function: str) -> Any:
    """Let threads run a function of llvmlite at the same time.

    llvmlite lets in one thread at a time, because modules usually share a context of LLVM. Here each has its own.
    """
    found = getattr(llvm.ffi.lib, function)
    return getattr(found, "_cfn", found)


def optimized(text: str, machine: Any) -> Any:
    """The module, verified and optimised.

    LLVM only has to find values that are computed twice. The text is vectorised already, has hardly any branches, and
    its loops hold nothing that could be moved out. LLVM's default passes take five times as long and make the same
    code.
    """
    module = llvm.parse_assembly(text, llvm.create_context())
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    passes = llvm.create_new_module_pass_manager()
    for name in PASSES:
        getattr(passes, f"add_{name}_pass")()
    _side_by_side("LLVMPY_RunNewModulePassManager")(passes, module, builder)
    return module


def machine_code(text: str) -> bytes:
    """An object file, from LLVM text. The tests put a quicker one in its place (tests/quick_code.py)."""
    machine = this_processor().machine()
    return object_file(optimized(text, machine), machine)


def object_file(module: Any, machine: Any) -> bytes:
    """The object file of a module. Threads may make several at the same time."""
    library = llvm.ffi.lib
    with llvm.ffi.OutputString() as error:
        buffer = _side_by_side("LLVMPY_TargetMachineEmitToMemory")(machine, module, 1, error)
        if not buffer:
            raise RuntimeError(str(error))
    try:
        return ctypes.string_at(library.LLVMPY_GetBufferStart(buffer), library.LLVMPY_GetBufferSize(buffer))
    finally:
        library.LLVMPY_DisposeMemoryBuffer(buffer)


def vector_width(dtype: np.dtype) -> int:
    """Numbers in one vector register."""
    return this_processor().width(dtype)


class MachineCode(NamedTuple):
    """A module in memory, under the name that its content gives it."""

    name: str
    engine: Any  # keeps the code alive
    from_cache: bool

    def address(self, function: str) -> int:
        """The address of a function in it."""
        return self.engine.get_function_address(function)


def full_name(name: str, made_from: Any, dtype: np.dtype, text: Callable[[], str] | None = None) -> str:
    """The name in the cache of code for this processor; see `entry_name`."""
    own = this_processor()
    place = f"{sys.platform} {platform.machine()} {own.name} {own.features}"
    return entry_name(name, made_from, dtype, place, text)


def loaded(
    name: str,
    made_from: Any,
    dtype: np.dtype,
    text: Callable[[], str],
    pieces: Callable[[], list[bytes]] | None = None,
) -> MachineCode:
    """The machine code of a module, which `text` writes from all that `made_from` holds; or of several `pieces`."""
    own_name = full_name(name, made_from, dtype, text)
    code = found = read_cached(own_name)
    if code is None:
        made = [machine_code(text())] if pieces is None else pieces()
        code = b"".join(len(one).to_bytes(8, "little") + one for one in made)
        keep_cached(own_name, code)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), this_processor().machine())
    for one in _parts(code):
        engine.add_object_file(llvm.ObjectFileRef.from_data(one))
    engine.finalize_object()
    return MachineCode(own_name, engine, found is not None)


def _parts(code: bytes) -> Iterator[bytes]:
    """The object files of an entry."""
    start = 0
    while start < len(code):
        size = int.from_bytes(code[start : start + 8], "little")
        yield code[start + 8 : start + 8 + size]
        start += 8 + size


def cpu_target(name: str, made_from: Any, dtype: str, text: Callable[[np.dtype, int], str]) -> str | None:
    """Name of the FFI target for the handler of a module; None if there can be none.

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
    return register_handler(code, code.engine)


def register_handler(code: MachineCode, owner: Any) -> str:
    """Register the handler of a module with XLA, and set its number of cores; returns the name of the target."""
    ctypes.c_int64.from_address(code.engine.get_global_value_address(CORES)).value = cores()
    return register(code.name, code.address("handler"), "cpu", owner)

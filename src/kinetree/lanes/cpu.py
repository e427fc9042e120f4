"""Compiled lane programs for this CPU: LLVM text to machine code, kept on disk, called on NumPy arrays.

What was compiled is kept between processes (cache.py).
"""

import ctypes
import os
import platform
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from .cache import cached_entry, keep_cached, read_cached
from .direct import SHARED, available, bind, direct_text
from .emit import trace
from .handler import handler_text
from .kernel import LaneFunction
from .program import Program, signature
from .text import module_of
from .threads import pool, threads
from .trigonometry import far_reduction

GRAIN = 256  # lanes that one task takes at the least


@cache
def _host() -> tuple[str, str, int]:
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


def _machine() -> Any:
    """A target machine for this host; an engine takes its own for good, so each asks for a new one."""
    cpu, flags, _ = _host()
    return llvm.Target.from_default_triple().create_target_machine(cpu=cpu, features=flags, opt=3, jit=True)


def has_direct(program: Program) -> bool:
    """Whether the program's module has a function that Python can call."""
    return available() and program.n_outputs == 1


def module_text(program: Program, dtype: np.dtype, width: int) -> str:
    """The whole LLVM module of a program: the vector function, the scalar one, and what XLA and Python call."""
    jaxprs = [trace(loop, dtype) for loop in program.loops]
    lines = [far_reduction()]
    lines += [LaneFunction(program, jaxprs, w, dtype, name).text() for w, name in ((width, "lanes"), (1, "lane"))]
    lines.append(handler_text(program, dtype, width, GRAIN))
    if has_direct(program):
        lines.append(direct_text(program, dtype, width))
    return module_of(*lines)


def optimized(text: str) -> Any:
    """The module, verified and optimised; vectorised by us, so not by LLVM."""
    machine = _machine()
    module = llvm.parse_assembly(text)
    module.verify()
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_vectorization = tuning.slp_vectorization = tuning.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return module


def vector_width(dtype: np.dtype) -> int:
    """Numbers in one vector register."""
    return _host()[2] // dtype.itemsize


def loaded(name: str, signature: str, dtype: np.dtype, text: Callable[[], str]) -> tuple[Any, bool]:
    """An engine with the machine code of a module, and whether the code was found in the cache."""
    cpu, flags, _ = _host()
    machine = _machine()
    path = cached_entry(name, signature, dtype, f"{platform.machine()} {cpu} {flags}")
    code = found = read_cached(path)
    if code is None:
        code = machine.emit_object(optimized(text()))
        keep_cached(path, code)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine, found is not None


class CompiledProgram:
    """Machine code of a program in one dtype, and how to call it."""

    def __init__(self, program: Program, dtype: Any):
        self.program, self.dtype = program, np.dtype(dtype)
        self.width = vector_width(self.dtype)
        name = f"{signature(program)} {has_direct(program)}"
        self._engine, self.from_cache = loaded(
            program.name, name, self.dtype, lambda: module_text(program, self.dtype, self.width)
        )
        pointer, integer = ctypes.c_void_p, ctypes.c_int64
        prototype = ctypes.CFUNCTYPE(None, *[pointer] * 6, integer, integer, pointer)
        self._lanes = prototype(self._engine.get_function_address("lanes"))
        self._lane = prototype(self._engine.get_function_address("lane"))
        self.handler = self._engine.get_function_address("handler")
        self.direct = self._engine.get_function_address("direct") if has_direct(program) else None

    def __call__(self, slots: int, output_widths: tuple, tables: tuple, constants: tuple, inputs: tuple) -> tuple:
        """As `xla.run`, on NumPy arrays."""
        lanes = inputs[0].shape[0]
        inputs = tuple(np.ascontiguousarray(x, self.dtype) for x in inputs)
        outputs = tuple(np.empty((lanes, w), self.dtype) for w in output_widths)
        if lanes == 0:
            return outputs
        groups = [inputs, outputs, constants, tables]
        pointers = [(ctypes.c_void_p * max(1, len(g)))(*(x.ctypes.data for x in g)) for g in groups]
        turns = np.array([len(t) for t in tables], np.int64)
        widths = np.array([x.shape[1] for x in inputs + outputs], np.int64)
        numbers = (turns.ctypes.data, widths.ctypes.data)

        def task(lo: int, hi: int) -> None:
            whole = hi - lo >= self.width
            scratch = np.empty(slots * (self.width if whole else 1) + 64 // self.dtype.itemsize, self.dtype)
            start = scratch.ctypes.data + (-scratch.ctypes.data) % 64
            (self._lanes if whole else self._lane)(*pointers, *numbers, lo, hi, start)

        parts = min(threads(), lanes // GRAIN)
        if parts < 2 or lanes * sum(map(len, tables)) < SHARED:
            task(0, lanes)
        else:
            cuts = [lanes * k // parts // self.width * self.width for k in range(parts)] + [lanes]
            waiting = [pool().submit(task, cuts[k], cuts[k + 1]) for k in range(1, parts)]
            task(cuts[0], cuts[1])
            for one in waiting:
                one.result()
        return outputs

    def bound(self, slots: int, widths: tuple[int, ...], tables: tuple, constants: tuple) -> Any:
        """The program as a builtin for one model, or None where there can be none; see direct.py."""
        if self.direct is None:
            return None
        return bind(self, slots, widths, tables, constants)


@cache
def compiled(program: Program, dtype: str) -> CompiledProgram:
    """The program in this dtype, compiled once in a process."""
    return CompiledProgram(program, dtype)

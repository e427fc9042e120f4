"""Kernels on an NVIDIA GPU: PTX loaded by the driver, launched on XLA's stream by a handler that XLA calls.

The handler decodes the same call frame as handler.py, asks XLA for the stream, and calls cuLaunchKernel; it does
nothing that a CUDA graph could not capture.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from .emit import UnknownPrimitive
from .handler import address, answer_metadata, dimension, operands, results, supported
from .host import target_machine
from .native import DTYPES, native_enabled, register
from .program import Program
from .ptx import Reach, assembled, local_slots, ptx, reach_of
from .text import Text
from .tile import block_size, tile_bytes

BLOCK = 128  # threads, where nothing asks for fewer


class CudaError(RuntimeError):
    """The driver refused."""


@cache
def _driver() -> Any:
    driver = ctypes.CDLL("libcuda.so.1")
    _check(driver.cuInit(0), "cuInit")
    return driver


def _check(code: int, what: str) -> None:
    if code:
        raise CudaError(f"{what} failed with code {code}")


@cache
def chip() -> int:
    """The primary context of device 0, which is the one JAX uses; returns the chip's compute capability."""
    driver = _driver()
    device, context = ctypes.c_int(), ctypes.c_void_p()
    _check(driver.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
    _check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
    _check(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(driver.cuDeviceGetAttribute(ctypes.byref(major), 75, device), "cuDeviceGetAttribute")
    _check(driver.cuDeviceGetAttribute(ctypes.byref(minor), 76, device), "cuDeviceGetAttribute")
    return 10 * major.value + minor.value


@cache
def load_kernel(text: str) -> int:
    """Address of the kernel in a module made from PTX; the module lives as long as the process."""
    driver = _driver()
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    _check(driver.cuModuleLoadData(ctypes.byref(module), text.encode() + b"\0"), "cuModuleLoadData")
    _check(driver.cuModuleGetFunction(ctypes.byref(function), module, b"kernel"), "cuModuleGetFunction")
    assert function.value is not None
    return function.value


def begin_handler(n_values: int) -> Text:
    """The start of a handler that launches a kernel with so many values."""
    to = Text("h")
    to.lines.append("define ptr @handler(ptr %frame) {")
    to.label("entry")
    for name, size in (("values", n_values), ("places", n_values), ("ask", 4)):
        to.do(f"%{name} = alloca [{size} x i64]")
    answer_metadata(to, traits=1)  # 1: fit for command buffers
    return to


def _handler_text(program: Program, function: int, threads: int, shared_of_column: int) -> str:
    count = len(program.loops)
    to = begin_handler(2 * (program.n_inputs + program.n_outputs) + 3 * count + 2)
    given, made = operands(to), results(to)
    arrays = [(given, 2 * count + k) for k in range(program.n_inputs)] + [(made, k) for k in range(program.n_outputs)]
    pointers = [*arrays, *((given, count + k) for k in range(count)), *((given, k) for k in range(count))]
    lanes = dimension(to, given, 2 * count, 0)
    values = [("ptr", address(to, *place)) for place in pointers]
    values += [("i64", dimension(to, given, k, 0)) for k in range(count)]
    widths = [dimension(to, *place, 1) for place in arrays]
    values += [("i64", width) for width in widths]
    values += [("i64", lanes), ("ptr", address(to, made, program.n_outputs))]
    columns = "0"
    for width in widths:
        columns = to.op(f"add i64 {columns}, {width}")
    shared = to.op(f"trunc i64 {to.op(f'mul i64 {columns}, {shared_of_column}')} to i32")
    launch_values(to, values, lanes, function, threads, shared)
    to.lines.append("}")
    return str(to)


def launch_values(
    to: Text, values: list[tuple[str, str]], lanes: str, function: int, threads: int = BLOCK, shared: str = "0"
) -> None:
    """Launch a kernel on XLA's stream, a thread to a lane, with these values, and return from the handler."""
    for k, (kind, value) in enumerate(values):
        to.store(kind, value, "%values", 8 * k)
        to.store("ptr", to.at("%values", 8 * k), "%places", 8 * k)
    for kind, value, offset in (
        ("i64", 32, 0),
        ("i64", 0, 8),
        ("ptr", to.load("ptr", "%frame", 24), 16),
        ("i64", 0, 24),
    ):
        to.store(kind, value, "%ask", offset)
    to.op(f"call ptr {to.load('ptr', to.load('ptr', '%frame', 16), 80)}(ptr %ask)")
    stream = to.load("ptr", "%ask", 24)
    blocks = to.op(f"udiv i64 {to.op(f'add i64 {lanes}, {threads - 1}')}, {threads}")
    grid = to.op(f"trunc i64 {blocks} to i32")
    launch = ctypes.cast(_driver().cuLaunchKernel, ctypes.c_void_p).value
    kernel, call = (to.op(f"inttoptr i64 {address} to ptr") for address in (function, launch))
    to.op(
        f"call i32 {call}(ptr {kernel}, i32 {grid}, i32 1, i32 1, i32 {threads}, i32 1, i32 1, i32 {shared}, "
        f"ptr {stream}, ptr %places, ptr null)"
    )
    to.do("ret ptr null")


_engines: list[Any] = []  # of all handlers: they live as long as the process


def cuda_target(
    name: str, signature: str, dtype: np.dtype, text: Callable[[], str], launch: Callable[[int], Text]
) -> str | None:
    """An FFI target, registered under a name of its own, for the kernel of a module; None where there can be none.

    `launch` writes the handler up to its end, for a kernel at this address.
    """
    if not native_enabled() or dtype.name not in DTYPES or not supported():
        return None
    try:
        function = load_kernel(assembled(name, signature, dtype, chip(), text))
    except (CudaError, UnknownPrimitive, OSError, RuntimeError):
        return None
    to = launch(function)
    to.lines.append("}")
    engine, handler = compiled_handler(str(to))
    _engines.append(engine)
    return register(f"kinetree_{name}_{len(_engines)}_{dtype.name}_cuda", handler, "CUDA")


def compiled_handler(text: str) -> tuple[Any, int]:
    """An engine, to be kept, and the address of the handler in it."""
    module = llvm.parse_assembly(text)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, target_machine())
    engine.finalize_object()
    return engine, engine.get_function_address("handler")


class CudaKernel:
    """A program compiled for the GPU; `handler` is the address of its XLA handler."""

    def __init__(self, program: Program, dtype: np.dtype, room: int, reach: Reach, threads: int):
        function = load_kernel(ptx(program, dtype, room, chip(), reach))
        shared = tile_bytes(1, dtype.itemsize, threads) if reach is Reach.TILE else 0
        self._engine, self.handler = compiled_handler(_handler_text(program, function, threads, shared))
        self.reach, self.global_scratch = reach, room == 0


@cache
def cuda_kernel(program: Program, dtype: str, slots: int, widths: tuple[int, ...]) -> CudaKernel:
    """The kernel for a robot of about this many slots and these widths of inputs and outputs, loaded once."""
    kind = np.dtype(dtype)
    reach = reach_of(program, widths, kind.itemsize)
    threads = block_size(sum(widths), kind.itemsize) if reach is Reach.TILE else BLOCK
    return CudaKernel(program, kind, local_slots(slots, kind), reach, threads)

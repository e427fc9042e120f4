"""Kernels on an NVIDIA GPU: PTX loaded by the driver, launched on XLA's stream by a handler that XLA calls.

The handler decodes the same call frame as handler.py, asks XLA for the stream, and calls cuLaunchKernel. A CUDA graph
can capture all of this. Kernels are loaded as a library of the driver, which belongs to no device: a launch goes to the
device of its stream. If the driver refuses a launch, XLA raises an error.
"""

import ctypes
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from .. import tuning
from ..cpu.host import this_processor
from ..ffi import DTYPES, native_enabled, register, supported
from ..kept.notice import warn_not_native
from ..kept.once import once
from ..llvm.emit import UnknownPrimitive
from ..llvm.handler import INTERNAL, answer_metadata, refuse, text_constant
from ..llvm.text import Text
from .ptx import Assembly, assembled

MESSAGE_BYTES = 256  # of an error
MAJOR, MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*


class CudaError(RuntimeError):
    """The driver refused."""


@once
def _driver() -> Any:
    driver = ctypes.CDLL("libcuda.so.1")
    _check(driver, driver.cuInit(0), "cuInit")
    if not hasattr(driver, "cuLibraryLoadData"):
        raise CudaError("the NVIDIA driver is older than CUDA 12")
    return driver


def _check(driver: Any, code: int, what: str) -> None:
    if code:
        words = ctypes.c_char_p()
        driver.cuGetErrorString(code, ctypes.byref(words))
        raise CudaError(f"{what} failed: {(words.value or b'unknown').decode()} (CUDA error {code})")


def _call(name: str, *given: Any) -> None:
    """Call a function of the driver."""
    driver = _driver()
    _check(driver, getattr(driver, name)(*given), name.removesuffix("_v2"))


def _got(name: str, kind: Any, *given: Any) -> Any:
    """What a function of the driver writes to its first argument."""
    value = kind()
    _call(name, ctypes.byref(value), *given)
    return value


def _devices() -> list[int]:
    numbers = range(_got("cuDeviceGetCount", ctypes.c_int).value)
    return [_got("cuDeviceGet", ctypes.c_int, number).value for number in numbers]


def _attributes(attribute: int) -> list[int]:
    """The values of one attribute, for all devices."""
    found = [_got("cuDeviceGetAttribute", ctypes.c_int, attribute, device).value for device in _devices()]
    if not found:
        raise CudaError("the NVIDIA driver finds no device")
    return found


@once
def chip() -> int:
    """The lowest compute capability of all devices: code compiled for it runs on each of them."""
    return min(10 * major + minor for major, minor in zip(_attributes(MAJOR), _attributes(MINOR), strict=True))


@once
def load_kernel(assembly: Assembly) -> int:
    """Load a library from PTX; return the handle of its kernel. It serves all devices until the process ends."""
    nothing = (None, None, 0)  # no options
    library = _got("cuLibraryLoadData", ctypes.c_void_p, assembly.text.encode() + b"\0", *nothing, *nothing)
    kernel = _got("cuLibraryGetKernel", ctypes.c_void_p, library, b"kernel")
    for device in _devices():
        _bring(kernel, device)
    assert kernel.value is not None
    return kernel.value


def _bring(kernel: Any, device: int) -> None:
    """Load the kernel now on a device that is in use: to load it at the first launch could disturb a graph capture."""
    flags, active, driver = ctypes.c_uint(), ctypes.c_int(), _driver()
    _call("cuDevicePrimaryCtxGetState", device, ctypes.byref(flags), ctypes.byref(active))
    if not active.value:
        return
    _call("cuCtxPushCurrent_v2", _got("cuDevicePrimaryCtxRetain", ctypes.c_void_p, device))
    try:
        _got("cuKernelGetFunction", ctypes.c_void_p, kernel)
    finally:
        driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
        driver.cuDevicePrimaryCtxRelease_v2(device)


def begin_handler(n_values: int) -> Text:
    """The start of a handler that launches a kernel with `values` arguments."""
    to = Text("h")
    to.begin("ptr @handler(ptr %frame)")
    for name, size in (("values", n_values), ("places", n_values), ("ask", 4), ("failure", 4), ("words", 1)):
        to.do(f"%{name} = alloca [{size} x i64]")
    to.do(f"%message = alloca [{MESSAGE_BYTES} x i8]")
    answer_metadata(to, traits=1)  # 1: fit for command buffers
    return to


def launch_values(
    to: Text,
    values: list[tuple[str, str]],
    lanes: str,
    function: int,
    threads: int | str = tuning.GPU_BLOCK_THREADS,
    shared: str = "0",
) -> None:
    """Launch a kernel on XLA's stream with these values, one thread for each lane, and return from the handler.

    `threads` is the size of a block: a number, or the name of an i64 of the handler.
    """
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
    unknown = to.op(f"call ptr {to.load('ptr', to.load('ptr', '%frame', 16), 80)}(ptr %ask)")
    to.branch(to.op(f"icmp eq ptr {unknown}, null"), "launch", "no_stream")
    to.label("no_stream")
    to.do(f"ret ptr {unknown}")
    to.label("launch")
    stream = to.load("ptr", "%ask", 24)
    before = to.op(f"sub i64 {to.op(f'add i64 {lanes}, {threads}')}, 1")
    grid = to.op(f"trunc i64 {to.op(f'udiv i64 {before}, {threads}')} to i32")
    block = to.op(f"trunc i64 {threads} to i32")
    kernel = to.op(f"inttoptr i64 {function} to ptr")
    code = to.op(
        f"call i32 {_function(to, 'cuLaunchKernel')}(ptr {kernel}, i32 {grid}, i32 1, i32 1, i32 {block}, i32 1, "
        f"i32 1, i32 {shared}, ptr {stream}, ptr %places, ptr null)"
    )
    to.branch(to.op(f"icmp eq i32 {code}, 0"), "launched", "refused")
    to.label("launched")
    to.do("ret ptr null")
    to.label("refused")
    to.store("ptr", "@unknown", "%words")
    to.op(f"call i32 {_function(to, 'cuGetErrorString')}(i32 {code}, ptr %words)")
    words = to.load("ptr", "%words")
    known = to.op(f"select i1 {to.op(f'icmp eq ptr {words}, null')}, ptr @unknown, ptr {words}")
    given = f"ptr %message, i64 {MESSAGE_BYTES}, ptr @form, ptr {known}, i32 {code}"
    to.op(f"call i32 (ptr, i64, ptr, ...) @snprintf({given})")
    refuse(to, INTERNAL, "%message")


def _function(to: Text, name: str) -> str:
    """A function of the driver's."""
    return to.op(f"inttoptr i64 {ctypes.cast(getattr(_driver(), name), ctypes.c_void_p).value} to ptr")


Made = tuple[Assembly, Callable[[int], Text], str]


def cuda_target(name: str, dtype: np.dtype, made: Callable[[], Made]) -> str | None:
    """Name of the FFI target for a kernel; None if there can be none.

    `made` returns its assembly, a function that writes the handler up to its end, for a kernel with this handle, and a
    mark of the handler for the name of the target.
    """
    if not native_enabled() or dtype.name not in DTYPES or not supported():
        return None
    try:
        assembly, launch, mark = made()
        to = launch(load_kernel(assembly))
    except (UnknownPrimitive, OSError, RuntimeError) as error:
        warn_not_native(f"{name} on the GPU", error)
        return None
    to.lines.append("}")
    engine, handler = compiled_handler(str(to))
    return register(assembly.name + mark, handler, "CUDA", engine)


def plain_target(
    name: str, made_from: Any, dtype: np.dtype, text: Callable[[], str], launch: Callable[[int], Text]
) -> str | None:
    """The same for the kernel of a module, which `text` writes from all that `made_from` holds."""
    return cuda_target(name, dtype, lambda: (assembled(name, made_from, dtype, chip(), text), launch, ""))


def compiled_handler(text: str) -> tuple[Any, int]:
    """An engine, to be kept, and the address of the handler in it."""
    form = text_constant("form", "kinetree: the launch of a kernel failed: %s (CUDA error %d)")
    head = ["declare i32 @snprintf(ptr, i64, ptr, ...)", form, text_constant("unknown", "unknown")]
    module = llvm.parse_assembly("\n".join([*head, text]))
    module.verify()
    engine = llvm.create_mcjit_compiler(module, this_processor().machine())
    engine.finalize_object()
    return engine, engine.get_function_address("handler")

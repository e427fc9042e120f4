"""Native code for XLA: handlers, registered under the names of their content."""

import ctypes
import os
from typing import Any

import jax

from .kept.notice import warn_not_native
from .kept.once import Once, immortal
from .llvm import handler

DTYPES = ("float32", "float64")


def native_enabled() -> bool:
    """True if native bodies may be used at all: KINETREE_NATIVE=0 switches them off."""
    return os.environ.get("KINETREE_NATIVE") != "0"


def supported() -> bool:
    """True if the installed JAX can call native code; warns if it can not."""
    if handler.supported():
        return True
    known = " and ".join(".".join(map(str, v)) for v in handler.VERSIONS)
    spoken = ".".join(map(str, handler.version())) or "unknown"
    warn_not_native("everything inside jit", f"this JAX has version {spoken} of XLA's FFI, and {known} are known")
    return False


_registered: Once[str] = Once()


def register(name: str, handler: int, platform: str, owner: Any) -> str:
    """Register a handler with XLA, once, under the name of its content; returns the name of the target.

    XLA never forgets a handler, so its `owner` lives as long as the process.
    """

    def tell() -> str:
        capsule = ctypes.pythonapi.PyCapsule_New
        capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        immortal(owner)
        target = f"kinetree_{name}"
        jax.ffi.register_ffi_target(target, capsule(handler, None, None), platform=platform)
        return target

    return _registered.get((name, platform), tell)

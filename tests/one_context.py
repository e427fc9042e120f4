"""One MLIR context for many programs: JAX makes one for each, which is a quarter of what a small program takes."""

import threading

from jax._src.interpreters import mlir

PROGRAMS = 100  # to a context: it keeps the constants of all
_own = threading.local()


def install() -> None:
    """From here on, in this process; versions of JAX that make contexts elsewhere are left alone."""
    make = getattr(mlir, "make_ir_context", None)
    if make is None:
        return

    def kept():
        made = getattr(_own, "made", 0)
        if made % PROGRAMS == 0:
            _own.context = make()
        _own.made = made + 1
        return _own.context

    mlir.make_ir_context = kept

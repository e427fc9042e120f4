"""Children of a fork: native code runs in them, XLA does not.

A fork copies memory but no threads. If the parent had started XLA, a child that uses XLA waits for threads that do not
exist. So in such a child calls on NumPy arrays run only in native code, and all others raise an error.
"""

import os
from collections.abc import Callable
from typing import Any

import jax
from jax.core import Tracer

try:
    from jax._src.xla_bridge import backends_are_initialized  # JAX has no public name for this question
except ImportError:

    def backends_are_initialized() -> bool:
        """It is better to refuse a call too many than to hang."""
        return True


class _Process:
    lost_xla = False


def _in_child() -> None:
    _Process.lost_xla = _Process.lost_xla or backends_are_initialized()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def xla_is_lost() -> bool:
    """True if this process was forked from one that had started XLA."""
    return _Process.lost_xla


def require_xla() -> None:
    """Raise RuntimeError if XLA can not run."""
    if _Process.lost_xla:
        raise RuntimeError(
            "this call needs XLA, whose threads were lost when this process was forked: start it by spawn, "
            'as multiprocessing.get_context("spawn") does, or fork before JAX is first used'
        )


def without_xla(function: Callable[..., Any], *arrays: Any) -> Any:
    """`function(*arrays)` if native code computes all of it; RuntimeError if a part needs XLA.

    JAX traces the function: native parts are computed, parts that need XLA stay without a value.
    """
    results: list[Any] = []

    def run() -> tuple:
        results.append(function(*arrays))
        return ()

    try:
        jax.eval_shape(run)
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
        require_xla()
    if any(isinstance(x, Tracer) for x in jax.tree.leaves(results)):
        require_xla()
    return results[0]

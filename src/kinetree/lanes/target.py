"""Targets: kinds of devices that native code is made for.

A target is one folder with one `Target` in it (cpu/, cuda/); `lanes/__init__.py` adds them. A module with a primitive
calls `lower` with the body for XLA and a function that calls the native one of a target. The code that chooses a way
uses `facts()`. No other code depends on the number of targets, or on their names.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import mlir

from kinetree._arrays import in_bits_of

from . import tuning
from .ffi import native_enabled
from .kept.notice import warn_not_native
from .program.bound import Bound

PLATFORMS = ("cpu", "cuda")  # JAX's names of the platforms that have a target


@dataclass(frozen=True)
class Facts:
    """The facts about a device that decide which way is chosen."""

    backend: str  # its name in `jax.default_backend()`
    native: bool = False  # True if native code runs there.
    serves_numpy: bool = False  # True if NumPy arrays need not be copied to it.
    weaves: bool = False  # True if lanes wait for memory: loops are woven into one, placements are computed again.
    written_out_min_states: int = 1 << 62  # states; fewer are not worth up to a second of compiling
    written_out_step_rows: int = 0  # rows; steps of larger robots are not written out by default
    sequence_rows: int = 0  # rows; the same of steps in which lanes go different ways
    level_cost: int = 4  # levels of a tree that cost as much as one stage of chunks

    @property
    def body(self) -> str:
        """What runs lane programs there."""
        return "native" if self.native else "xla"


@dataclass(frozen=True)
class Target:
    """Native code for one kind of device. A result of None means that it can not serve; it has warned why."""

    facts: Facts
    run: Callable[[Bound, tuple, tuple, tuple], list | None]  # (bound, tables, constants, inputs) -> traced outputs
    walk: Callable[..., list | None]  # (walk, shape, arrays, resident) -> final states and results, on traced arrays
    pairs: Callable[..., list | None]  # (pairs, arrays) -> the matrix of all pairs, from traced arrays
    chunks: Callable[[int], int]  # rows of a huge tree -> chunks of its long paths, 0 to choose another way
    compiled: Callable[..., Any] | None = None  # (program, dtype) -> the program for NumPy arrays


_targets: dict[str, Target] = {}
_missing: dict[str, Exception] = {}


def add_target(platform: str, target: Target | Exception) -> None:
    """Register a target, or the reason why there is none."""
    if isinstance(target, Exception):
        _missing[platform] = target
    else:
        _targets[platform] = target


def target_of(platform: str, what: str) -> Target | None:
    """The target of a platform; None, with a warning that names `what`, if there is none."""
    if not native_enabled():
        return None
    if platform in _missing:
        warn_not_native(what, _missing[platform])
    return _targets.get(platform)


def facts(backend: str | None = None) -> Facts:
    """The facts of a backend, by default of JAX's default backend."""
    if sys.is_finalizing():  # JAX would open its devices again, in a thread that never starts
        raise RuntimeError("Python is shutting down, and JAX has closed its devices")
    name = jax.default_backend() if backend is None else backend
    known = next((t.facts for t in _targets.values() if t.facts.backend == name), None)
    return known if known is not None and native_enabled() else Facts(name)


def current() -> Target | None:
    """The target of JAX's default backend."""
    name = jax.default_backend()
    found = next((t for t in _targets.values() if t.facts.backend == name), None)
    return found if native_enabled() else None


def compiled(program: Any, dtype: str) -> Any:
    """The program for NumPy arrays, or None if they must go through JAX. It lives as long as the program."""
    target = target_of("cpu", program.name)
    return None if target is None or target.compiled is None else target.compiled(program, dtype)


def lowered(run: Callable) -> Callable:
    """The lowering of a function with several results, traced in the bits of its numbers.

    In JAX's 32-bit mode a program may hold float64 arrays, too, and XLA's bodies make new arrays of their type.
    """
    rule = mlir.lower_fun(run, multiple_results=True)

    def lower(ctx: Any, *arguments: Any, **params: Any) -> Any:
        wide = any(x.dtype == np.float64 for x in (*ctx.avals_in, *ctx.avals_out))
        with in_bits_of(np.dtype(np.float64 if wide else np.float32)):
            return rule(ctx, *arguments, **params)

    return lower


def lower(
    primitive: Primitive,
    by_xla: Callable,
    natively: Callable[..., list | None],
    prepared: Callable[[Any, Callable], Callable] = lambda ctx, body: body,
) -> None:
    """Register the lowering of a primitive.

    Arguments:
        primitive: it has several results.
        by_xla: `(*arrays, **params) -> results`, the body for any platform.
        natively: `(target, *arrays, **params) -> results`, or None if the target can not serve.
        prepared: `(context of the lowering, body) -> body`.
    """

    def body(platform: str) -> Callable:
        def run(*arrays: Any, **params: Any) -> list:
            target = target_of(platform, primitive.name)
            found = None if target is None else natively(target, *arrays, **params)
            return by_xla(*arrays, **params) if found is None else found

        return run

    def rule(run: Callable) -> Callable:
        return lambda ctx, *a, **params: lowered(prepared(ctx, run))(ctx, *a, **params)

    mlir.register_lowering(primitive, rule(by_xla))
    for platform in PLATFORMS:
        mlir.register_lowering(primitive, rule(body(platform)), platform=platform)


def define_eager(primitive: Primitive) -> None:
    """Let a primitive run on concrete arrays.

    This also works under `jax.disable_jit`, where `jit` would call the primitive again, without end. To JAX a lane
    program is one operation, and operations are always compiled.
    """

    @lru_cache(maxsize=tuning.EAGER_MAX_CALLS)
    def compiled(**params: Any) -> Any:
        return jax.jit(partial(primitive.bind, **params))

    def run(*arguments: Any, **params: Any) -> Any:
        with jax.disable_jit(False):
            return compiled(**params)(*arguments)

    primitive.def_impl(run)

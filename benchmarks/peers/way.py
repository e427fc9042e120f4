"""One way in which a peer answers a problem."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ..measure import Problem
from ..timing import stopwatch


@dataclass(frozen=True)
class Way:
    """What is timed, and what it gives."""

    name: str
    threads: int  # that it may use
    call: Callable[[], Any]  # timed; a loop over states throws its results away
    result: Callable[[], Any]  # not timed: the same results, in kinetree's layout
    compile_s: float = 0.0
    queued: bool = True  # as in `timing.repeated`


def states(problem: Problem) -> list[np.ndarray]:
    """The problem's arrays, each with a batch axis."""
    return [np.atleast_2d(x) for x in problem.state]


def mapped(problem: Problem, threads: int, single: Callable[..., Any], order: list[int] | None = None) -> Way:
    """A JAX function of one state, under `vmap` and `jit`, on device arrays.

    Arguments:
        problem: what to solve.
        threads: of the CPU; XLA takes all it finds.
        single: the function, on the peer's order of joints.
        order: where each of kinetree's joints stands in it; the same order if not given.
    """
    there = np.arange(problem.case.n) if order is None else np.asarray(order)
    given = [jax.device_put(x[..., np.argsort(there)]) for x in problem.state]
    jitted = jax.jit(single if problem.case.batch == 1 else jax.vmap(single))
    seconds, compiled = stopwatch(lambda: jitted.lower(*given).compile())
    queued = jax.default_backend() != "cpu"
    return Way(
        "jit", threads, lambda: compiled(*given), lambda: np.asarray(compiled(*given))[..., there], seconds, queued
    )

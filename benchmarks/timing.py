"""Timing: results waited for, many calls to a sample, so that neither the clock nor a launch is what is measured."""

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

SAMPLE_SECONDS = 0.02  # what a sample should last
MOST_CALLS = 10_000  # in a sample
LEAST_SAMPLES = 3
LONG = 1.0  # seconds of a call of which one sample is enough


def stopwatch(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds until the result is there, and the result."""
    start = time.perf_counter()
    result = jax.block_until_ready(call())
    return time.perf_counter() - start, result


def _sample(call: Callable[[], Any], calls: int, queued: bool) -> float:
    """Mean seconds of a number of calls.

    NumPy results are there when a call returns. A GPU runs what is queued in order, so the last result stands for all.
    XLA on a CPU may overlap calls: each is waited for.
    """
    result = None
    start = time.perf_counter()
    for _ in range(calls):
        result = call()
        if not queued:
            result = jax.block_until_ready(result)
    jax.block_until_ready(result)
    return (time.perf_counter() - start) / calls


def repeated(call: Callable[[], Any], seconds: float, *, queued: bool) -> dict[str, Any]:
    """Median and spread over samples; some at the least, then as many as fit into a span of time.

    Arguments:
        call: what is timed; it has been called before.
        seconds: the span.
        queued: calls may follow each other without waiting: results are NumPy arrays, or come from a GPU in order.
    """
    once = _sample(call, 1, queued)
    calls = int(np.clip(min(SAMPLE_SECONDS, seconds) / max(once, 1e-9), 1, MOST_CALLS))
    least = LEAST_SAMPLES if once < LONG else 1
    samples, end = [], time.perf_counter() + seconds
    while len(samples) < least or time.perf_counter() < end:
        samples.append(_sample(call, calls, queued))
    low, high = np.percentile(samples, [25, 75])
    return {
        "median_s": statistics.median(samples),
        "best_s": min(samples),
        "spread_s": float(high - low),  # between the quartiles
        "samples": len(samples),
        "calls_per_sample": calls,
    }


def copy_bandwidth(threads: int, megabytes: int = 256) -> float:
    """Bytes a second that a copy reads and writes on JAX's device; on a CPU with a number of threads."""
    if jax.default_backend() == "cpu":
        parts = np.array_split(np.ones(megabytes << 17), threads)
        targets = [np.ones_like(part) for part in parts]
        with ThreadPoolExecutor(threads) as pool:
            times = [stopwatch(lambda: list(pool.map(np.copyto, targets, parts)))[0] for _ in range(5)]
        return 2 * sum(part.nbytes for part in parts) / min(times)
    source = jnp.ones(megabytes << 20, jnp.float32)
    negate = jax.jit(jnp.negative)  # moves what a copy moves; an identity might be given its own argument back
    jax.block_until_ready(negate(source))
    return 2 * source.nbytes / repeated(lambda: negate(source), 0.1, queued=True)["best_s"]

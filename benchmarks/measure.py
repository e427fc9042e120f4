"""Timing: compile time apart, calls repeated, results waited for, memory counted."""

import resource
import statistics
import subprocess
import time
from typing import Any

import jax
import numpy as np

import kinetree as kt

from .cases import Case


def environment() -> dict[str, Any]:
    """What the figures were measured with."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    device = jax.devices()[0]
    return {
        "commit": commit.stdout.strip(),
        "kinetree": kt.__version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "device": f"{device.platform} {device.device_kind}",
    }


def copy_bandwidth(megabytes: int = 256) -> float:
    """Bytes a second that a copy reads and writes."""
    source = np.ones(megabytes << 17)
    target = np.empty_like(source)
    np.copyto(target, source)
    start = time.perf_counter()
    np.copyto(target, source)
    return 2 * source.nbytes / (time.perf_counter() - start)


def least_bytes(case: Case) -> int:
    """What must be read and written at the least: three arrays in, one out."""
    return 4 * case.n * case.batch * np.dtype(case.dtype).itemsize


def measure(case: Case, bandwidth: float, seconds: float = 1.0) -> dict[str, Any]:
    """One record: first call, then median and spread of the calls that fit into a span of time (one at the least)."""
    start = time.perf_counter()
    model = kt.auto_tree(case.n, case.branching, 0.3)
    building = time.perf_counter() - start
    rng = np.random.default_rng(0)
    state = [a.astype(case.dtype) for a in rng.uniform(-1, 1, (3, case.batch, case.n))]
    options = {"method": case.method} if case.algorithm == "forward_dynamics" else {}

    def call() -> Any:
        return jax.block_until_ready(getattr(kt, case.algorithm)(model, *state, schedule=case.schedule, **options))

    start = time.perf_counter()
    call()
    first = time.perf_counter() - start
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    median = statistics.median(times)
    return {
        "case": case.name,
        "build_s": building,
        "compile_s": max(0.0, first - median),
        "median_s": median,
        "spread_s": max(times) - min(times),
        "calls": len(times),
        "states_per_s": case.batch / median,
        "fraction_of_copy_bandwidth": least_bytes(case) / median / bandwidth,
        "peak_memory_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }

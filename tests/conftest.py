"""How the tests run: 64-bit numbers, strict promotion of types, nothing taken from a compilation cache."""

import gc
import os
from pathlib import Path

# XLA's older way to write loops compiles twice as fast. It is read once, when the first program is compiled; what the
# caller has set comes later, and wins.
os.environ["XLA_FLAGS"] = "--xla_cpu_use_fusion_emitters=false " + os.environ.get("XLA_FLAGS", "")

import jax
import pytest
from hypothesis import HealthCheck, settings

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_enable_compilation_cache", False)

# Compilation makes the first example slow, so there is no deadline. Under CI the examples are the same at each run.
settings.register_profile(
    "kinetree",
    deadline=None,
    max_examples=20,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("kinetree")


# Most tests compile a program and run it once: little optimization takes a third off their time.
jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture
def full_compilation():
    """All of XLA's optimizations, for tests that run long and for those that weigh one rounding against another."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


MOST_MAPS = 20_000  # of the 65 530 that Linux gives a process; XLA takes a few for every program, and dies without


@pytest.fixture(autouse=True)
def forget_programs():
    """Before a process runs out of memory maps, drop what earlier tests compiled."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
        gc.collect()

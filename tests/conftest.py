"""How the tests run: 64-bit numbers, strict promotion of types, a cache of their own, on the CPU if they ask for it."""

import gc
import itertools
import os
import tempfile
from pathlib import Path

from tests.xla_flags import flags

os.environ["XLA_FLAGS"] = flags(os.environ.get("XLA_FLAGS", ""))  # XLA reads it once, at the first compilation

# Most tests compile a program and run it once: little optimization takes a third off their time. In the surroundings,
# so that processes that tests start do the same.
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
os.environ["JAX_TRACEBACK_IN_LOCATIONS_LIMIT"] = "0"  # where operations come from: a seventh of lowering

import jax
import pytest
from hypothesis import HealthCheck, settings

from tests import one_context, quick_code, quick_operators
from tests.left_out import pytest_terminal_summary

__all__ = ["pytest_terminal_summary"]

# Compiled programs go to a folder of this run. The processes of pytest-xdist inherit it from the one that started them.
if "PYTEST_XDIST_WORKER" not in os.environ:
    CACHE = tempfile.TemporaryDirectory(prefix="kinetree-tests-", ignore_cleanup_errors=True)
    os.environ["KINETREE_CACHE"] = CACHE.name
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):  # to parse the sources is half of what a new process takes
        os.environ["PYTHONPYCACHEPREFIX"] = os.path.join(CACHE.name, "bytecode")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # two processes share a GPU

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

gc.disable()  # until all tests are collected: that takes a quarter less, and leaves no garbage

quick_code.install()
one_context.install()
quick_operators.install()


@pytest.fixture
def full_compilation():
    """All of XLA's optimizations, for tests that run long and for those that weigh one rounding against another."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture(autouse=True)
def on_the_cpu(request, monkeypatch):
    """Tests marked `cpu` run there, and the processes that they start, whatever else the machine has."""
    if request.node.get_closest_marker("cpu") is None or jax.default_backend() == "cpu":
        yield
        return
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")  # JAX's own knows nothing of a default device
    with jax.default_device(jax.devices("cpu")[0]):
        yield


def pytest_collection_finish(session):
    """Tracing makes many objects and little garbage: fewer collections, of what is new only, take 6 % off all tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()


OFTEN = 20  # tests; to count the maps takes 7 ms
MOST_MAPS = 40_000  # of the 65 530 that Linux gives a process; XLA takes a few for every program, and dies without


_finished = itertools.count(1)


@pytest.fixture(autouse=True)
def forget_programs():
    """Before a process runs out of memory maps, drop what earlier tests compiled."""
    yield
    maps = Path("/proc/self/maps")
    if next(_finished) % OFTEN == 0 and maps.exists() and maps.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
        gc.collect()

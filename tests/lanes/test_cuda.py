"""Handlers that launch kernels, as far as they can be tested without a GPU: they are compiled, and launch nothing."""

import ctypes
from types import SimpleNamespace

import pytest

from kinetree.dynamics.algorithms.crba import FACTORS
from kinetree.dynamics.algorithms.rnea import RNEA
from kinetree.dynamics.composite import ENTRIES
from kinetree.dynamics.schedules.stages import Plan, inward_walks, outward_walks
from kinetree.lanes import cuda, pairs_native, walk_native
from kinetree.lanes.ptx import Reach
from tests.dynamics.programs import rnea_lanes


@pytest.fixture
def registered(monkeypatch):
    """Addresses of handlers by name, with a driver that has only the address of a launch."""
    found: dict[str, int] = {}
    driver = SimpleNamespace(cuLaunchKernel=ctypes.CDLL(None).abort)
    monkeypatch.setattr(cuda, "_driver", lambda: driver)
    monkeypatch.setattr(cuda, "chip", lambda: 90)
    monkeypatch.setattr(cuda, "load_kernel", lambda text: 4096)
    monkeypatch.setattr(cuda, "register", lambda name, handler, platform: found.setdefault(name, handler) and name)
    for cached in (cuda.cuda_kernel, pairs_native._target, walk_native._cuda_target):
        cached.cache_clear()
    yield found
    for cached in (cuda.cuda_kernel, pairs_native._target, walk_native._cuda_target):
        cached.cache_clear()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_walks_and_pairs(registered, dtype):
    names = [
        walk_native._cuda_target(outward_walks(Plan(RNEA, False), 0).reduce, dtype),
        walk_native._cuda_target(inward_walks(Plan(FACTORS, False), 1).walk(True, 2, False), dtype),
        pairs_native._target(ENTRIES, dtype),
    ]
    assert set(names) == set(registered)
    assert all(registered.values())


def test_programs(registered):
    program = rnea_lanes(False, False).program
    for widths, reach in (((32,) * 4, Reach.TILE), ((400,) * 4, Reach.COLUMNS)):
        kernel = cuda.cuda_kernel(program, "float32", 700, widths)
        assert kernel.reach is reach
        assert kernel.handler
        assert not kernel.global_scratch


def test_a_chip_that_can_not_run_it_falls_back(registered, monkeypatch):
    def refuse(text):
        raise cuda.CudaError("no kernel image is available")

    monkeypatch.setattr(cuda, "load_kernel", refuse)
    assert pairs_native._target(ENTRIES, "float32") is None
    assert walk_native._cuda_target(outward_walks(Plan(RNEA, False), 0).reduce, "float32") is None

"""Memory of large results is used again, and never while somebody can see it."""

import gc
import subprocess
import sys

import numpy as np

from kinetree.lanes import tuning
from kinetree.lanes.cpu.recycled import empty, last_reach, reach_of

SHAPE = (3, tuning.RECYCLED_MIN_BYTES // 8)


def address(x):
    return x.__array_interface__["data"][0]


def test_memory_comes_back_when_the_last_view_is_gone():
    first = empty(SHAPE, np.float64)
    first[:] = 1
    at, view = address(first), first[1, 5:].reshape(-1)
    del first
    gc.collect()
    second = empty(SHAPE, np.float64)
    assert address(second) != at
    second[:] = 2
    assert (view == 1).all()
    del view
    gc.collect()
    third = empty(SHAPE, np.float64)
    assert address(third) == at
    assert third.shape == SHAPE
    assert third.dtype == np.float64
    assert third.flags.writeable
    assert third.flags.c_contiguous


def test_what_is_kept_is_bounded(monkeypatch):
    one = 8 * SHAPE[0] * SHAPE[1] + tuning.RECYCLED_ALIGNMENT
    monkeypatch.setattr(tuning, "RECYCLED_MAX_BYTES", 2 * one)
    held = [empty(SHAPE, np.float64) for _ in range(4)]
    places = [address(x) for x in held]
    while held:
        held.pop(0)
    again = [empty(SHAPE, np.float64) for _ in range(4)]
    assert [address(x) for x in again[:2]] == places[:1:-1]  # the two that came back last


def test_reach_is_what_was_handed_out_since_the_memory_was_used_last():
    shape = (SHAPE[0], SHAPE[1] + 8)  # of no other test
    size = 8 * shape[0] * shape[1]

    def round_of(count):
        held = [(empty(shape, np.float64), last_reach.value) for _ in range(count)]
        return [reach for _, reach in held]

    assert round_of(3) == [size] * 3  # New memory was not used before.
    assert round_of(3)[1:] == [3 * size] * 2
    round_of(1)
    assert round_of(1) == [size]  # A result that takes the same memory each time stays in the cache.
    assert reach_of([np.zeros(4)]) == 32


def test_small_arrays_are_plain():
    assert empty((4,), np.float32).base is None


def test_results_begin_at_a_line_of_the_cache():
    held = [empty((k, SHAPE[1]), np.float64) for k in range(1, 4)]
    assert {address(x) % tuning.RECYCLED_ALIGNMENT for x in held} == {0}


def test_results_that_outlive_the_modules_say_nothing():
    script = """
from kinetree.lanes import tuning
from kinetree.lanes.cpu.recycled import empty, last_reach, reach_of
tuning.kept = empty((1 << 20,), float)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not done.stderr


def test_memory_that_comes_back_is_not_described_again():
    """To describe it takes 3 µs, as long as 100 Jacobians."""
    first = empty(SHAPE, np.float32)
    described = first.base.__array_interface__
    del first
    again = empty(SHAPE, np.float32)
    assert again.base.__array_interface__ is described
    other = empty(SHAPE[::-1], np.float32)
    assert other.shape == SHAPE[::-1]

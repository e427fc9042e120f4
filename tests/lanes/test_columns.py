"""Rows of lane arrays become columns and rows again: small and large results, to the last bit and the last lane."""

import ctypes
import mmap
import sys

import jax
import numpy as np
import pytest

import kinetree as kt
from kinetree.lanes import tuning


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rows", [8, 9, 11])  # a line of memory begins elsewhere in each lane
def test_same_bits_as_in_small_batches(rows, dtype):
    model = kt.auto_tree(rows, 1.4, 0.3)
    lanes = tuning.STREAM_MIN_BYTES // (rows * rows * np.dtype(dtype).itemsize) + 5
    q = np.random.default_rng(0).standard_normal((lanes, rows)).astype(dtype)
    H = kt.mass_matrix(model, q)
    assert H.dtype == dtype
    assert H.nbytes >= tuning.STREAM_MIN_BYTES
    pieces = np.concatenate([kt.mass_matrix(model, q[k : k + 1000]) for k in range(0, lanes, 1000)])
    np.testing.assert_array_equal(H, pieces)
    np.testing.assert_array_equal(jax.jit(kt.mass_matrix)(model, q), H)


def test_several_outputs():
    model = kt.auto_tree(9, 1.4, 0.3)
    lanes = tuning.STREAM_MIN_BYTES // (9 * 12 * 8) + 3
    q = np.random.default_rng(1).standard_normal((lanes, 9))
    whole = kt.forward_kinematics(model, q)
    for k in (0, lanes // 2, lanes - 1):
        one = kt.forward_kinematics(model, q[k])
        np.testing.assert_allclose(whole.rotation[k], one.rotation, rtol=0, atol=1e-15)
        np.testing.assert_allclose(whole.position[k], one.position, rtol=0, atol=1e-14)


def test_what_is_not_finite_is_seen():
    model = kt.auto_tree(9, 1, 0.3)
    lanes = tuning.STREAM_MIN_BYTES // (81 * 8) + 3
    q = np.zeros((lanes, 9))
    for bad in (0, lanes // 2, lanes - 1):
        q[bad, 3] = np.nan
        H = kt.mass_matrix(model, q)
        assert np.isnan(H[bad]).any()
        assert np.isfinite(np.delete(H, bad, 0)).all()
        q[bad, 3] = 0.0


EVERY = [*((rows, np.float64) for rows in range(1, 10)), *((rows, np.float32) for rows in (1, 5, 8, 15, 16))]


@pytest.mark.parametrize(("rows", "dtype"), EVERY)  # fewer columns than a vector has numbers, as many, and more
def test_every_number_of_columns(rows, dtype):
    model = kt.auto_tree(rows, 1.4, 0.3)
    q, qd, qdd = np.random.default_rng(2).standard_normal((3, 21, rows)).astype(dtype)
    tau, H = kt.inverse_dynamics(model, q, qd, qdd), kt.mass_matrix(model, q)
    one_by_one = [kt.inverse_dynamics(model, *x) for x in zip(q, qd, qdd, strict=True)]
    close = (1e-12 if dtype == np.float64 else 1e-4) * np.abs(tau).max()
    np.testing.assert_allclose(tau, one_by_one, rtol=0, atol=close)
    np.testing.assert_allclose(H, [kt.mass_matrix(model, x) for x in q], rtol=0, atol=close)


@pytest.mark.skipif(sys.platform != "linux", reason="protects a page of memory as Linux does")
def test_nothing_is_read_or_written_past_the_last_row():
    """Rows shorter than a vector are read and written at once, with a mask. The page after them can not be touched."""
    model, page, lanes = kt.auto_tree(3, 1), mmap.PAGESIZE, 16
    memory = mmap.mmap(-1, 2 * page)
    whole = np.frombuffer(memory, np.uint8)
    libc, size = ctypes.CDLL(None, use_errno=True), 8 * 3 * lanes
    assert libc.mprotect(ctypes.c_void_p(whole.ctypes.data + page), ctypes.c_size_t(page), 0) == 0
    given = whole[page - size : page].view(np.float64).reshape(lanes, 3)
    given[:] = np.random.default_rng(3).standard_normal((lanes, 3))
    state = given.copy()
    tau = kt.inverse_dynamics(model, state, state, state)
    np.testing.assert_array_equal(kt.inverse_dynamics(model, given, given, given), tau)


def test_zeros_are_written_once_and_stay():
    model = kt.auto_tree(11, 2.5)
    related = model.tree.ancestor_pairs
    unrelated = np.ones((11, 11), bool)
    unrelated[related] = unrelated[related[::-1]] = False
    for lanes in (8, 37, 3000):
        H = kt.mass_matrix(model, np.random.default_rng(lanes).standard_normal((lanes, 11)))
        assert (H[:, unrelated] == 0).all()
        assert (H[:, ~unrelated] != 0).any(0).all()

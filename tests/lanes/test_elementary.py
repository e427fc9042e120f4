"""Elementary functions of the native bodies against mpmath: random arguments of every size, and the special ones."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from kinetree.lanes.cpu.compiled import CompiledProgram
from kinetree.lanes.cuda.ptx import Access, ptx
from tests.lanes.assembler import assemble
from tests.lanes.test_native import ONE_TURN, elementwise

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -3.0, np.inf, -np.inf, np.nan, 1e-310, 1e308, -1e-310, 1e-30, -1e30]
COUNT = 400


def spread(rng, dtype, low, high):
    """Numbers of both signs, of all sizes between these powers of two."""
    return (rng.choice([-1, 1], COUNT) * 2 ** rng.uniform(low, high, COUNT)).astype(dtype)


def anything(rng, dtype):
    return spread(rng, dtype, *((-1070, 1023) if dtype == np.float64 else (-148, 127)))


def pairs(rng, dtype):
    return anything(rng, dtype), anything(rng, dtype)


def near(rng, dtype):
    return spread(rng, dtype, -3, 3), spread(rng, dtype, -3, 3)


FUNCTIONS = {  # in JAX, in mpmath, arguments, and how many units in the last place are allowed
    "exp": (jnp.exp, mpmath.exp, lambda r, t: (spread(r, t, -30, 9.4),), 1),
    "log": (jnp.log, mpmath.log, lambda r, t: (np.abs(anything(r, t)),), 1),
    "log near 1": (jnp.log, mpmath.log, lambda r, t: ((1 + spread(r, t, -20, -1)).astype(t),), 1),
    "atan2": (jnp.arctan2, mpmath.atan2, pairs, 2),
    "atan2 near": (jnp.arctan2, mpmath.atan2, near, 2),
    "atan": (jnp.arctan, mpmath.atan, lambda r, t: (anything(r, t),), 2),
    "asin": (jnp.arcsin, mpmath.asin, lambda r, t: (spread(r, t, -30, 0),), 3),
    "acos": (jnp.arccos, mpmath.acos, lambda r, t: (spread(r, t, -30, 0),), 3),
    "tan": (jnp.tan, mpmath.tan, lambda r, t: (spread(r, t, -30, 10),), 3),
    "power": (jnp.power, mpmath.power, lambda r, t: (np.abs(spread(r, t, -8, 8)), spread(r, t, -4, 3)), 3),
    "any power": (jnp.power, mpmath.power, lambda r, t: (np.abs(anything(r, t)), spread(r, t, -60, 3)), 24),
}


def native(name, function, columns):
    """On vectors; and one by one, where the bits must be the same."""
    program = elementwise(f"test_{name.replace(' ', '_')}", function, len(columns))
    compiled = CompiledProgram(program, columns[0].dtype)
    inputs = tuple(c[:, None] for c in columns)

    def call(inputs):
        return compiled(1, (1,), ONE_TURN, (np.zeros((1, 0), columns[0].dtype),), inputs)[0][:, 0]

    found = call(inputs)
    singly = np.array([call(tuple(x[k : k + 1] for x in inputs))[0] for k in range(0, len(found), 5)])
    np.testing.assert_array_equal(found[::5], singly)
    return found


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_against_mpmath(name, dtype):
    function, exact, arguments, allowed = FUNCTIONS[name]
    columns = arguments(np.random.default_rng(3), dtype)
    found = native(name, function, columns)
    with mpmath.workdps(60):
        for value, *x in zip(found.tolist(), *(c.tolist() for c in columns), strict=True):
            true = exact(*x)
            if abs(true) > np.finfo(dtype).max:
                assert np.isinf(value)
                continue
            unit = np.spacing(max(dtype(abs(float(true))), np.finfo(dtype).tiny))
            assert abs(true - value) <= allowed * float(unit), (x, value)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["exp", "log", "atan2", "power", "atan", "asin", "acos"])
def test_special_arguments(name, dtype):
    """As NumPy, whose functions are C's: zeros and their signs, infinities, NaN, negative bases, subnormal numbers."""
    function = FUNCTIONS[name][0]
    count = 2 if name in ("atan2", "power") else 1
    with np.errstate(all="ignore"):
        x = np.array(SPECIAL).astype(dtype)
        columns = [c.ravel() for c in np.meshgrid(*[x] * count)]
        found, expected = native(name, function, columns), getattr(np, function.__name__)(*columns)
    np.testing.assert_allclose(found, expected, rtol=8 * np.finfo(dtype).eps, atol=np.spacing(dtype(0)))
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(expected[known]))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_kernels_are_accepted_by_the_assembler(dtype, tmp_path):
    def all_of_them(x, y):
        return sum(f(x) for f in (jnp.exp, jnp.log, jnp.arccos, jnp.tan, jnp.round)) + jnp.arctan2(x, y) + x**y

    text = ptx(elementwise("test_elementary", all_of_them, 2), np.dtype(dtype), 1, reach=Access.COLUMNS).text
    assert ".extern .func" not in text  # of a library that is not there
    assemble(text, tmp_path)


def test_the_smaller_primitives():
    """Integers, clamps and rounding; by NumPy."""

    def function(x, y):
        whole = jnp.maximum(jnp.minimum(x.astype(jnp.int64), 2), -jnp.int64(3))
        inside = jax.lax.clamp(-1.0, y, 0.5) + jnp.round(x) + jnp.where(jnp.isfinite(x / y), 1.0, 0.0)
        return whole.astype(x.dtype) + inside + jnp.clip(x, 0, 1)

    x = np.array([-4.5, -2.5, -0.5, 0.5, 1.5, 2.5, 7.0, 1.0, 0.0])
    y = np.array([-2.0, -1.0, 0.25, 0.5, 3.0, -0.75, 0.0, -0.0, 0.0])
    with np.errstate(all="ignore"):
        expected = (
            np.clip(np.trunc(x), -3, 2) + np.clip(y, -1, 0.5) + np.round(x) + np.isfinite(x / y) + np.clip(x, 0, 1)
        )
    np.testing.assert_array_equal(native("smaller primitives", function, [x, y]), expected)

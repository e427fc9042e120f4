"""Scans against plain loops, with operators that do not commute, in all directions, methods and awkward sizes."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetree.tree.scans import add, scan

METHODS = ["native", "blocked", "work_efficient"]
exclusive = pytest.mark.parametrize("exclusive", [False, True])


class Affine(NamedTuple):
    """x -> scale x + shift, on integers that wrap around: exact, and it does not commute."""

    scale: Any
    shift: Any


def then(a: Affine, b: Affine) -> Affine:
    return Affine(b.scale * a.scale, b.scale * a.shift + b.shift)


def matmul(a, b):
    return a @ b


class Quaternion(NamedTuple):
    w: Any
    x: Any
    y: Any
    z: Any


def hamilton(a: Quaternion, b: Quaternion) -> Quaternion:
    return Quaternion(
        a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z,
        a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
        a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x,
        a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w,
    )


def matrices(n, seed=0):
    """Integer matrices whose products wrap around, so that equality is exact."""
    return np.random.default_rng(seed).integers(-(2**31), 2**31, (n, 2, 2)).astype(np.int32)


def affines(n, seed=0):
    a, b = np.random.default_rng(seed).integers(-(2**31), 2**31, (2, n)).astype(np.int32)
    return Affine(a, b)


def quaternions(n, seed=0):
    q = np.random.default_rng(seed).normal(size=(4, n))
    return Quaternion(*(q / np.linalg.norm(q, axis=0)))


ONE = Affine(1, 0)
OPERATORS = {
    "matrices": (matmul, matrices, np.eye(2)),
    "affine maps": (then, affines, ONE),
    "quaternions": (hamilton, quaternions, Quaternion(1, 0, 0, 0)),
}


# Compiled as a whole, and once for each shape: operation by operation it would be hundreds of small programs.
fast_scan = jax.jit(scan, static_argnames=("combine", "method", "block", "exclusive"))


def plain_scan(combine, elements, identity, exclusive=False):
    """The definition, in NumPy, one product at a time. Factors stay in the order of the array."""
    n = len(jax.tree.leaves(elements)[0])
    running = jax.tree.map(lambda e, x: np.asarray(e, x.dtype)[None], identity, elements)
    out = [None] * n
    for i in range(n):
        single = jax.tree.map(lambda x, i=i: x[i : i + 1], elements)
        after = combine(running, single)
        out[i] = running if exclusive else after
        running = after
    return jax.tree.map(lambda *xs: np.concatenate(xs), *out)


def assert_same(got, wanted):
    assert jax.tree.structure(got) == jax.tree.structure(wanted)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        assert a.dtype == b.dtype
        if jnp.issubdtype(a.dtype, jnp.floating):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
        else:
            np.testing.assert_array_equal(a, b)


@exclusive
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_that_do_not_commute(name, method, exclusive):
    combine, make, identity = OPERATORS[name]
    for n in (2, 23):
        elements = make(n)
        got = fast_scan(combine, elements, identity, method=method, block=4, exclusive=exclusive)
        assert_same(got, plain_scan(combine, elements, identity, exclusive))


@pytest.mark.parametrize("block", [1, 2, 3, 8, 64, 1000])
def test_blocks_of_any_size(block):
    for n in (1, 8, 65):
        elements = affines(n)
        assert_same(fast_scan(then, elements, ONE, block=block), plain_scan(then, elements, ONE))


@pytest.mark.parametrize("method", METHODS)
@given(n=st.sampled_from([1, 3, 8, 13]), seed=st.integers(0, 2**32 - 1), exclusive=st.booleans())
def test_methods_agree(method, n, seed, exclusive):
    elements = affines(n, seed)
    assert_same(
        fast_scan(then, elements, ONE, method=method, block=5, exclusive=exclusive),
        plain_scan(then, elements, ONE, exclusive=exclusive),
    )


@exclusive
def test_mapped_adds_component_by_component(exclusive):
    def plus(a, b):
        return {"a": a["a"] + b["a"], "b": a["b"] + b["b"]}

    elements = {"a": np.arange(12, dtype=np.int32).reshape(6, 2), "b": np.arange(6.0)}
    zero = {"a": np.zeros(2), "b": 0}
    got = fast_scan(add, elements, zero, method="mapped", exclusive=exclusive)
    assert_same(got, plain_scan(plus, elements, zero, exclusive))
    np.testing.assert_array_equal(scan(jnp.add, jnp.ones(5), 0, method="mapped"), jnp.arange(1.0, 6.0))


def test_mapped_refuses_other_operators():
    with pytest.raises(ValueError, match="addition only"):
        scan(jnp.maximum, jnp.ones(3), -jnp.inf, method="mapped")


@exclusive
@pytest.mark.parametrize("method", [*METHODS, "mapped"])
def test_nothing_scans_to_nothing(method, exclusive):
    empty = jnp.zeros((0, 3))
    got = scan(add, empty, np.zeros(3), method=method, exclusive=exclusive)
    assert got.shape == (0, 3)


@pytest.mark.parametrize("method", METHODS)
def test_under_jit_vmap_and_grad(method):
    run = partial(scan, matmul, identity=np.eye(2), method=method, block=4)
    batch = jnp.stack([jnp.asarray(matrices(11, seed)) for seed in range(3)])
    wanted = np.stack([plain_scan(matmul, np.asarray(x), np.eye(2)) for x in batch])
    assert_same(jax.jit(run)(batch[0]), wanted[0])
    assert_same(jax.jit(jax.vmap(run))(batch), wanted)
    factors = jnp.linspace(0.5, 1.5, 11)
    product = partial(scan, jnp.multiply, identity=1, method=method, block=4)
    gradient = jax.jit(jax.grad(lambda x: product(x)[-1]))(factors)
    np.testing.assert_allclose(gradient, jnp.prod(factors) / factors, rtol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_programs_grow_at_most_with_the_logarithm(method):
    """Counting copies of `combine` in the program: none of the methods unrolls over elements."""
    copies = []
    for n in (2**8, 2**16):
        calls = []

        def counted(a, b, calls=calls):
            calls.append(1)
            return a * b

        jax.make_jaxpr(partial(scan, counted, identity=1, method=method, block=16))(jnp.ones(n))
        copies.append(len(calls))
    assert copies[1] <= 2 * copies[0] + 4 <= 2 * (2 * 8 + 4)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="unknown scan method 'fast': choose one of native, blocked"):
        scan(jnp.add, jnp.ones(3), 0, method="fast")
    with pytest.raises(ValueError, match="block must be positive"):
        scan(jnp.add, jnp.ones(3), 0, block=0)
    with pytest.raises(ValueError, match="one length along axis 0"):
        scan(add, (jnp.ones(3), jnp.ones(4)), (0, 0))
    with pytest.raises(ValueError, match="one length along axis 0"):
        scan(add, jnp.ones(()), 0)

"""Functions of all pairs: against NumPy and XLA, as machine code, and as text for a GPU."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.matrices.crba import ENTRIES, intervals
from kinetree.lanes import tuning
from kinetree.lanes.cpu import pairs as pairs_host
from kinetree.lanes.cpu.host import optimized, this_processor, vector_width
from kinetree.lanes.cuda.pairs import kernel_text
from kinetree.lanes.cuda.ptx import assembled
from kinetree.lanes.pairs import pairs as reference
from kinetree.lanes.pairs.pairs import ABOVE, BELOW, ON, Case, Pairs, all_pairs
from tests.lanes.assembler import assemble

each_pair = jax.jit(reference.each_pair, static_argnums=0)  # at once, not operation after operation
TWO, ONE = jax.tree.structure((0.0, 0.0)), jax.tree.structure((0,))
PAIRS = Pairs(
    "test",
    (
        Case(lambda i, j: i[0] == j[0], lambda i, j: i[0] - 2 * j[1], ON),
        Case(lambda i, j: i[0] < j[0], lambda i, j: i[0] * j[1], ABOVE),
    ),
    TWO,
    ONE,
)
BOTH_SIDES = Pairs(
    "test_both_sides",
    (
        Case(lambda i, j: (i[0] > j[0]) & (i[0] < 2 * j[0]), lambda i, j: i[0] - 2 * j[1], BELOW),
        Case(lambda i, j: (i[0] < j[0]) & (3 * i[0] > j[0]), lambda i, j: i[0] * j[1] + jnp.sin(j[0]), ABOVE),
    ),
    TWO,
    ONE,
)  # nothing on the diagonal, and zeros further off


def test_the_first_case_that_holds():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 9))
    k = np.arange(9)
    same, below = k[:, None] == k, k[:, None] < k
    expected = np.where(same, a[:, None] - 2 * b, np.where(below, a[:, None] * b, 0))
    for function in (all_pairs, jax.jit(all_pairs, static_argnums=0)):
        np.testing.assert_allclose(function(PAIRS, (jnp.asarray(a), jnp.asarray(b)), (k,)), expected, rtol=1e-15)


def members(pairs, n, dtype):
    """Random reals, and places in the tour of a tree or numbers in order."""
    reals = np.random.default_rng(n).normal(size=(pairs.reals.num_leaves, n)).astype(dtype)
    wholes = intervals(kt.auto_tree(n, 1.2).tree) if pairs is ENTRIES else (jnp.arange(n),)
    return jax.tree.unflatten(pairs.reals, list(map(jnp.asarray, reals))), wholes


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("pairs", [PAIRS, BOTH_SIDES, ENTRIES], ids=lambda p: p.name)
def test_native_and_xla(pairs, dtype):
    """Fewer columns than a vector has, a last vector that overlaps, strips above, across and below the diagonal."""
    width = vector_width(np.dtype(dtype))
    assert pairs_host._target(pairs, dtype) is not None
    for n in (1, 2, width - 1, width, width + 1, 100, 257, 1025):
        given = members(pairs, n, dtype)
        ours, theirs = all_pairs(pairs, *given), each_pair(pairs, *given)
        assert ours.dtype == dtype
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=30 * np.finfo(dtype).eps)
        np.testing.assert_array_equal(ours == 0, theirs == 0)


def test_many_strips_side_by_side(monkeypatch):
    """The shortest strips there can be, in as many parts as XLA's threads can take."""
    monkeypatch.setattr(tuning, "PAIRS_MIN_ENTRIES", 1)
    monkeypatch.setattr(tuning, "PAIRS_STRIP_ROWS", 1)
    given = members(ENTRIES, 333, "float64")
    ours = jax.jit(lambda *given: all_pairs(ENTRIES, *given))(*given)
    np.testing.assert_allclose(ours, each_pair(ENTRIES, *given), rtol=0, atol=1e-14)


def test_a_matrix_in_large_pages():
    """Every entry of one that is large enough to be advised, for which a wrong length would end the process."""
    n = 1500
    reals, wholes = members(PAIRS, n, "float64")
    ours = np.asarray(all_pairs(PAIRS, reals, wholes))
    a, b = map(np.asarray, reals)
    expected = np.triu(a[:, None] * b, 1)
    np.fill_diagonal(expected, a - 2 * b)
    np.testing.assert_allclose(ours, expected, rtol=1e-15)


def test_entries_are_vectorised():
    text = pairs_host.cpu_text(ENTRIES, np.dtype(np.float64), vector_width(np.dtype(np.float64)))
    without_scalars = re.sub(r"define internal void @lane\(.*?^}", "", text, flags=re.DOTALL | re.MULTILINE)
    stand_in = without_scalars.replace("call void @lane(", "call void @lanes(")
    assembly = (machine := this_processor().machine()).emit_assembly(optimized(stand_in, machine))
    packed, single = (len(re.findall(rf"\bvf[a-z0-9]+{kind}\b", assembly)) for kind in ("pd", "sd"))
    # four rows, four fused products each, on one side, on the other, and both across the diagonal
    assert packed >= 4 * 4 * 4
    assert single == 0


def test_derivatives_and_batches():
    reals, wholes = members(ENTRIES, 40, "float64")
    weights = jnp.asarray(np.random.default_rng(1).normal(size=(40, 40)))

    def derivatives(function):
        def total(reals):
            return (weights * function(ENTRIES, reals, wholes)).sum()

        return jax.tree.leaves(jax.jit(lambda r: (jax.grad(total)(r), jax.jvp(total, (r,), (r,))))(reals))

    for ours, theirs in zip(derivatives(all_pairs), derivatives(each_pair), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-13, atol=1e-13)
    many = jax.tree.map(lambda x: jnp.stack([x, 2 * x, -x]), reals)
    ours, theirs = (jax.vmap(lambda r, f=f: f(ENTRIES, r, wholes))(many) for f in (all_pairs, each_pair))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-13)


@pytest.fixture
def without_native(monkeypatch):
    monkeypatch.setenv("KINETREE_NATIVE", "0")
    pairs_host._target.cache_clear()
    yield
    pairs_host._target.cache_clear()


def test_xla_serves_where_there_is_no_native_body(without_native):
    given = members(BOTH_SIDES, 20, "float64")
    assert pairs_host.pairs_matrix(BOTH_SIDES, [*given[0], *given[1]]) is None
    ours = jax.jit(lambda *given: all_pairs(BOTH_SIDES, *given))(*given)
    np.testing.assert_allclose(ours, each_pair(BOTH_SIDES, *given), rtol=0, atol=1e-14)


def test_half_precision_is_left_to_xla():
    given = members(PAIRS, 20, "float16")
    assert pairs_host._target(PAIRS, "float16") is None
    np.testing.assert_array_equal(all_pairs(PAIRS, *given), each_pair(PAIRS, *given))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_kernels(dtype, tmp_path):
    kind = np.dtype(dtype)
    text = assembled("test_pairs", PAIRS, kind, 90, lambda: kernel_text(PAIRS, kind)).text
    # four rows and two columns at least, on either side of the diagonal and across it: numbers or zeros
    assert text.count("st.global") > 2 * 4 * 3
    assemble(text, tmp_path)

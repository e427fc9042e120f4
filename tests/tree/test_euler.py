"""The Euler tour: its laws, and recursions by prefix products against the recursion itself, in exact arithmetic."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinetree.tree import MissingProperty, Tree
from kinetree.tree.euler import along_tour, leaffix_sum, prefix_products, rootfix_elements
from tests.tree.exact import PRIME, TURNS, turns


@st.composite
def trees(draw, max_size=60):
    """From chains (reach 1) to random recursive trees and forests."""
    n, reach = draw(st.integers(1, max_size)), draw(st.sampled_from([1, 2, 5, max_size]))
    return Tree(np.array([draw(st.integers(max(-1, i - reach), i - 1)) for i in range(n)]))


def is_ancestor(tree, i, j):
    """Whether i is j or above it, step by step."""
    while j > i:
        j = tree.parent[j]
    return i == j


@given(trees())
def test_the_tour_is_a_word_of_parentheses(tree):
    """Every position is taken once, to open or to close; a pair encloses its subtree's pairs and nothing else."""
    lp, rp = tree.lp, tree.rp
    assert sorted([*lp, *rp]) == list(range(2 * tree.n))
    assert (lp < rp).all()
    np.testing.assert_array_equal(rp - lp, 2 * tree.subtree_size - 1)
    for i in range(tree.n):
        for j in range(tree.n):
            encloses = lp[i] <= lp[j] and rp[j] <= rp[i]
            apart = rp[i] < lp[j] or rp[j] < lp[i]
            assert encloses == is_ancestor(tree, i, j)
            assert apart == (not encloses and not is_ancestor(tree, j, i))


@given(trees())
def test_prefix_sums_of_the_tour_are_depths(tree):
    word = np.zeros(2 * tree.n, int)
    word[tree.lp], word[tree.rp] = 1, -1
    height = np.cumsum(word)
    assert (height >= 0).all()
    assert height[-1] == 0
    np.testing.assert_array_equal(height[tree.lp] - 1, tree.depth)
    np.testing.assert_array_equal(height[tree.rp], tree.depth)
    openings = np.cumsum(word > 0)
    np.testing.assert_array_equal(openings[tree.rp] - openings[tree.lp] + 1, tree.subtree_size)


@settings(max_examples=4)
@given(trees(), st.integers(0, 99))
def test_rootfix_of_a_group_is_exact(tree, seed):
    rows = np.asarray(turns(np.random.default_rng(seed), tree.n))
    assert ((np.linalg.det(rows).round().astype(int) - 1) % PRIME == 0).all()
    here = np.zeros_like(rows)
    for i, p in enumerate(tree.parent):
        here[i] = (here[p] if p >= 0 else np.eye(2, dtype=rows.dtype)) @ rows[i] % PRIME
    np.testing.assert_array_equal(jax.jit(lambda rows: rootfix_elements(tree, TURNS, rows))(rows), here)


@settings(max_examples=8)
@given(trees(), st.integers(0, 99))
def test_leaffix_of_whole_numbers_is_exact(tree, seed):
    own = np.random.default_rng(seed).integers(-99, 99, (tree.n, 2))
    total = own.copy()
    for i in reversed(range(tree.n)):
        if tree.parent[i] >= 0:
            total[tree.parent[i]] += total[i]
    np.testing.assert_array_equal(leaffix_sum(tree, own), total)


def test_prefix_differences_cancel():
    """The limit that the docstring states: after a large neighbour a small subtree has no digits left in float32."""
    tree = Tree(np.array([-1, 0, 0]))
    second = int(np.argmax(tree.lp))
    own = np.full(3, 1e9, np.float32)
    own[second] = 1e-3
    assert abs(float(leaffix_sum(tree, own)[second]) - 1e-3) > 9e-4
    assert abs(float(leaffix_sum(tree, own.astype(float))[second]) - 1e-3) < 1e-6


@pytest.mark.parametrize("n", [1, 2, 1000])
def test_a_chain_opens_all_before_it_closes_any(n):
    tree = Tree(np.arange(-1, n - 1))
    np.testing.assert_array_equal(tree.lp, np.arange(n))
    np.testing.assert_array_equal(tree.rp, 2 * n - 1 - np.arange(n))


@pytest.mark.parametrize("parent", [[-1], list(range(-1, 20)), [-1] + [0] * 20, [-1, -1, 0, 1, 0, 2, -1, 6]])
def test_products_of_a_group_that_does_not_commute(parent):
    """Upper unitriangular integer matrices have exact inverses."""
    tree = Tree(np.array(parent, int))
    one, data = np.eye(3, dtype=np.int64), np.broadcast_to(np.eye(3, dtype=np.int64), (tree.n, 3, 3)).copy()
    data[:, [0, 0, 1], [1, 2, 2]] = np.random.default_rng(0).integers(-9, 10, (tree.n, 3))

    def inverse(x):
        return one - (x - one) + (x - one) @ (x - one)

    got = jax.jit(lambda x: prefix_products(jnp.matmul, along_tour(tree, inverse, x), one, 4))(data)[tree.lp]
    wanted = np.empty((tree.n + 1, 3, 3), np.int64)
    wanted[-1] = one
    for i, p in enumerate(parent):
        wanted[i] = wanted[p] @ data[i]
    np.testing.assert_array_equal(got, wanted[:-1])


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("n", [1, 8, 9, 65, 100])
def test_prefix_products_of_any_length(n, exclusive):
    """Whole numbers wrap around, so equality is exact; x -> a x + b does not commute."""
    a, b = np.random.default_rng(n).integers(-(2**31), 2**31, (2, n)).astype(np.int32)
    wanted, scale, shift = [], np.int32(1), np.int32(0)
    with np.errstate(over="ignore"):
        for x, y in zip(a, b, strict=True):
            before = scale, shift
            scale, shift = x * scale, x * shift + y
            wanted.append(before if exclusive else (scale, shift))

    def then(first, second):
        return second[0] * first[0], second[0] * first[1] + second[1]

    one = jnp.int32(1), jnp.int32(0)
    found = jax.jit(lambda x: prefix_products(then, x, one, 8, exclusive))((a, b))
    np.testing.assert_array_equal(np.stack(found, 1), wanted)


def test_programs_grow_with_the_logarithm():
    """Copies of the operator in the program: a scan does not unroll over elements."""
    copies = []
    for n in (2**8, 2**16):
        calls = []

        def counted(a, b, calls=calls):
            calls.append(1)
            return a * b

        jax.make_jaxpr(lambda x, f=counted: prefix_products(f, x, jnp.ones(()), 16))(jnp.ones(n))
        copies.append(len(calls))
    assert copies[1] <= 2 * copies[0] + 4 <= 2 * (2 * 8 + 4)


@pytest.mark.parametrize("missing", ["element", "combine", "act", "identity", "inverse"])
def test_what_the_tour_needs_is_asked_for(missing):
    lacking = type(TURNS)(**{**vars(TURNS), missing: None})
    with pytest.raises(MissingProperty, match=r"euler.*turns"):
        rootfix_elements(Tree(np.arange(-1, 9)), lacking, turns(np.random.default_rng(0), 10))

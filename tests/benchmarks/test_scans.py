"""The scans that benchmarks compare, against plain loops, with an operator that does not commute."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.scans import METHODS, tour_products
from kinetree.tree import Tree


@pytest.mark.parametrize("n", [1, 2, 23, 130])
@pytest.mark.parametrize("method", ["native", "blocked", "work_efficient"])
def test_products_of_matrices(method, n):
    """Whole numbers wrap around, so equality is exact."""
    data = np.random.default_rng(0).integers(-(2**31), 2**31, (n, 2, 2)).astype(np.int32)
    wanted, product = [], np.eye(2, dtype=np.int32)
    for x in data:
        wanted.append(product := product @ x)
    one = jnp.eye(2, dtype=jnp.int32)
    np.testing.assert_array_equal(jax.jit(lambda x: METHODS[method](jnp.matmul, x, one))(data), wanted)


def test_sums_along_the_tour():
    tree = Tree(np.array([-1, 0, 1, 0, 3, -1]))
    sums = tour_products(tree, jnp.add, jnp.negative, 0.0, jnp.arange(6.0), "mapped")
    np.testing.assert_array_equal(sums, [0, 1, 3, 3, 7, 5])

"""Functions of all pairs: against NumPy, and as text for a GPU."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kinetree.lanes.pairs import ABOVE, ON, Case, Pairs, all_pairs
from kinetree.lanes.pairs_native import kernel_text
from kinetree.lanes.ptx import assembled
from tests.lanes.assembler import assemble

PAIRS = Pairs(
    "test",
    (
        Case(lambda i, j: i[0] == j[0], lambda i, j: i[0] - 2 * j[1], ON),
        Case(lambda i, j: i[0] < j[0], lambda i, j: i[0] * j[1], ABOVE),
    ),
    jax.tree.structure((0.0, 0.0)),
    jax.tree.structure((0,)),
)


def test_the_first_case_that_holds():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 9))
    k = np.arange(9)
    same, below = k[:, None] == k, k[:, None] < k
    expected = np.where(same, a[:, None] - 2 * b, np.where(below, a[:, None] * b, 0))
    for function in (all_pairs, jax.jit(all_pairs, static_argnums=0)):
        np.testing.assert_allclose(function(PAIRS, (jnp.asarray(a), jnp.asarray(b)), (k,)), expected, rtol=1e-15)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_kernels(dtype, tmp_path):
    kind = np.dtype(dtype)
    text = assembled("test_pairs", "", kind, 90, lambda: kernel_text(PAIRS, kind))
    # four rows and two columns at least, on either side of the diagonal and across it: numbers or zeros
    assert text.count("st.global") > 2 * 4 * 3
    assemble(text, tmp_path)

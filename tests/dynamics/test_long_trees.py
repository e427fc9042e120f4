"""Accuracy on 100 000 bodies, against dense 6×6 matrices in 80-bit floats.

The oracle's tree is made in 80 bits too. From matrices rounded to float64 it would be off by 5e-12 on the chain: they
are all off by the same rounding, and 100 000 of them in a row are no rotation any more.
"""

import dataclasses
from functools import lru_cache

import numpy as np
import pytest

import kinetree as kt
from tests.build import build_model
from tests.reference import dense, generate

pytestmark = pytest.mark.usefixtures("full_compilation")

N = 100_000
SHAPES = ("chain", "random")  # the deepest, and one with paths of all lengths
BETWEEN = ("1.01", "1.5", "2", "3", "star")  # not at every run


def describe(shape):
    """Rods on skewed hinges; "star" and "random" are the same rods hung otherwise."""
    if shape in ("star", "random"):
        chain = generate.auto_tree(N, 1, 0.3)
        return dataclasses.replace(chain, parent=generate.tree_shape(np.random.default_rng(1), N, shape))
    return generate.auto_tree(N, 1 if shape == "chain" else float(shape), 0.3)


@lru_cache(maxsize=1)
def long_tree(shape):
    """A model, a state whose numbers are exact in float32 too, and its forces by the oracle."""
    description = describe(shape)
    rng = np.random.default_rng(0)
    state = [rng.standard_normal(N).astype(np.float32).astype(float) for _ in range(3)]
    return build_model(description), state, dense.rnea(description, *state)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [*SHAPES, *(pytest.param(s, marks=pytest.mark.thorough) for s in BETWEEN)])
def test_error_does_not_grow_with_the_tree(shape):
    """A sum of N rounded numbers drifts by some √N ε. Each level of a chain of equal links may turn by a rotation that
    is off in the same direction, by a tenth of a rounding in the mean.
    """
    model, state, wanted = long_tree(shape)
    for dtype in (np.float64, np.float32):
        bound = (np.sqrt(N) + model.tree.height / 10) * np.finfo(dtype).eps / 2
        for schedule in ("lanes", "levels", "paths"):
            got = kt.inverse_dynamics(model, *(x.astype(dtype) for x in state), schedule=schedule)
            assert got.dtype == dtype
            error = np.linalg.norm(got - wanted) / np.linalg.norm(wanted)
            assert error < bound, (schedule, dtype)

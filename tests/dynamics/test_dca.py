"""The divide-and-conquer algorithm in two-handle form."""

import numpy as np
import pytest

import kinetree as kt

from .forward import check_mechanism, long_chain_error


@pytest.mark.thorough  # test_methods.py has forests, the next test a chain
@pytest.mark.parametrize("shape", ["random", "chain"])
def test_mixed_trees(shape):
    check_mechanism(14, shape, method="dca")


def test_error_grows_as_stated():
    assert long_chain_error(256, method="dca") < 1e-8


def test_bodies_without_inertia_are_refused():
    inertia = np.stack([np.zeros((6, 6)), np.diag([0.1, 0.1, 0.1, 1, 1, 1])])
    model = kt.Model.from_arrays([-1, 0], "Rz", np.stack([np.eye(6)] * 2), inertia, names=["hub", "arm"])
    for method in ("dca", "dcae", "cfa"):
        with pytest.raises(ValueError, match=r"'hub'.*'aba'"):
            kt.forward_dynamics(model, np.zeros(2), np.zeros(2), np.ones(2), method=method)

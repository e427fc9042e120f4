"""Articulated inertias row by row, the rest by scans."""

import pytest

from .forward import check_case, check_mechanism


@pytest.mark.parametrize(("n", "shape"), [(14, "random"), (150, "chain")])
def test_mixed_trees(n, shape):
    check_mechanism(n, shape, method="abia")


@pytest.mark.parametrize("name", ["mixed_nb7_forest", "autotree_nb100_bf1"])
def test_spatial_v2(name):
    check_case(name, method="abia")

"""Articulated inertias row by row, the rest by scans."""

import pytest

from tests.second import second

from .forward import check_mechanism


@pytest.mark.parametrize(("n", "shape"), [second(14, "random"), second(150, "chain")])
def test_mixed_trees(n, shape):
    check_mechanism(n, shape, method="abia")

"""The efficient divide-and-conquer algorithm: chunks by recursion, joined by DCA."""

import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.published.dca import cut_path
from tests.second import second

from .forward import check_mechanism, long_chain_error, mechanism


@pytest.mark.parametrize(
    ("shape", "chunks", "balance"), [second("random", 2, 1.0), second("chain", 3, 2.0), ("chain", 1, 1.0)]
)
def test_mixed_trees(shape, chunks, balance):
    check_mechanism(14, shape, method="dcae", chunks=chunks, balance=balance)


def test_fewer_chunks_are_more_accurate():
    few = long_chain_error(256, method="dcae", chunks=4, balance=3.0)
    assert few < 1e-10
    assert few < long_chain_error(256, method="dca")


@pytest.mark.parametrize("length", [1, 2, 7, 100])
@pytest.mark.parametrize("chunks", [1, 2, 5, 200])
@pytest.mark.parametrize("balance", [1.0, 4.0])
def test_cuts(length, chunks, balance):
    starts = cut_path(length, chunks, balance)
    sizes = np.diff(np.append(starts, length))
    assert starts[0] == 0
    assert len(sizes) == min(chunks, length)
    assert (sizes >= 1).all()
    if length == 100 and chunks == 5:
        assert sizes[-1] == (20 if balance == 1 else 50)


def test_options_are_checked():
    _, model, s = mechanism(14, "chain")
    with pytest.raises(ValueError, match="at least one chunk"):
        kt.forward_dynamics(model, s.q, s.qd, s.tau, method="dcae", chunks=0)
    with pytest.raises(ValueError, match="between 1 and 4"):
        kt.forward_dynamics(model, s.q, s.qd, s.tau, method="dcae", balance=5)

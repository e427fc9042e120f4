"""kinetree.explain says what auto does."""

import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.schedules.record import recorded


@pytest.mark.parametrize("n", [3, 30, 2000])
@pytest.mark.parametrize("batch", [2, 100])
def test_what_runs_is_what_is_explained(n, batch):
    model = kt.auto_tree(n, 1.5, 0.3)
    q, qd, x = np.random.default_rng(0).uniform(-1, 1, (3, batch, n))
    said = kt.explain(model, batch)
    with recorded() as ran:  # by the ordinary path: builtins, which answer plain calls, record nothing
        kt.inverse_dynamics.__wrapped__(model, q, qd, x)
        kt.forward_dynamics.__wrapped__(model, q, qd, x)
    assert [choice for _, choice in ran] == [said.inverse_dynamics, said.forward_dynamics]


@pytest.mark.cpu
def test_the_text_names_the_way_and_the_reason():
    text = str(kt.explain(kt.auto_tree(12, 2), 4096))
    assert "12 degrees of freedom" in text
    assert "4096 states fill the lanes" in text
    assert "rnea, lanes (lanes, native, shared program)" in text

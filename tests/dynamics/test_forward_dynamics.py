"""The door of forward dynamics: names, options, what auto takes."""

import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.forward_dynamics import METHODS, method_function

from .forward import check_mechanism, mechanism


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_there(method):
    assert callable(method_function(method))


def test_auto_is_right():
    check_mechanism(5, "chain", ("Rz", "Px", "helical"), method="auto")


def test_auto_is_aba():
    for n, batch in ((5, 1), (5, 1000), (1000, 1)):
        assert kt.explain(kt.auto_tree(n), batch).method == "aba"


def test_unknown_names_are_refused():
    _, model, s = mechanism(5, "chain", ("Rz", "Px", "helical"))
    with pytest.raises(ValueError, match="unknown method"):
        kt.forward_dynamics(model, s.q, s.qd, s.tau, method="magic")
    with pytest.raises(ValueError, match="unknown schedule"):
        kt.forward_dynamics(model, s.q, s.qd, s.tau, schedule="random")
    with pytest.raises(ValueError, match="shape"):
        kt.forward_dynamics(model, s.q, s.qd, s.tau[1:])


def test_no_degrees_of_freedom():
    model = kt.Model.from_arrays([-1], "fixed", np.eye(6)[None], np.eye(6)[None])
    assert kt.forward_dynamics(model, np.zeros((2, 0)), np.zeros((2, 0)), np.zeros((2, 0))).shape == (2, 0)

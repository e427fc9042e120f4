"""The joint-space inertia inversion algorithm."""

import numpy as np
import pytest

import kinetree as kt
from tests.dynamics.trees import sample, worst
from tests.reference import dense

METHODS = ("crba", "jsiia", "vneb", "cg")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["random", "star"])
def test_forward_undoes_inverse_dynamics(name, method):
    s = sample(name)
    x = s.states
    tau = kt.inverse_dynamics(s.model, x.q, x.qd, x.qdd, x.f_ext)
    qdd = kt.forward_dynamics(s.model, x.q, x.qd, tau, x.f_ext, method=method)
    assert worst(qdd, x.qdd) < 1e-10


@pytest.mark.parametrize("method", ["crba", "jsiia"])
def test_a_long_chain_is_the_oracle_up_to_its_condition(method):
    s = sample("long")
    x = s.states
    found = kt.forward_dynamics(s.model, x.q, x.qd, x.tau, method=method)
    for k in range(3):
        truth = dense.aba(s.description, x.q[k], x.qd[k], x.tau[k])
        assert worst(found[k], truth) < 1e-15 * np.linalg.cond(np.asarray(s.H[k], float))


def test_a_singular_mechanism_is_refused():
    inertia = np.zeros((2, 10))
    inertia[0] = [1, 0, 0, 0, 1, 1, 1, 0, 0, 0]
    model = kt.Model.from_arrays([-1, 0], "Rz", np.eye(6), inertia, allow_massless_leaves=True)
    zero = np.zeros(2)
    for method in METHODS:
        with pytest.raises(ValueError, match=r"not positive definite|did not reach"):
            kt.forward_dynamics(model, zero, zero, np.ones(2), method=method)

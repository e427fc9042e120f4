"""The joint-space inertia inversion algorithm."""

import dataclasses

import jax
import numpy as np
import pytest

import kinetree as kt
from tests.dynamics.trees import sample, worst
from tests.reference import dense
from tests.second import few

METHODS = ("crba", "jsiia", "vneb", "cg")


@pytest.mark.parametrize("method", METHODS)
@few("name", ["random", "star"], ["star"])
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


@pytest.mark.parametrize("method", METHODS)
def test_a_singular_mechanism_is_refused(method):
    s = sample("one")
    massless = jax.tree.map(np.zeros_like, s.model.rows.inertia)
    model = dataclasses.replace(s.model, rows=s.model.rows._replace(inertia=massless))
    with pytest.raises(ValueError, match=r"not positive definite|did not reach"):
        kt.forward_dynamics(model, s.states.q, s.states.qd, s.states.tau, method=method)

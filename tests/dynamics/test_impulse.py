"""Impulses at bodies and the inverse inertia that they meet."""

import numpy as np
import pytest

import kinetree as kt
from tests.dynamics.trees import sample, worst


@pytest.fixture
def struck():
    s = sample("random")
    f = np.random.default_rng(2).standard_normal((3, 6))
    return s, 11, f


def test_it_is_what_a_force_adds_to_the_acceleration(struck):
    s, body, f = struck
    x = s.states
    f_ext = np.zeros((3, s.model.n_bodies, 6))
    f_ext[:, body] = f
    with_force = kt.forward_dynamics(s.model, x.q, x.qd, x.tau, f_ext, method="crba")
    without = kt.forward_dynamics(s.model, x.q, x.qd, x.tau, method="crba")
    assert worst(kt.impulse_response(s.model, x.q, body, f), with_force - without) < 1e-10
    assert np.array_equal(
        kt.impulse_response(s.model, x.q, s.model.names[body], f), kt.impulse_response(s.model, x.q, body, f)
    )


def test_the_impulse_goes_into_momentum_of_a_free_body():
    inertia = np.asarray(sample("one").description.inertia, float)
    model = kt.Model.from_arrays([-1], "free", np.eye(6), inertia)
    q, f = kt.neutral(model), np.array([0.3, -1.0, 0.2, 4.0, 5.0, -6.0])
    assert worst(kt.momentum(model, q, kt.impulse_response(model, q, 0, f)), f) < 1e-14


def test_the_inverse_inertia_of_a_body(struck):
    s, body, f = struck
    q = s.states.q
    found = kt.inverse_inertia_at(s.model, q, body)
    J = kt.jacobian(s.model, q, body)
    assert worst(found, J @ np.linalg.solve(np.asarray(s.H, float), J.swapaxes(1, 2))) < 1e-11
    change = kt.impulse_response(s.model, q, body, f)
    assert worst(np.einsum("bkl,bl->bk", found, f), np.einsum("bkv,bv->bk", J, change)) < 1e-11
    assert np.linalg.eigvalsh((found + found.swapaxes(1, 2)) / 2).min() > -1e-12
    assert kt.inverse_inertia_at(s.model, q[0], body).shape == (6, 6)


def test_a_body_fixed_to_the_base_feels_nothing():
    inertia = np.asarray(sample("one").description.inertia, float)
    model = kt.Model.from_arrays([-1, -1], ["fixed", "Rz"], np.eye(6), np.concatenate([inertia, inertia]))
    assert (kt.impulse_response(model, np.zeros(1), 0, np.ones(6)) == 0).all()
    assert (kt.inverse_inertia_at(model, np.zeros(1), 0) == 0).all()


def test_a_body_that_is_not_there():
    s = sample("one")
    with pytest.raises(ValueError, match="body 7 is outside"):
        kt.impulse_response(s.model, s.states.q, 7, np.ones(6))

"""Momentum about the centre of mass, and the Jacobian of the centre of mass."""

import numpy as np

import kinetree as kt
from tests.dynamics.mixed import mixed_model, rate, state


def test_com_jacobian_is_the_derivative_of_the_centre_of_mass():
    model = mixed_model()
    q, qd, _ = state(model)
    expected = rate(model, lambda q, _: kt.center_of_mass(model, q), q, qd)
    np.testing.assert_allclose(np.einsum("bij,bj->bi", kt.com_jacobian(model, q), qd), expected, atol=1e-12)


def test_momentum_is_that_about_the_origin_taken_to_the_centre_of_mass():
    model = mixed_model()
    q, qd, _ = state(model)
    angular, linear = np.split(np.asarray(kt.momentum(model, q, qd)), 2, -1)
    center = np.asarray(kt.center_of_mass(model, q))
    expected = np.concatenate([angular - np.cross(center, linear), linear], -1)
    np.testing.assert_allclose(kt.centroidal_momentum(model, q, qd), expected, atol=1e-11)
    A = kt.centroidal_momentum_matrix(model, q)
    assert A.shape == (3, 6, model.nv)
    np.testing.assert_allclose(np.einsum("bij,bj->bi", A, qd), expected, atol=1e-11)


def test_a_free_robot_without_gravity_keeps_its_momentum():
    flying = kt.Model.from_arrays(
        [-1, 0, 0], ["free", "Rx", "spherical"], np.stack([np.eye(6)] * 3), np.stack([np.eye(6)] * 3), gravity=(0, 0, 0)
    )
    q, qd, _ = state(flying)
    qdd = kt.forward_dynamics(flying, q, qd, 0 * qd)
    changing = rate(flying, lambda q, qd: kt.centroidal_momentum(flying, q, qd), q, qd, qdd)
    np.testing.assert_allclose(changing, 0, atol=1e-11)
    assert np.abs(rate(flying, lambda q, qd: kt.centroidal_momentum(flying, q, qd), q, qd)).max() > 0.1

"""Physics that must hold whatever the code: on random trees with every joint type."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from tests.build import build_model
from tests.reference import generate

rng = np.random.default_rng(7)
TREES = {shape: generate.random_tree(rng, 16, shape=shape) for shape in ("random", "chain")}
STATES = {shape: generate.random_state(rng, TREES[shape]) for shape in TREES}


@pytest.fixture(scope="module", params=TREES)
def case(request):
    return build_model(TREES[request.param]), STATES[request.param]


def energy(model, q, qd):
    return kt.kinetic_energy(model, q, qd) + kt.potential_energy(model, q)


def test_power_is_the_rate_of_energy(case):
    model, s = case
    tau = kt.inverse_dynamics(model, s.q, s.qd, s.qdd)
    h = 1e-4
    # a curve with velocity qd and acceleration qdd at 0, to the order that central differences see
    after = [kt.integrate(model, s.q, s.qd + 0.5 * t * s.qdd, t) for t in (h, -h)]
    rate = (energy(model, after[0], s.qd + h * s.qdd) - energy(model, after[1], s.qd - h * s.qdd)) / (2 * h)
    np.testing.assert_allclose(rate, tau @ s.qd, rtol=1e-6)


def test_gravity_force_is_the_slope_of_potential_energy(case):
    model, s = case
    slope = jax.grad(lambda d: kt.potential_energy(model, kt.integrate(model, jnp.asarray(s.q), d, 1.0)))
    np.testing.assert_allclose(slope(jnp.zeros(model.nv)), kt.gravity_force(model, s.q), atol=1e-9)


def test_forces_are_linear_in_accelerations_by_a_positive_matrix(case):
    model, s = case
    H = jax.jacfwd(lambda a: kt.inverse_dynamics(model, jnp.asarray(s.q), jnp.asarray(s.qd), a))(jnp.asarray(s.qdd))
    np.testing.assert_allclose(H, H.T, atol=1e-10 * np.abs(H).max())
    assert np.linalg.eigvalsh(H).min() > 0
    np.testing.assert_allclose(H, kt.mass_matrix(model, s.q), atol=1e-11 * np.abs(H).max())
    bias = kt.bias_force(model, s.q, s.qd)
    np.testing.assert_allclose(
        H @ s.qdd + bias, kt.inverse_dynamics(model, s.q, s.qd, s.qdd), atol=1e-9 * np.abs(bias).max()
    )

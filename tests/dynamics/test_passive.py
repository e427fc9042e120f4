"""Springs and dampers of the joints."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.model.fork import _Process
from tests.dynamics.mixed import mixed_model, rate, state


def sprung():
    model = mixed_model()
    rng = np.random.default_rng(2)
    stiffness = np.repeat(rng.uniform(1, 2, model.n_bodies), np.diff(model.structure.v_start))  # one for each joint
    rest, _ = kt.random_state(model, 5)
    return model.replace(stiffness=stiffness, rest=rest, damping=rng.uniform(0, 1, model.nv), armature=0.3)


def test_springs_do_the_work_that_their_energy_loses():
    model = sprung()
    q, qd, _ = state(model)
    springs = kt.passive_force(model, q, 0 * qd)
    gravity_only = model.without_passive
    lost = rate(model, lambda q, _: kt.potential_energy(model, q) - kt.potential_energy(gravity_only, q), q, qd)
    assert np.abs(springs).max() > 1
    np.testing.assert_allclose((springs * qd).sum(-1), -lost, atol=1e-10)


def test_dampers_oppose_the_velocity():
    model = sprung()
    q, qd, _ = state(model)
    np.testing.assert_allclose(
        kt.passive_force(model, q, qd) - kt.passive_force(model, q, 0 * qd), -model.passive.damping * qd, atol=1e-12
    )


def test_energy_changes_by_the_power_that_flows():
    """The rate of kinetic and potential energy is what drives do, less what dampers take: armature and all."""
    model = sprung()
    q, qd, _ = state(model)
    tau = jnp.asarray(np.random.default_rng(1).standard_normal(qd.shape))
    qdd = kt.forward_dynamics(model, q, qd, tau)

    def energy(q, qd):
        return kt.kinetic_energy(model, q, qd) + kt.potential_energy(model, q)

    power = ((tau - model.passive.damping * qd) * qd).sum(-1)
    np.testing.assert_allclose(rate(model, energy, q, qd, qdd), power, atol=1e-9)


def test_at_rest_springs_pull_nowhere():
    model = sprung()
    np.testing.assert_allclose(kt.passive_force(model, model.passive.rest, np.zeros(model.nv)), 0, atol=1e-12)


@pytest.mark.parametrize("make", [sprung, lambda: kt.auto_tree(5, 1.5, skew=0.3).replace(damping=0.2, stiffness=0.7)])
def test_they_are_part_of_the_native_programs(make, monkeypatch):
    """Calls on NumPy arrays need no XLA: one state, a batch, and with forces on bodies."""
    model = make()
    q, qd = kt.random_state(model, 3, (9,))
    rng = np.random.default_rng(4)
    x, f_ext = rng.standard_normal(qd.shape), rng.standard_normal((9, model.n_bodies, 6))
    passive, free = kt.passive_force(model, q, qd), model.without_passive
    monkeypatch.setattr(_Process, "lost_xla", True)
    for forces in ((), (f_ext,)):
        tau = kt.inverse_dynamics(model, q, qd, x, *forces)
        np.testing.assert_allclose(tau, kt.inverse_dynamics(free, q, qd, x, *forces) - passive, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(kt.inverse_dynamics(model, q[0], qd[0], x[0], *(f[0] for f in forces)), tau[0])
        np.testing.assert_allclose(kt.forward_dynamics(model, q, qd, tau, *forces), x, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("function", [kt.inverse_dynamics, kt.forward_dynamics])
def test_derivatives_in_closed_form_know_them(function):
    model = kt.auto_tree(3, 1.5, skew=0.3)
    passive = model.replace(damping=[0.3, 0, 0.2], stiffness=0.7)
    q, qd = kt.random_state(model, 3)
    x = np.random.default_rng(4).standard_normal(3)

    def around(q, qd, x):
        force = -0.7 * q - passive.passive.damping * qd
        forward = function is kt.forward_dynamics
        return function(model, q, qd, x + force) if forward else function(model, q, qd, x) - force

    ours = jax.jacfwd(lambda *a: function(passive, *a), (0, 1, 2))(q, qd, x)
    for a, b in zip(ours, jax.jacfwd(around, (0, 1, 2))(q, qd, x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def test_what_is_refused():
    model = kt.auto_tree(2, skew=0.3)
    with pytest.raises(kt.ModelError, match="damping of coordinate 1 is -1"):
        model.replace(damping=[0, -1])
    with pytest.raises(kt.ModelError, match="stiffness must be 2 real numbers"):
        model.replace(stiffness=[1, 2, 3])
    with pytest.raises(kt.ModelError, match="armature of coordinate 0 is nan"):
        model.replace(armature=np.nan)


def test_gradients_by_stiffness():
    model = kt.auto_tree(2, skew=0.3)
    q, qd = np.array([0.3, -0.4]), np.zeros(2)

    def pull(k):
        return kt.passive_force(model.replace(stiffness=k), jnp.asarray(q), jnp.asarray(qd)).sum()

    np.testing.assert_allclose(jax.grad(pull)(jnp.ones(2)), -q)

"""The inverse dynamics regressor, and models with inertias that JAX traces."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from tests.dynamics.mixed import mixed_model, state


def test_times_inertias_is_inverse_dynamics():
    model = mixed_model()
    q, qd, qdd = state(model)
    Y = kt.inverse_dynamics_regressor(model, q, qd, qdd)
    assert Y.shape == (3, model.nv, 10 * model.n_bodies)
    for scale in (1.0, 1.7):
        numbers = np.asarray(model.inertia.array()) * scale
        expected = kt.inverse_dynamics(model.replace(inertia=numbers), q, qd, qdd)
        np.testing.assert_allclose(Y @ numbers.reshape(-1), expected, atol=1e-10)


def test_it_is_the_derivative_of_inverse_dynamics_by_the_inertias():
    """Under tracing, `replace` merges what bodies on fixed joints weigh as it does otherwise."""
    model = mixed_model()
    q, qd, qdd = (x[0] for x in state(model))

    def forces(numbers):
        return kt.inverse_dynamics(model.replace(inertia=numbers), q, qd, qdd, schedule="levels")

    numbers = jnp.asarray(model.inertia.array())
    direction = jnp.asarray(np.random.default_rng(0).standard_normal(numbers.shape))
    _, derivative = jax.jvp(forces, (numbers,), (direction,))
    Y = kt.inverse_dynamics_regressor(model, q, qd, qdd)
    np.testing.assert_allclose(derivative, Y @ direction.reshape(-1), atol=1e-10)


@pytest.mark.parametrize("follows", [{}, {"joint_2": ("joint_1", -0.5, 0.1)}])
def test_lanes_and_xla_agree(follows):
    """NumPy arrays go to machine code, JAX arrays to XLA."""
    parent = [-1, 0, 1, 1, 0, 4]
    model = kt.Model.from_arrays(
        parent,
        ["free", "Rx", "Rz", "fixed", "spherical", "Py"],
        np.stack([np.eye(6)] * 6) + 0.1 * np.kron([[0, 0], [1, 0]], [[0, 1, 0], [-1, 0, 2], [0, -2, 0]]),
        np.stack([np.diag([0.2, 0.3, 0.4, 2, 2, 2])] * 6),
        joint_names=[f"joint_{k}" for k in range(6)],
    ).couple(follows)
    q, qd = kt.random_state(model, 0, (5,))
    qdd = np.random.default_rng(1).standard_normal(qd.shape)
    found = kt.inverse_dynamics_regressor(model, q, qd, qdd)
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, kt.inverse_dynamics_regressor(model, *map(jnp.asarray, (q, qd, qdd))), atol=1e-12)
    np.testing.assert_array_equal(kt.inverse_dynamics_regressor(model, q[0], qd[0], qdd[0]), found[0])


def test_gradient_of_a_fit():
    """Of the error of forces by the inertias: 2 Yᵀ (Y π − measured)."""
    model = kt.auto_tree(4, skew=0.3)
    q, qd = (jnp.asarray(x) for x in kt.random_state(model, 1, (6,)))
    numbers = jnp.asarray(model.inertia.array())
    measured = kt.inverse_dynamics(model, q, qd, qd)

    def loss(guess):
        return ((kt.inverse_dynamics(model.replace(inertia=guess), q, qd, qd) - measured) ** 2).sum()

    guess = numbers * 1.3
    Y = kt.inverse_dynamics_regressor(model, q, qd, qd)
    error = Y @ guess.reshape(-1) - measured
    expected = 2 * jnp.einsum("bij,bi->j", Y, error).reshape(numbers.shape)
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(jax.grad(loss)(guess), expected, rtol=1e-9, atol=1e-9)


def test_wrong_shapes_are_refused_when_traced():
    model = kt.auto_tree(3, skew=0.3)
    with pytest.raises(kt.ModelError, match=r"inertia must have shape \(3, 6, 6\) or \(3, 10\)"):
        jax.jit(lambda x: model.replace(inertia=x).total_mass)(jnp.zeros((2, 10)))


def test_a_batch_of_no_states():
    model = mixed_model()
    q, qd = np.zeros((0, model.nq)), np.zeros((0, model.nv))
    assert kt.inverse_dynamics_regressor(model, q, qd, qd).shape == (0, model.nv, 10 * model.n_bodies)

"""Fijany and Bejczy's inertia matrix and their square-root-free Cholesky."""

import jax.numpy as jnp
import numpy as np

import kinetree as kt
from kinetree.dynamics.published.vneb import ldlt, ldlt_solve
from tests.dynamics.trees import sample, worst


def test_square_root_free_cholesky():
    rng = np.random.default_rng(1)
    G = rng.standard_normal((4, 9, 9))
    A, b = G @ G.swapaxes(1, 2) + np.eye(9), rng.standard_normal((4, 9))
    factors = np.asarray(ldlt(jnp.asarray(A)))
    L = np.tril(factors, -1) + np.eye(9)
    D = np.einsum("bii->bi", factors)
    assert worst(L @ (D[:, :, None] * L.swapaxes(1, 2)), A) < 1e-14
    assert worst(ldlt_solve(jnp.asarray(factors), jnp.asarray(b)), np.linalg.solve(A, b[..., None])[..., 0]) < 1e-11


def test_the_columns_of_a_pendulum():
    """Two point-like links of length 1 on parallel hinges: the textbook's matrix."""
    inertia = np.zeros((2, 10))
    inertia[:, 0], inertia[:, 1], inertia[:, 5], inertia[:, 6] = 1, 1, 1, 1
    x_tree = np.stack([np.eye(6)] * 2)
    x_tree[1, 3:, :3] = -np.array([[0, 0, 0], [0, 0, -1], [0, 1, 0]])
    model = kt.Model.from_arrays([-1, 0], "Rz", x_tree, inertia)
    for angle in (0.0, 0.7, np.pi):
        c = np.cos(angle)
        expected = np.array([[3 + 2 * c, 1 + c], [1 + c, 1.0]])
        found = kt.mass_matrix(model, np.array([0.3, angle]), method="vneb")
        assert np.abs(found - expected).max() < 1e-14


def test_armature_enters_its_forward_dynamics():
    s = sample("one")
    model = s.model.replace(armature=2.5)
    x = s.states
    tau = kt.inverse_dynamics(model, x.q, x.qd, x.qdd)
    assert worst(kt.forward_dynamics(model, x.q, x.qd, tau, method="vneb"), x.qdd) < 1e-13

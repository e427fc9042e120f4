"""Fijany and Bejczy's inertia matrix."""

import numpy as np

import kinetree as kt
from tests.dynamics.trees import sample, worst


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

"""Mechanisms that the tests of the simulator let move."""

from pathlib import Path

import numpy as np

import kinetree as kt

ROBOTS = Path(__file__).parents[2] / "examples" / "robots"

DOWN = (0, 0, -9.81)


def pendulum(length: float = 1.0, mass: float = 1.0) -> kt.Model:
    """A point mass on a massless rod, on a hinge about y; q = 0 hangs down."""
    at = np.array([0.0, 0.0, -length])
    return kt.Model.from_arrays([-1], ["Ry"], np.eye(6)[None], point_mass(mass, at)[None])


def double_pendulum() -> kt.Model:
    """Two point masses on two massless rods, of different lengths."""
    x_tree = np.stack([np.eye(6), shift(np.array([0.0, 0.0, -1.0]))])
    inertia = np.stack([point_mass(1.0, np.array([0.0, 0.0, -1.0])), point_mass(0.7, np.array([0, 0, -0.6]))])
    return kt.Model.from_arrays([-1, 0], ["Ry", "Ry"], x_tree, inertia)


def point_mass(mass: float, at: np.ndarray) -> np.ndarray:
    """(10,) parameters."""
    I = mass * ((at @ at) * np.eye(3) - np.outer(at, at))
    return np.array([mass, *(mass * at), I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]])


def shift(r: np.ndarray) -> np.ndarray:
    """Plücker matrix of a pure shift."""
    X = np.eye(6)
    x, y, z = r
    X[3:, :3] = -np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return X


def brick(moments: tuple[float, float, float] = (1.0, 2.0, 3.0), joint: str = "free", gravity=(0, 0, 0)) -> kt.Model:
    """One body with its centre of mass at its origin."""
    return kt.Model.from_arrays(
        [-1], [joint], np.eye(6)[None], np.array([[2.0, 0, 0, 0, *moments, 0, 0, 0]]), gravity=gravity
    )


def arm() -> kt.Model:
    """The seven-axis arm of the examples, free of its limits."""
    return kt.load(ROBOTS / "arm7.urdf").without_constraints


def tree20() -> kt.Model:
    """Featherstone's tree of 20 bodies, out of the plane, so that gravity takes part."""
    return kt.auto_tree(20, branching=2, skew=0.7)


def energy(model: kt.Model, run: kt.Trajectory) -> np.ndarray:
    """Total energy of every record."""
    return kt.kinetic_energy(model, run.q, run.qd) + kt.potential_energy(model, run.q)

"""Dynamics: one algorithm to a file."""

from .energy import center_of_mass, kinetic_energy, momentum, potential_energy
from .forward_dynamics import forward_dynamics
from .inverse_dynamics import bias_force, gravity_force, inverse_dynamics
from .kinematics import Pose, forward_kinematics

__all__ = [
    "Pose",
    "bias_force",
    "center_of_mass",
    "forward_dynamics",
    "forward_kinematics",
    "gravity_force",
    "inverse_dynamics",
    "kinetic_energy",
    "momentum",
    "potential_energy",
]

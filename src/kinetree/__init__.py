"""kinetree: the dynamics of kinematic trees, in parallel."""

from ._version import __version__
from .dynamics import (
    Pose,
    bias_force,
    center_of_mass,
    forward_kinematics,
    gravity_force,
    inverse_dynamics,
    kinetic_energy,
    momentum,
    potential_energy,
)
from .model import (
    Fixed,
    Free,
    Helical,
    Joint,
    Model,
    ModelError,
    Planar,
    Prismatic,
    Revolute,
    Spherical,
    Translation,
    auto_tree,
)

__all__ = [
    "Fixed",
    "Free",
    "Helical",
    "Joint",
    "Model",
    "ModelError",
    "Planar",
    "Pose",
    "Prismatic",
    "Revolute",
    "Spherical",
    "Translation",
    "__version__",
    "auto_tree",
    "bias_force",
    "center_of_mass",
    "forward_kinematics",
    "gravity_force",
    "inverse_dynamics",
    "kinetic_energy",
    "momentum",
    "potential_energy",
]

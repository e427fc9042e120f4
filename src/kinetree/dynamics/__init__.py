"""Dynamics: one algorithm to a file."""

from .configuration import difference, integrate
from .coriolis import coriolis_matrix
from .derivatives import forward_dynamics_derivatives, inverse_dynamics_derivatives
from .energy import (
    center_of_mass,
    centroidal_momentum,
    centroidal_momentum_matrix,
    com_jacobian,
    kinetic_energy,
    momentum,
    potential_energy,
)
from .explain import DynamicsExplanation, explain
from .forward_dynamics import forward_dynamics
from .frames import frame_acceleration, frame_velocity
from .hybrid import hybrid_dynamics
from .impulse import impulse_response, inverse_inertia_at
from .inverse_dynamics import bias_force, gravity_force, inverse_dynamics
from .jacobians import jacobian
from .kinematics import Pose, forward_kinematics
from .loops.close import close_loops
from .mass_matrix import mass_matrix
from .matrices.ltdl import LTDL, factorize
from .matrices.packed import PackedMatrix
from .passive import passive_force
from .regressor import inverse_dynamics_regressor
from .sharded.tree import ShardedTree, Spread, shard_tree
from .tendons.build import with_tendons
from .tendons.lengths import tendon_jacobian, tendon_length

__all__ = [
    "LTDL",
    "DynamicsExplanation",
    "PackedMatrix",
    "Pose",
    "ShardedTree",
    "Spread",
    "bias_force",
    "center_of_mass",
    "centroidal_momentum",
    "centroidal_momentum_matrix",
    "close_loops",
    "com_jacobian",
    "coriolis_matrix",
    "difference",
    "explain",
    "factorize",
    "forward_dynamics",
    "forward_dynamics_derivatives",
    "forward_kinematics",
    "frame_acceleration",
    "frame_velocity",
    "gravity_force",
    "hybrid_dynamics",
    "impulse_response",
    "integrate",
    "inverse_dynamics",
    "inverse_dynamics_derivatives",
    "inverse_dynamics_regressor",
    "inverse_inertia_at",
    "jacobian",
    "kinetic_energy",
    "mass_matrix",
    "momentum",
    "passive_force",
    "potential_energy",
    "shard_tree",
    "tendon_jacobian",
    "tendon_length",
    "with_tendons",
]

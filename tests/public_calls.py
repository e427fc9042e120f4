"""A call of every public function, on any kind of arrays; for tests of what all of them promise."""

import numpy as np

import kinetree as kt

CALLS = {  # name -> function of a model of one degree of freedom to a joint, positions and velocities (batch, n)
    "bias_force": kt.bias_force,
    "center_of_mass": lambda m, q, v: kt.center_of_mass(m, q),
    "centroidal_momentum": kt.centroidal_momentum,
    "centroidal_momentum_matrix": lambda m, q, v: kt.centroidal_momentum_matrix(m, q),
    "com_jacobian": lambda m, q, v: kt.com_jacobian(m, q),
    "coriolis_matrix": kt.coriolis_matrix,
    "difference": lambda m, q, v: kt.difference(m, q, v),
    "factorize": lambda m, q, v: kt.factorize(m, kt.mass_matrix(m, q)).solve(v),
    "forward_dynamics": lambda m, q, v: kt.forward_dynamics(m, q, v, v),
    "forward_dynamics_derivatives": lambda m, q, v: kt.forward_dynamics_derivatives(m, q, v, v),
    "forward_kinematics": lambda m, q, v: kt.forward_kinematics(m, q),
    "frame_acceleration": lambda m, q, v: kt.frame_acceleration(m, q, v, v, 1),
    "frame_velocity": lambda m, q, v: kt.frame_velocity(m, q, v, 1),
    "gravity_force": lambda m, q, v: kt.gravity_force(m, q),
    "hybrid_dynamics": lambda m, q, v: kt.hybrid_dynamics(m.without_passive, q, v, v, v, np.arange(m.nv) % 2 == 0),
    "impulse_response": lambda m, q, v: kt.impulse_response(m, q, 1, np.ones(6, v.dtype)),
    "integrate": lambda m, q, v: kt.integrate(m, q, v, 0.1),
    "inverse_dynamics": lambda m, q, v: kt.inverse_dynamics(m, q, v, v),
    "inverse_dynamics_derivatives": lambda m, q, v: kt.inverse_dynamics_derivatives(m, q, v, v),
    "inverse_dynamics_regressor": lambda m, q, v: kt.inverse_dynamics_regressor(m, q, v, v),
    "inverse_inertia_at": lambda m, q, v: kt.inverse_inertia_at(m, q, 1),
    "jacobian": lambda m, q, v: kt.jacobian(m, q, 1),
    "kinetic_energy": kt.kinetic_energy,
    "mass_matrix": lambda m, q, v: kt.mass_matrix(m, q),
    "momentum": kt.momentum,
    "passive_force": kt.passive_force,
    "potential_energy": lambda m, q, v: kt.potential_energy(m, q),
    "step": lambda m, q, v: kt.step(m, q, v, 0.001),
}
# Functions that take no arrays, or that have rules of their own. Those of actuators, states and worlds need models that
# have them: tests/actuate, tests/constrain, tests/sense and
# tests/simulate call them.
OTHERS = {
    *("activation_rate", "actuator_force", "advance", "initial_state"),
    *("constrained_dynamics", "constrained_inverse_dynamics", "contacts", "with_ground", "with_shapes"),
    *("contact_forces", "sensors", "view", "with_sensors"),
    *("tendon_jacobian", "tendon_length", "with_tendons"),
    *("auto_tree", "close_loops", "controllers", "explain", "load", "neutral"),
    *("place_bodies", "random_state", "rollout", "scaled", "set_threads", "simulate", "specialize"),
    *("chain_pieces", "shard_tree"),
}


def left_out() -> set[str]:
    """Public functions that nobody calls here."""
    functions = {name for name in kt.__all__ if name[0].islower()}
    return functions - set(CALLS) - OTHERS

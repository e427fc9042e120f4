"""Implicit springs and dampers, by the rotors: H + a D + b K is the mass matrix of the same mechanism with other
rotors.

Joint dampers D and springs K are diagonal, and so is the rotor inertia that a model carries. An implicit step that
needs (H + a D + b K)⁻¹ therefore costs one call of forward dynamics, in O(n), with nothing factorised.
"""

import jax.numpy as jnp

from kinetree.model import Model

from .forces import REST_SPEED


def stiffened(model: Model, damped: float = 0.0, sprung: float = 0.0, rubbed: float = 0.0) -> Model:
    """The model with multiples of its dampers, its springs, and its friction's steepest slope, added to its rotors."""
    armature = model.rows.armature
    if model.passive is not None:
        armature = armature + damped * model.passive.damping + sprung * model.passive.stiffness
    if model.friction is not None:
        armature = armature + rubbed / REST_SPEED * model.friction
    return model.replace(armature=jnp.asarray(armature, jnp.result_type(armature)))

"""Implicit springs and dampers, by the rotors: H + a D + b K is the mass matrix of the same mechanism with other
rotors.

Joint dampers D and springs K are diagonal, and so is the rotor inertia that a model carries. An implicit step that
needs (H + a D + b K)⁻¹ therefore costs one call of forward dynamics, in O(n), with nothing factorised.
"""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree.model import Model

from .forces import REST_SPEED


def stiffened(model: Model, damped: Any = 0.0, sprung: Any = 0.0, rubbed: Any = 0.0) -> Model:
    """The model with multiples of its dampers, its springs, and its friction's steepest slope, added to its rotors."""
    dtype = next((x.dtype for x in (damped, sprung, rubbed) if isinstance(x, jax.Array)), None)
    armature = jnp.asarray(model.rows.armature, dtype)
    if model.passive is not None:
        damping, stiffness = (jnp.asarray(x, dtype) for x in (model.passive.damping, model.passive.stiffness))
        armature = armature + damped * damping + sprung * stiffness
    if model.friction is not None:
        armature = armature + rubbed / REST_SPEED * jnp.asarray(model.friction, dtype)
    return model.replace(armature=armature)

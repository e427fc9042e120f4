"""Derivatives of forces by velocities, as matrices, for steps that take forces at their end.

MuJoCo's `implicit` takes all smooth forces so. With c(u) the forces without acceleration,
    (H + h ∂c/∂u) α = f,
which is not symmetric. Its matrix has the same entries as the mass matrix, between a row and a row that carries it.
Terms of tendons and actuators between branches are dropped.
"""

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import there
from kinetree.constrain.constrained import held_force
from kinetree.constrain.fluid import fluid_wrenches
from kinetree.constrain.joint_groups import Present
from kinetree.dynamics import inverse_dynamics
from kinetree.model import Model, Structure

from .world_axes import drift


@lru_cache(maxsize=64)
def related(structure: Structure) -> np.ndarray:
    """(nv, nv): True if one row carries the other."""
    parent = np.asarray(structure.tree.parent)
    above = np.eye(len(parent), dtype=bool)
    for row, up in enumerate(parent):
        if up >= 0:
            above[row] |= above[up]
    return above | above.T


def _columns(function: Any, qd: Any) -> Any:
    """∂function/∂qd, (batch, nv, nv), of a function of each state by itself."""

    def column(unit: Any) -> Any:
        return jax.jvp(function, (qd,), (jnp.broadcast_to(unit, qd.shape),))[1]

    return jnp.moveaxis(jax.vmap(column)(jnp.eye(qd.shape[1], dtype=qd.dtype)), 0, -1)


def smooth_slope(model: Model, has: Present, q: Any, qd: Any) -> Any:
    """∂c/∂u, (batch, nv, nv): of velocity products, dampers, tendons and a fluid.

    MuJoCo leaves out the velocity products of the inertia of tendons.
    """
    light = has._replace(tendon_armature=())

    def still(qd: Any) -> Any:
        return held_force(model, light, q, qd, -drift(model, q, qd), None)

    return jnp.where(related(model.structure), _columns(still, qd), 0.0)


def fluid_slope(model: Model, q: Any, qd: Any) -> Any:
    """The part of a fluid alone."""
    fluid = there(None if model.world is None else model.world.fluid)
    zero = jnp.zeros_like(qd)
    return _columns(lambda v: inverse_dynamics(model, q, zero, zero, fluid_wrenches(model, fluid, q, v)), qd)

"""Rows at which a state makes the mass matrix singular: d of the articulated-body algorithm is rounding error there."""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree.model import Axis, Model
from kinetree.spatial import ArticulatedInertia, Force, Mat3, Sym3

from .abia import inertia_lanes
from .articulated import Articulated, Scale, pivot

BODY = jax.tree.structure(
    (ArticulatedInertia(Sym3(*6 * (0.0,)), Mat3(*9 * (0.0,)), Sym3(*6 * (0.0,))), Scale(0.0, 0.0))
)


def singular_rows(model: Model, q: Any) -> Any:
    """(batch, nv) booleans, of q (batch, nq); rows inside a singular one count as singular too."""
    entries = inertia_lanes(model.structure.has_quaternions)(model, q)
    inertia, scale = jax.tree.unflatten(BODY, [jnp.asarray(x) for x in entries])
    axis = Axis(*(jnp.asarray(x, scale.turning.dtype) for x in model.rows.axis))
    zero = jnp.zeros_like(scale.turning)
    armature = jnp.asarray(model.rows.armature, zero.dtype)
    return jnp.isnan(pivot(axis, armature, zero, Articulated(inertia, Force.zero_like(zero), scale)).d_inverse)

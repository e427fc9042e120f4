"""Rows at which a state makes the mass matrix singular: d of the articulated-body algorithm is rounding error there."""

from typing import Any

import jax

from kinetree._arrays import library
from kinetree.model import Axis, Model
from kinetree.spatial import ArticulatedInertia, Mat3, Sym3

from .elements.articulated import Scale, along_axis, exceeds_rounding
from .published.abia import inertia_lanes

BODY = jax.tree.structure(
    (ArticulatedInertia(Sym3(*6 * (0.0,)), Mat3(*9 * (0.0,)), Sym3(*6 * (0.0,))), Scale(0.0, 0.0))
)


def singular_rows(model: Model, q: Any) -> Any:
    """(batch, nv) booleans, of q (batch, nq); rows inside a singular one count as singular too."""
    entries = inertia_lanes(model.structure.has_quaternions)(model, q)
    I, scale = jax.tree.unflatten(BODY, entries)  # of NumPy arrays, for NumPy arrays: no XLA is needed
    xp = library(q)
    turn, slide, armature = (xp.asarray(x, q.dtype) for x in (*model.rows.axis, model.rows.armature))
    axis = Axis(turn, slide)
    d = axis.dot(along_axis(I, axis)) + armature
    return ~exceeds_rounding(d, (Scale.of(I) + scale).along(axis))

"""Rows at which a state makes the mass matrix singular: d of the articulated-body algorithm is rounding error there."""

from typing import Any

from kinetree._arrays import library
from kinetree.model import Axis, Model

from .elements.articulated import Scale, along_axis, exceeds_rounding, joint_inertia
from .published.abia import articulated_inertias


def singular_rows(model: Model, q: Any) -> Any:
    """(batch, nv) booleans, of q (batch, nq); rows inside a singular one count as singular too."""
    I, scale = articulated_inertias(model, q)
    xp = library(q)
    turn, slide, armature = (xp.asarray(x, q.dtype) for x in (*model.rows.axis, model.rows.armature))
    axis = Axis(turn, slide)
    d = joint_inertia(axis, along_axis(I, axis), armature)
    return ~exceeds_rounding(d, (Scale.of(I) + scale).along(axis))

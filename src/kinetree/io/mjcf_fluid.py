"""The fluid of a compiled MuJoCo model: every body with mass as the box that has its inertia."""

from typing import Any

import numpy as np

from kinetree.collide.shapes import MIN_VALUE
from kinetree.model import Model
from kinetree.model.attached import in_rows
from kinetree.model.fluid import Fluid

from .mujoco_model import nothing_passive
from .report import Report


def read_fluid(model: Model, m: Any, ours: dict[int, int], report: Report) -> Fluid | None:
    """None without a fluid. Bodies with geoms that use the ellipsoid model are reported and left out."""
    if not (m.opt.density > 0 or m.opt.viscosity > 0) or nothing_passive(m):
        return None
    asks = {int(b) for b in m.geom_bodyid[m.geom_fluid.reshape(m.ngeom, -1)[:, 0] > 0]} if m.ngeom else set()
    moving = [b for b, own in ours.items() if own >= 0 and model.structure.row_of_body[own] >= 0]
    with_mass = [b for b in moving if m.body_mass[b] >= MIN_VALUE]
    if asks & set(with_mass):
        report.ignored["fluid forces on ellipsoids (bodies)"] += len(asks & set(with_mass))
    theirs = np.array([b for b in with_mass if b not in asks], np.int64)
    if not len(theirs):
        return None
    bodies = tuple(ours[int(b)] for b in theirs)
    position, orientation = in_rows(model, bodies, m.body_ipos[theirs], m.body_iquat[theirs])
    inertia = np.array(m.body_inertia[theirs])
    across = np.maximum(inertia.sum(1, keepdims=True) - 2 * inertia, MIN_VALUE)
    return Fluid(
        np.array(m.opt.density),
        np.array(m.opt.viscosity),
        np.array(m.opt.wind),
        position,
        orientation,
        np.sqrt(6 * across / m.body_mass[theirs][:, None]),
        bodies,
    )

"""The constants of derivative programs: what they know of links, joints, and pairs of rows."""

from typing import Any, NamedTuple

import jax
import numpy as np

from kinetree.model import Axis, Model, Placement, place
from kinetree.spatial import Inertia


class Link(NamedTuple):
    """What the outward loop knows of a row; None where it need not know it."""

    frame: Any
    axis: Axis
    inertia: Inertia | None
    ratio: Any
    offset: Any


class Joint(NamedTuple):
    """What a joint adds to the diagonals, and its ratio to the coordinate that it follows."""

    armature: Any
    stiffness: Any
    damping: Any
    ratio: Any


def placed_at(link: Link, q: Any) -> Placement:
    """Where a screw stands at coordinate q."""
    return place(link.frame.orientation, link.frame.position, link.axis, q)


def link_constants(model: Model, rows: np.ndarray, framed: bool) -> Link:
    """Links of these rows; `framed` if their frames are wanted."""
    r, coupling = jax.tree.map(lambda x: x[rows], model.rows), model.coupling
    frame = Placement(r.orientation, r.position) if framed else None
    if coupling is None:
        return Link(frame, r.axis, r.inertia, None, None)
    own = np.maximum(model.structure.q_of_row[rows], 0)
    return Link(frame, r.axis, r.inertia, coupling.ratio_v[rows], coupling.offset_q[own] if framed else None)


def joint_constants(model: Model, rows: np.ndarray) -> Joint:
    """Joints of these rows. Springs of quaternion joints are no diagonals: see blocks.py."""
    none = np.zeros(len(rows))
    damping, stiffness = (none, none) if model.passive is None else (x[rows] for x in model.passive[:2])
    ratio = None if model.coupling is None else model.coupling.ratio_v[rows]
    screws = (model.structure.q_of_row[rows] >= 0).astype(float)
    return Joint(model.rows.armature[rows], stiffness * screws, damping, ratio)


def pair_ratios(model: Model, pairs: np.ndarray) -> Any:
    """Products of the ratios of two rows, i and j, known by i n + j."""
    assert model.coupling is not None
    n, ratio = model.tree.n, model.coupling.ratio_v
    return ratio[pairs // n] * ratio[pairs % n]

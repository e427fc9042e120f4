"""A model and its states on a layout: constants and coordinates of all rows, arranged by position."""

from abc import abstractmethod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.model import Model, Placement, Rows
from kinetree.model.coordinates import placements
from kinetree.spatial import Force, Motion, Rates, Scalar, Vec3
from kinetree.tree import Layout, Tree, arrange, outward

from ..algorithms.poses import POSE, VELOCITY, pose, to_row, velocity
from ..recursion import Outward, Row
from .operators import outward_operator

POSE_PASS = Outward("pose", pose, stretch=POSE)
POSES = outward_operator(POSE_PASS)
VELOCITIES = outward_operator(Outward("velocity", lambda row, v: (velocity(row, v), {}), stretch=VELOCITY))


def rows_in_order(tree: Tree) -> tuple[np.ndarray, np.ndarray]:
    """`row_at` and `position_of` of a layout without grids: the rows in order, after the base."""
    rows = np.arange(tree.n, dtype=np.int32)
    return np.concatenate([np.zeros(1, np.int32), rows]), rows + 1


class OwnMotions(Layout):
    """A layout with its own way to find the motions of its rows (whole.py)."""

    @abstractmethod
    def poses(self) -> Placement:
        """Pose of every position in the world."""

    @abstractmethod
    def velocities(self, qd: Scalar) -> Motion:
        """Spatial velocity of every position, in its own coordinates."""

    @abstractmethod
    def rates(self, qd: Any, qdd: Any, base: Rates) -> Rates:
        """Rates of every position, from (batch, nv) velocities and accelerations."""


class Arranged(NamedTuple):
    """Rows and their placements by position, (positions, batch), and gravity, (batch,)."""

    rows: Rows
    placed: Placement
    gravity: Vec3


def arranged(laid: Layout, model: Model, q: Any) -> Arranged:
    """From q, (batch, nq)."""
    rows = jax.tree.map(lambda x: jnp.asarray(x, q.dtype)[:, None], model.rows)
    placed = placements(model.structure, rows, q.T)
    gravity = Vec3(*(jnp.full(q.shape[:1], model.gravity[k], q.dtype) for k in range(3)))
    rows, placed = arrange(laid, (rows, placed))
    return Arranged(rows, placed, gravity)


def by_position(laid: Layout, x: Any) -> Any:
    """(batch, rows) data as (positions, batch)."""
    return arrange(laid, x.T)


def row_poses(laid: Layout, at: Arranged) -> Placement:
    """Pose of every position in the world; position 0 is the base."""
    if isinstance(laid, OwnMotions):
        return laid.poses()
    return outward(POSES, laid, Row(at=at.placed), Placement.identity_like(at.gravity.x))


def row_velocities(laid: Layout, at: Arranged, qd: Any) -> Motion:
    """Spatial velocity of every position, in its own coordinates."""
    if isinstance(laid, OwnMotions):
        return laid.velocities(qd)
    return outward(VELOCITIES, laid, Row(at=at.placed, axis=at.rows.axis, qd=qd), Motion.zero_like(at.gravity.x))


def applied_forces(laid: Layout, model: Model, pose: Placement, f_ext: Any) -> Force:
    """Forces on bodies, (batch, bodies, 6) in world coordinates, summed for each position in its own coordinates."""
    moving = model.structure.row_of_body >= 0
    position = jnp.asarray(laid.position_of)[model.structure.row_of_body[moving]]
    total = jnp.zeros((laid.positions, 6, f_ext.shape[0]), f_ext.dtype)
    total = total.at[position].add(jnp.moveaxis(f_ext[:, moving], 0, -1))
    return to_row(pose, Force.from_array(jnp.swapaxes(total, 1, 2)))

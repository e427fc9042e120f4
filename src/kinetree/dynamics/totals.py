"""Sums over the whole mechanism: moment of mass, kinetic energy and momentum of all rows, under any schedule.

Poses and velocities go outward, then each row's share is added up. Over the tree that is one sum; in lanes the shares
flow inward from row to row, so that a bushy tree is summed as evenly as it branches.
"""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree.model import Model
from kinetree.model.coordinates import placements
from kinetree.spatial import Force, Motion, Vec3
from kinetree.tree import rootfix

from .algorithms.totals import TOTALS, Totals, share
from .poses import POSE, VELOCITY, identity_pose
from .schedules.lanes import lane_program_of


def over_the_tree(model: Model, q: Any, qd: Any, schedule: str) -> Totals:
    """Sums under "levels", "paths" or "euler"; under `jit` what of them is not used is not computed."""
    rows = jax.tree.map(lambda x: jnp.asarray(x, q.dtype)[:, None], model.rows)
    placed = placements(model.structure, rows, q.T)
    still = jnp.zeros(q.shape[:1], q.dtype)
    pose = rootfix(model.tree, POSE, placed, identity_pose(still), schedule=schedule)
    moving = (placed, rows.axis.times(qd.T))
    v = rootfix(model.tree, VELOCITY, moving, Motion.zero_like(still), schedule=schedule)
    return jax.tree.map(lambda x: x.sum(0), share(rows.inertia, pose, v))


def in_lanes(model: Model, q: Any, qd: Any, schedule: str) -> Totals:
    """Sums under "lanes" or "sequential"."""
    (found,) = lane_program_of(TOTALS, model)(model, q, qd, schedule=schedule)
    columns = [found[:, k] for k in range(10)]
    return Totals(Vec3(*columns[:3]), columns[3], Force(Vec3(*columns[4:7]), Vec3(*columns[7:])))

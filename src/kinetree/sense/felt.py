"""Points of contact with their forces: from lanes if they serve, else from XLA."""

from math import prod
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from kinetree._arrays import library
from kinetree.constrain.contact_groups import members_of
from kinetree.constrain.native import Solved
from kinetree.constrain.native.contacts import POINT_REPORT
from kinetree.constrain.native.kinds import FORCE_REPORT
from kinetree.constrain.touching import Touching
from kinetree.model import Model
from kinetree.spatial import Mat3, Scalar, Vec3
from kinetree.tree import pick

SIX = 6


class Felt(NamedTuple):
    """All possible points of contact, pair after pair, (points, batch)."""

    position: Vec3
    frame: Mat3  # rows: the normal, from the first shape to the second, and two tangents
    distance: Scalar  # infinite where shapes are apart
    force: tuple[Scalar, ...]  # 6: on the second body, along the rows of the frame, then the moment about them


def felt_by_lanes(solved: Solved) -> Felt:
    """From what the native body found, with forces."""
    batch, count = len(solved.qdd), prod(solved.points.shape[1:]) // POINT_REPORT
    xp = library(solved.points)
    seen = xp.moveaxis(solved.points.reshape(batch, count, POINT_REPORT), 0, -1)
    pushed = xp.moveaxis(solved.pushes.reshape(batch, count, FORCE_REPORT), 0, -1)
    columns = [seen[:, k] for k in range(POINT_REPORT)]
    force = tuple(pushed[:, k] for k in range(FORCE_REPORT))
    return Felt(Vec3(*columns[:3]), Mat3(*columns[3:12]), -columns[12], force)


def felt_by_groups(model: Model, found: Touching, forces: list[Any]) -> Felt:
    """From XLA's body: the forces of the groups of contacts, in the order of `members_of`."""
    position, frame, distance = found.point
    whole = [jnp.zeros_like(distance)] * SIX
    for points, force in zip(members_of(model, found), forces, strict=True):
        for k, f in enumerate(force):
            whole[k] = whole[k].at[points].set(f)
    return Felt(position, frame, distance, tuple(whole))


def in_world(felt: Felt) -> tuple[Vec3, Vec3]:
    """Force on the second body and its moment, in world axes."""
    return felt.frame.t_mul(Vec3(*felt.force[:3])), felt.frame.t_mul(Vec3(*felt.force[3:]))


def chosen(felt: Felt, points: np.ndarray) -> Felt:
    """Some of the points."""
    return pick(felt, points)

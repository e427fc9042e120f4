"""Frames on bodies: their poses and motions, from those of the rows that carry them."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from kinetree.model import Model, Placement
from kinetree.spatial import Motion, Quaternion, Rates, Scalar, Transform, Vec3
from kinetree.tree import pick

from .softness import parts

BASE = -1


class Carried(NamedTuple):
    """Poses and motions of the rows, by position."""

    pose: Placement
    velocity: Motion
    rates: Rates


class End(NamedTuple):
    """Frames on bodies, in world axes."""

    orientation: Quaternion
    position: Vec3
    omega: Vec3
    linear: Vec3  # velocity of the origin
    alpha: Vec3
    acceleration: Vec3  # of the origin
    X: Transform  # from the row's frame to world axes at the origin
    at: np.ndarray  # positions of the rows


def columns(array: Any, dtype: Any) -> tuple[Scalar, ...]:
    """The last axis of an array as a tuple of scalars with room for a batch."""
    return parts(jnp.asarray(array, dtype))


def ends(model: Model, rows: Carried, bodies: np.ndarray, place: Any, turn: Any, position_of: np.ndarray) -> End:
    """Frames at `place`, (n, 3), turned by `turn`, (n, 4), on the rows that carry bodies, or the base."""
    return row_ends(rows, model.structure.rows_of(bodies), place, turn, position_of)


def row_ends(rows: Carried, row: np.ndarray, place: Any, turn: Any, position_of: np.ndarray) -> End:
    """Ends that are given by rows; BASE is the base."""
    dtype = rows.pose.position.x.dtype
    at = np.append(position_of, 0)[row]  # BASE is the last
    pose, velocity, rates = pick(tuple(rows), at)
    own, local = Vec3(*columns(place, dtype)), Quaternion(*columns(turn, dtype))
    turned = pose.orientation.turn
    arm, omega, alpha = turned(own), turned(velocity.angular), turned(rates.alpha)
    wide = Vec3.zero_like(arm.x)
    return End(
        pose.orientation * local,
        pose.position + arm,
        omega,
        turned(velocity.linear) + omega.cross(arm),
        alpha,
        turned(rates.acceleration) + alpha.cross(arm) + omega.cross(omega.cross(arm)),
        Transform(pose.orientation.conjugate().rotation(), own + wide),
        at,
    )

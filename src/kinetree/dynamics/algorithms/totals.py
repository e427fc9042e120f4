"""Sums over the whole mechanism: moment of mass, kinetic energy and momentum of all rows.

Poses and velocities go outward, then each row's share is added up, in world coordinates about the world origin:

    Σ m c        Σ v · I v        Σ X⁻ᵀ I v
"""

from typing import NamedTuple

import jax.numpy as jnp

from kinetree.dynamics.recursion import Algorithm, Outward, Row, Share, Stretch, Total
from kinetree.model import Placement
from kinetree.spatial import Force, Inertia, Motion, Scalar, Vec3

from .poses import VELOCITY, velocity


class Totals(NamedTuple):
    """Σ m c, Σ v·I v and Σ I v: in world coordinates, about the world origin."""

    moment: Vec3
    twice_kinetic: Scalar
    momentum: Force

    @staticmethod
    def zero_like(s: Scalar) -> "Totals":
        """Nothing, with components shaped like `s`."""
        return Totals(Vec3.zero_like(s), jnp.zeros_like(s), Force.zero_like(s))


class Moving(NamedTuple):
    """Where a row stands in the world, and its velocity in its own coordinates."""

    pose: Placement
    velocity: Motion


def moment(I: Inertia, pose: Placement) -> Vec3:
    """m c of a row, in the world."""
    return pose.position * I.mass + pose.orientation.turn(I.h)


def share(I: Inertia, pose: Placement, v: Motion) -> Totals:
    """What one row adds."""
    own: Force = I @ v
    return Totals(moment(I, pose), v.dot(own), pose.transform.force_to_parent(own))


def moving(row: Row, parent: Moving) -> tuple[Moving, dict]:
    """Outward: pose and velocity."""
    return Moving(row.at @ parent.pose, velocity(row, parent.velocity)), {}


MOVING = Stretch(
    element=lambda row: (row.at, row.axis.times(row.qd)),
    combine=VELOCITY.combine,
    act=lambda e, parent: Moving(e[0] @ parent.pose, VELOCITY.act(e, parent.velocity)),
    identity=VELOCITY.identity,
    inverse=VELOCITY.inverse,
)
SHARE = Share(lambda row: share(row.inertia, *row.moving), link=("inertia",), needs=("moving",))

TOTALS = Algorithm(
    name="totals",
    inputs=("q", "qd"),
    passes=(
        Outward("moving", moving, given=("qd",), link=("axis",), stretch=MOVING, places=True),
        Total("totals", lambda row, whole: (whole, {}), outputs=("totals",), own=SHARE),
    ),
    fields={"moving": Moving, "totals": Totals},
    outputs={"totals": Totals},
    accurate=True,
)

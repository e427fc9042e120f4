"""Poses and velocities of rows: the two outward recursions of kinematics.

pose of row i in the world  =  pose of its parent, then its placement in its parent        (a product in SE(3))
v = X v_parent + S qd                                                                      (RBDA eq. 5.14)
"""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from kinetree.dynamics.recursion import Algorithm, Outward, Row, Stretch
from kinetree.model import Placement
from kinetree.spatial import Force, Motion, Transform


def pose(row: Row, parent: Placement) -> tuple[Placement, dict]:
    """Outward: the pose of the row in the world."""
    return row.at @ parent, {}


def to_row(pose: Placement, f: Force) -> Force:
    """A force in row coordinates, from one in world coordinates about the world origin."""
    return pose.transform.force_to_child(f)


def carried(pose: Placement, frame: Transform) -> Transform:
    """The rotation from world coordinates to those of a frame fixed to a row, and its origin. 51m 51a."""
    return Transform(frame.E.after(pose.orientation.rotation()), pose.position + pose.orientation.turn(frame.r))


def velocity(row: Row, parent: Motion) -> Motion:
    """v = X v_parent + S qd.

    With `at` as a quaternion the velocities of a long chain, and so its forward dynamics, are a quarter more accurate:
    products of quaternions are normalised on the way, products of matrices drift.
    """
    return row.at @ parent + row.axis.times(row.qd)


POSE = Stretch(
    element=lambda row: row.at,
    combine=lambda inner, outer: outer @ inner,
    act=lambda placed, pose: placed @ pose,
    identity=Placement.identity_like,
    inverse=Placement.inverse,
)
VELOCITY = Stretch(
    element=lambda row: (row.at, row.axis.times(row.qd)),
    combine=lambda inner, outer: (outer[0] @ inner[0], outer[0] @ inner[1] + outer[1]),
    act=lambda e, v: e[0] @ v + e[1],
    identity=lambda x: (Placement.identity_like(x), Motion.zero_like(x)),
    inverse=lambda e: (e[0].inverse(), -(e[0].inverse() @ e[1])),
    placed=lambda e: e[0],
)


class Moving(NamedTuple):
    """The pose of a row in the world, and its velocity in its own coordinates."""

    pose: Placement
    velocity: Motion


def moving(row: Row, parent: Moving) -> tuple[Moving, dict]:
    """Outward: pose and velocity."""
    return Moving(row.at @ parent.pose, velocity(row, parent.velocity)), {}


MOVED = replace(VELOCITY, act=lambda e, s: Moving(e[0] @ s.pose, VELOCITY.act(e, s.velocity)), placed=None)
MOVING = Outward("moving", moving, given=("qd",), link=("axis",), stretch=MOVED, places=True)


def named(example: Any, name: str) -> tuple[str, ...]:
    """Names of a group of scalars, as inputs or outputs."""
    return tuple(f"{name}_{k}" for k in range(jax.tree.structure(example).num_leaves))


UNCHANGED = Stretch(  # for a state that is the same in all rows: elements are zero
    element=lambda row: jnp.zeros_like(jax.tree.leaves(row)[0]),
    combine=jnp.add,
    act=lambda zero, state: jax.tree.map(lambda x: x + zero, state),
    identity=jnp.zeros_like,
    inverse=jnp.negative,
)


def placing(given: tuple[str, ...] = ()) -> Outward:
    """An outward pass that only places the rows, for algorithms that begin inward. Its state, "begun", is zero."""
    return Outward("begun", lambda row, s: (s, {}), given=given, link=("axis",), stretch=UNCHANGED, places=True)


ROW_POSES = Algorithm(
    name="row_poses",
    inputs=("q",),
    passes=(
        Outward(
            "pose",
            lambda row, parent: (row.at @ parent, {"world": row.at @ parent}),
            link=("axis",),
            outputs=("world",),
            stretch=POSE,
            places=True,
        ),
    ),
    fields={"pose": Placement},
    outputs={"world": Placement},
    accurate=True,
)

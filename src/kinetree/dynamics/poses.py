"""Poses of rows in the world: the outward recursion over SE(3), under any schedule and as lane loops."""

from typing import Any

import numpy as np

from kinetree.lanes import Lane, Loop, Memory
from kinetree.model import Placement, Rows, Structure
from kinetree.spatial import Force, Motion, Scalar, Transform, Vec3
from kinetree.tree import Outward

from .lane_rows import (
    GRAVITY,
    NOTHING,
    OWN,
    PARENT,
    ROWS,
    Part,
    Q,
    Turns,
    V,
    base_gravity,
    base_turn,
    no_constants,
    row_turns,
    screw_place,
)


def identity_pose(s: Scalar) -> Placement:
    """The base's own frame, with components shaped like `s`."""
    return Placement.identity_like(s)


def compose(inner: Placement, outer: Placement) -> Placement:
    """A frame placed in a frame that is placed."""
    return outer @ inner


POSE = Outward(
    step=lambda placed, pose: compose(pose, placed),
    element=lambda placed: placed,
    combine=compose,
    act=lambda placed, pose: compose(pose, placed),
    identity=lambda placed: identity_pose(placed.position.x),
    inverse=Placement.inverse,
    name="pose",
)


def velocity_step(row: tuple[Placement | Transform, Motion], v: Motion) -> Motion:
    """v = X v_parent + v_J (RBDA eq. 5.14).

    By quaternion (a `Placement`) the velocities of a long chain, and so its forward dynamics, are a quarter more
    accurate: products of quaternions are made unit again on the way, products of matrices drift.
    """
    X, vJ = row
    return X @ v + vJ


VELOCITY = Outward(
    step=velocity_step,
    element=lambda row: row,
    combine=lambda inner, outer: (outer[0] @ inner[0], outer[0] @ inner[1] + outer[1]),
    act=velocity_step,
    identity=lambda e: (type(e[0]).identity_like(e[1].linear.x), Motion.zero_like(e[1].linear.x)),
    inverse=lambda e: (e[0].inverse(), -(e[0].inverse() @ e[1])),
    name="velocity",
)


def pose_parts(memory: Memory, quaternions: bool, q_array: int) -> list[Part]:
    """Lane loops that write the field `pose` of every row: its placement in the world."""

    def base(gravity: Any, _: tuple, __: tuple) -> tuple:
        return (identity_pose(gravity.x),), (), ()

    def step(row: Rows, given: tuple, reads: tuple) -> tuple:
        placed = reads[1] if quaternions else screw_place(row, *given)
        return (compose(reads[0], placed),), (), ()

    pose = memory.at(OWN, "pose")
    reads = (memory.at(PARENT, "pose"), *((memory.at(OWN, "placed"),) if quaternions else ()))
    inputs = () if quaternions else (Lane(q_array, Q),)
    return [
        Part(Loop(base, 4, GRAVITY, writes=(pose,)), base_turn(memory), base_gravity),
        Part(Loop(step, 4, ROWS, reads=reads, writes=(pose,), inputs=inputs), row_turns(memory)),
    ]


def applied_forces_part(memory: Memory, f_array: int) -> Part:
    """A lane loop that takes forces on bodies, in world coordinates, off the field `force` of their rows."""

    def turns(structure: Structure) -> Turns:
        bodies = np.flatnonzero(structure.row_of_body >= 0)
        first_slot = memory.base(structure.row_of_body[bodies])
        return np.stack([first_slot, first_slot, 6 * bodies, 0 * bodies], -1).astype(np.int32), bodies

    def step(_: tuple, f: tuple, reads: tuple) -> tuple:
        return (), (-to_row(reads[0], Force(Vec3(*f[:3]), Vec3(*f[3:]))),), ()

    loop = Loop(
        step,
        4,
        NOTHING,
        reads=(memory.at(OWN, "pose"),),
        adds=(memory.at(OWN, "force"),),
        inputs=tuple(Lane(f_array, V, k) for k in range(6)),
    )
    return Part(loop, turns, no_constants)


def to_row(pose: Placement, f: Force) -> Force:
    """A force in world coordinates, about the world origin, in those of a row."""
    return pose.transform.force_to_child(f)


def carried(pose: Placement, frame: Transform) -> Transform:
    """A frame fixed to a row, in the world: from world to frame coordinates, and its origin. 51m 51a."""
    return Transform(frame.E.after(pose.orientation.rotation()), pose.position + pose.orientation.turn(frame.r))

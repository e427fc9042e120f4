"""Poses of rows in the world: the outward recursion over SE(3), under any schedule and as lane loops."""

from kinetree.model import Placement
from kinetree.spatial import Motion, Scalar, Transform
from kinetree.tree import Outward


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

"""Velocity and acceleration of one frame: outward along the rows that carry it, then in the requested coordinates.

The three ways to give a motion are those of dynamics/frames.py.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

from kinetree.dynamics.recursion import Algorithm, OneBody, Outward, Row, Stretch
from kinetree.lanes.kept.once import once
from kinetree.spatial import Motion, Rates, Rotation, Vec3

from .poses import MOVED, MOVING, Moving, carried, moving
from .rnea import MOTION, motion

WAYS = ("world", "local", "aligned")


def axes_and_point(E: Rotation, p: Vec3, way: Any) -> tuple[Rotation, Vec3]:
    """For a frame in the world: the rotation from world to requested coordinates, and the requested point."""
    own, origin = way == WAYS.index("local"), way == WAYS.index("world")
    plain = Rotation.identity_like(p.x)
    axes = Rotation(*(jnp.where(own, a, b) for a, b in zip(E, plain, strict=True)))
    return axes, Vec3(*(jnp.where(origin, jnp.zeros_like(c), c) for c in p))


def frame_motion(E: Rotation, p: Vec3, omega: Vec3, linear: Vec3, way: Any) -> Motion:
    """A frame's velocity in the requested form, from that at its own origin in world coordinates."""
    axes, point = axes_and_point(E, p, way)
    return Motion(axes @ omega, axes @ (linear + omega.cross(point - p)))


def frame_change(E: Rotation, p: Vec3, omega: Vec3, velocity: Vec3, rates: tuple[Vec3, Vec3], way: Any) -> Motion:
    """A frame's acceleration in the requested form, from α and the classical acceleration of its origin.

    Spatial accelerations are taken at the requested point; ω × v is added for the classical one at the frame's origin.
    """
    alpha, a = rates
    axes, point = axes_and_point(E, p, way)
    spatial = a - omega.cross(velocity) + alpha.cross(point - p)
    classical = way == WAYS.index("aligned")
    linear = Vec3(*(jnp.where(classical, x, y) for x, y in zip(a, spatial, strict=True)))
    return Motion(axes @ alpha, axes @ linear)


class Accelerating(NamedTuple):
    """The pose of a row, and its velocity and rates in its own coordinates."""

    moving: Moving
    rates: Rates


def _velocity(row: Row) -> tuple[Rotation, Vec3, Vec3, Vec3]:
    """The pose of the frame, and its velocity at its own origin in world coordinates."""
    (pose, v), r = row.moving, row.frame.r
    turn, there = pose.orientation.turn, carried(pose, row.frame)
    return there.E, there.r, turn(v.angular), turn(v.linear + v.angular.cross(r))


@once
def frame_velocity_of(way: int) -> Algorithm:
    """The passes of `frame_velocity`, for one of the ways."""
    return Algorithm(
        name=f"frame_velocity_{WAYS[way]}",
        inputs=("q", "qd"),
        passes=(
            MOVING,
            OneBody(
                "",
                lambda row, _: (None, {"motion": frame_motion(*_velocity(row), way)}),
                needs=("moving",),
                outputs=("motion",),
            ),
        ),
        fields={"moving": Moving},
        outputs={"motion": Motion},
        accurate=True,
    )


def _accelerate(row: Row, parent: Accelerating) -> tuple[Accelerating, dict]:
    return Accelerating(moving(row, parent.moving)[0], motion(row).act(parent.rates)), {}


ACCELERATING = Stretch(
    element=lambda row: (MOVED.element(row), MOTION.element(row)),
    combine=lambda inner, outer: (MOVED.combine(inner[0], outer[0]), MOTION.combine(inner[1], outer[1])),
    act=lambda e, parent: Accelerating(MOVED.act(e[0], parent.moving), MOTION.act(e[1], parent.rates)),
    identity=lambda x: (MOVED.identity(x), MOTION.identity(x)),
)


@once
def frame_acceleration_of(way: int) -> Algorithm:
    """The passes of `frame_acceleration`, for one of the ways."""

    def visit(row: Row, _: None) -> tuple[None, dict]:
        at, (w, alpha, a) = row.accelerating.moving, row.accelerating.rates
        r, turn = row.frame.r, at.pose.orientation.turn
        there = _velocity(Row(moving=at, frame=row.frame))
        classical = a + alpha.cross(r) + w.cross(w.cross(r))
        return None, {"motion": frame_change(*there, (turn(alpha), turn(classical)), way)}

    return Algorithm(
        name=f"frame_acceleration_{WAYS[way]}",
        inputs=("q", "qd", "qdd"),
        passes=(
            Outward(
                "accelerating", _accelerate, given=("qd", "qdd"), link=("axis",), stretch=ACCELERATING, places=True
            ),
            OneBody("", visit, needs=("accelerating",), outputs=("motion",)),
        ),
        fields={"accelerating": Accelerating},
        outputs={"motion": Motion},
        accurate=True,
    )

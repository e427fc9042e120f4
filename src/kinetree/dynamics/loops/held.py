"""The rows of a loop, from the two frames that it joins. Elementwise, for arrays and for lanes.

A row is a direction n, linear or angular, of the motion of the second body relative to the first. Its velocity is n · u
and its acceleration n · u̇ + ṅ · u, with u the relative velocity of two points that coincide when the loop is closed.
With d = p₂ − p₁, for loops that hold

    two points                   u = v₂ − v₁             world axes
    two frames                   u = v₂ − v₁ − ω₂ × d    at p₁, in the axes of the first frame
    two frames that may slide    u = v₂ − v₁ − ω₁ × d    at p₂, in the axes of the first frame

The last is the rate of n · d. The first two are Pinocchio's, so accelerations agree with Pinocchio also in states in
which loops move apart (Carpentier, Budhiraja and Mansard 2021, "Proximal and sparse resolution of constrained dynamic
equations").
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from kinetree.model.loops import KINDS
from kinetree.spatial import Quaternion, Vec3

LINEAR, ANGULAR, JOINT = 0, 1, 2  # classes of rows: what a row holds
HALF_TURN = 1e-6  # sine of the angle between opposite axes; below it, any direction of the way back is good


class LoopEnd(NamedTuple):
    """A frame on a body, in the world: its pose, velocity and acceleration."""

    orientation: Quaternion
    position: Vec3
    omega: Vec3
    linear: Vec3  # velocity of the origin
    alpha: Vec3
    acceleration: Vec3  # of the origin


class HeldRow(NamedTuple):
    """A direction that is held."""

    part: int  # LINEAR or ANGULAR
    n: Vec3
    velocity: Any
    drift: Any  # the acceleration of the row from the motion of the ends
    error: Any  # how far the loop is open, in metres or radians


class HeldLoop(NamedTuple):
    """All rows of a loop, and the points of the two bodies on which their forces act."""

    rows: list[HeldRow]
    first: Vec3
    second: Vec3


def classes_of(kind: str) -> list[int]:
    """The classes of the rows of a kind of loop, in order."""
    held = KINDS[kind]
    return [LINEAR] * len(held.linear) + [ANGULAR] * (len(held.angular) + held.crossed)


def held_rows(kind: str, one: LoopEnd, two: LoopEnd) -> HeldLoop:
    """The rows of a loop between two frames."""
    held = KINDS[kind]
    slides = len(held.linear) < 3
    d, omega, apart = two.position - one.position, two.omega - one.omega, two.linear - one.linear
    u, growth = apart, two.acceleration - one.acceleration
    if not held.point:
        spun, sped = (one.omega, one.alpha) if slides else (two.omega, two.alpha)
        u, growth = apart - spun.cross(d), growth - (sped.cross(d) + spun.cross(apart))
    axes = one.orientation.rotation().rows
    rows = []
    for k in held.linear:
        n = Vec3(*(jnp.full_like(d.x, float(k == i)) for i in range(3))) if held.point else axes[k]
        turning = 0.0 if held.point else one.omega.cross(n).dot(u)
        rows.append(HeldRow(LINEAR, n, n.dot(u), n.dot(growth) + turning, n.dot(d)))
    if held.angular:
        turned, alpha = _turned(one.orientation, two.orientation, len(held.angular) == 3), two.alpha - one.alpha
        for n in (axes[k] for k in held.angular):
            drift = n.dot(alpha) + one.omega.cross(n).dot(omega)
            rows.append(HeldRow(ANGULAR, n, n.dot(omega), drift, n.dot(turned)))
    if held.crossed:
        x1, y2 = axes[0], two.orientation.rotation().rows[1]
        n = y2.cross(x1)
        turning = two.omega.cross(y2).cross(x1) + y2.cross(one.omega.cross(x1))
        drift = n.dot(two.alpha - one.alpha) + turning.dot(omega)
        rows.append(HeldRow(ANGULAR, n, n.dot(omega), drift, x1.dot(y2)))
    return HeldLoop(
        rows, two.position if slides else one.position, two.position if held.point or slides else one.position
    )


def _turned(one: Quaternion, two: Quaternion, whole: bool) -> Vec3:
    """The rotation vector, in the world, from the first frame to the second; if not `whole`, from z axis to z axis."""
    if whole:
        return one.turn((one.conjugate() * two).log())
    first, z2 = one.rotation().rows, two.rotation().rows[2]
    across, cosine = first[2].cross(z2), first[2].dot(z2)
    square = across.dot(across)
    some = square > HALF_TURN**2
    sine = jnp.sqrt(jnp.where(some, square, jnp.ones_like(square)))  # never differentiate sqrt at 0
    swing = across * jnp.where(some, jnp.arctan2(sine, cosine) / sine, jnp.ones_like(sine))
    back = first[0] * np.pi
    return Vec3(*(jnp.where(some | (cosine > 0), x, y) for x, y in zip(swing, back, strict=True)))


class FollowingRow(NamedTuple):
    """A joint that follows another, q₁ − ref₁ = Σ cₖ (q₂ − ref₂)ᵏ: the row is q̇₁ − slope q̇₂."""

    slope: Any
    drift: Any
    error: Any


def following_row(c: Any, q1: Any, q2: Any, speed: Any) -> FollowingRow:
    """The row from coordinates minus their references; `speed` is q̇₂. A free joint has q2 and c₁ … c₄ at 0."""
    slope = c[1] + q2 * (2 * c[2] + q2 * (3 * c[3] + q2 * 4 * c[4]))
    bend = 2 * c[2] + q2 * (6 * c[3] + q2 * 12 * c[4])
    error = q1 - c[0] - q2 * (c[1] + q2 * (c[2] + q2 * (c[3] + q2 * c[4])))
    return FollowingRow(slope, -bend * speed * speed, error)


def wanted_of(rate: Any, velocity: Any, drift: Any, error: Any) -> Any:
    """The G qdd that keeps a row closed, or closes it at a rate by Baumgarte's method."""
    return -drift - 2 * rate * velocity - rate * rate * error

"""Rows: the form of joints in every algorithm.

Each row is a screw about the z axis of its own frame: `X = screw(q) · tree transform`, `S = (0, 0, turn, 0, 0,
slide)`. Its constants are a quaternion, a position, turn, slide and ten inertia numbers.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

from kinetree.spatial import Force, Inertia, Motion, Quaternion, RelativeMotion, Scalar, Transform, Vec3


class Rows(NamedTuple):
    """Constants of all rows; each component has the row as first axis."""

    orientation: Quaternion  # of the row's frame in its parent's, at q = 0
    position: Vec3  # of the row's origin in its parent's frame, at q = 0
    turn: Scalar
    slide: Scalar
    inertia: Inertia
    armature: Scalar  # rotor inertia seen at the joint: adds to the diagonal of H

    @property
    def axis(self) -> "Axis":
        """The row's screw."""
        return Axis(self.turn, self.slide)


class Axis(NamedTuple):
    """S = (0, 0, turn, 0, 0, slide)."""

    turn: Scalar
    slide: Scalar

    def times(self, u: Scalar) -> Motion:
        """S u. 2m."""
        zero = jnp.zeros_like(u)
        return Motion(Vec3(zero, zero, self.turn * u), Vec3(zero, zero, self.slide * u))

    def dot(self, f: Force) -> Scalar:
        """Sᵀ f. 2m 1a."""
        return self.turn * f.angular.z + self.slide * f.linear.z


class Placement(NamedTuple):
    """A row's frame in its parent's: the joint transform and the tree transform together."""

    orientation: Quaternion
    position: Vec3

    @property
    def transform(self) -> Transform:
        """The placement as a Plücker transform from parent to row coordinates."""
        return Transform(self.orientation.rotation(), self.position)

    @staticmethod
    def identity_like(s: Scalar) -> "Placement":
        """The parent's frame itself, with components shaped like `s`."""
        return Placement(Quaternion.identity_like(s), Vec3.zero_like(s))

    def __matmul__(self, o: Any) -> Any:
        """X @ motion: to the row's coordinates, 36m 36a. X2 @ X1: first X1, then X2, 40m 38a. Both by quaternion."""
        if isinstance(o, Motion):
            turn = self.orientation.to_child
            return Motion(turn(o.angular), turn(o.linear + o.angular.cross(self.position)))
        return Placement(
            (o.orientation * self.orientation).renormalized(), o.position + o.orientation.turn(self.position)
        )

    def screwed(self, cos_half: Scalar, sin_half: Scalar, slide: Scalar) -> "Placement":
        """The placement with the row turned about its own z axis, and moved along it. 26m 22a."""
        turned = self.orientation.times_about_z(cos_half, sin_half).renormalized()
        z_axis = turned.rotation().rows[2]  # the same before and after the turn
        return Placement(turned, self.position + z_axis * slide)

    def inverse(self) -> "Placement":
        """The parent's frame in the row's. 15m 15a."""
        back = self.orientation.conjugate()
        return Placement(back, -back.turn(self.position))

    def force_to_parent(self, f: Force) -> Force:
        """Xᵀ f, turned with the quaternion (see spatial/rotation.py for why). 36m 36a."""
        turn = self.orientation.to_parent
        linear = turn(f.linear)
        return Force(turn(f.angular) + self.position.cross(linear), linear)


def place(orientation: Quaternion, position: Vec3, axis: Axis, q: Scalar) -> Placement:
    """The placement of the screw at coordinate q. 29m 22a, a sine and a cosine."""
    half = (0.5 * axis.turn) * q
    return Placement(orientation, position).screwed(jnp.cos(half), jnp.sin(half), axis.slide * q)


def relative_motion(placed: Placement | Transform, axis: Axis, qd: Scalar, qdd: Scalar) -> RelativeMotion:
    """The motion of the row in its parent. 4m."""
    velocity, acceleration = axis.times(qd), axis.times(qdd)
    return RelativeMotion(*placed, velocity.angular, acceleration.angular, velocity.linear, acceleration.linear)

"""Second-order motion: pose, velocity and acceleration together, which form a group.

A frame's `Rates` are its angular velocity, angular acceleration and the (classical) acceleration of its origin, in its
own coordinates. A `RelativeMotion` says how a child frame moves with respect to its parent; it acts on the parent's
rates and gives the child's. Two in a row make one, so a single scan carries everything that inverse dynamics needs
outward.
"""

from typing import Any, NamedTuple

from .rotation import Quaternion
from .transform import Transform
from .vec3 import Mat3, Scalar, Vec3


class Rates(NamedTuple):
    """Angular velocity, angular acceleration, linear acceleration of the origin; in the frame's own coordinates."""

    omega: Vec3
    alpha: Vec3
    acceleration: Vec3

    @property
    def gradient(self) -> Mat3:
        """W = α× + ω× ω×: the point at x accelerates by a + W x. 6m 9a."""
        (x, y, z), (p, q, r) = self.omega, self.alpha
        xx, yy, zz, xy, xz, yz = x * x, y * y, z * z, x * y, x * z, y * z
        return Mat3(-(yy + zz), xy - r, xz + q, xy + r, -(xx + zz), yz - p, xz - q, yz + p, -(xx + yy))

    def acceleration_at(self, x: Vec3) -> Vec3:
        """The acceleration of the point at x. 15m 18a."""
        return self.gradient.times_plus(x, self.acceleration)


class RelativeMotion(NamedTuple):
    """A child frame seen from its parent: pose, then velocities and accelerations in child coordinates."""

    orientation: Any  # a Quaternion; or a Rotation, where the motion only acts
    position: Vec3
    omega: Vec3
    alpha: Vec3
    velocity: Vec3
    acceleration: Vec3

    @staticmethod
    def identity_like(s: Scalar) -> "RelativeMotion":
        """A frame that is its parent, at rest in it."""
        zero = Vec3.zero_like(s)
        return RelativeMotion(Quaternion.identity_like(s), zero, zero, zero, zero, zero)

    @property
    def transform(self) -> Transform:
        """The pose, as a Plücker transform."""
        return Transform(self.orientation.rotation(), self.position)

    @property
    def rates(self) -> Rates:
        """The child's rates where the parent rests."""
        return Rates(self.omega, self.alpha, self.acceleration)

    def act(self, parent: Rates) -> Rates:
        """The child's rates from its parent's: the classical transport formulas. 72m 87a."""
        turn = self.orientation.to_child
        omega = turn(parent.omega)
        carried = parent.acceleration_at(self.position)
        coriolis = omega.cross(self.velocity)
        return Rates(
            omega + self.omega,
            turn(parent.alpha) + omega.cross(self.omega) + self.alpha,
            turn(carried) + coriolis + coriolis + self.acceleration,
        )

    def then(self, outer: "RelativeMotion") -> "RelativeMotion":
        """self, and then a frame that moves with respect to its child. 133m 149a."""
        r = outer.position
        rates = outer.act(self.rates)
        return RelativeMotion(
            (self.orientation * outer.orientation).renormalized(),
            self.position + self.orientation.turn(r),
            *rates[:2],
            outer.orientation.to_child(self.velocity + self.omega.cross(r)) + outer.velocity,
            rates.acceleration,
        )

    def inverse(self) -> "RelativeMotion":
        """The parent seen from its child."""
        E, r = self.transform
        turn = E.t_mul
        omega, alpha = -turn(self.omega), -turn(self.alpha)
        # what `then` must cancel: E⁻¹(v + ω × r') + v' = 0 with r' = −E r, and likewise for the acceleration
        back = -(E @ r)
        velocity = -turn(self.velocity + self.omega.cross(back))
        coriolis = turn(self.omega).cross(velocity)
        acceleration = -turn(self.acceleration + self.alpha.cross(back) + self.omega.cross(self.omega.cross(back))) - (
            coriolis + coriolis
        )
        return RelativeMotion(self.orientation.conjugate(), back, omega, alpha, velocity, acceleration)

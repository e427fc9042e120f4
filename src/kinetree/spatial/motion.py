"""Spatial motions and forces, angular part first (Featherstone, RBDA chapter 2)."""

from typing import NamedTuple

import jax.numpy as jnp

from .vec3 import Scalar, Vec3


class Motion(NamedTuple):
    """A spatial motion: angular, and linear at the frame's origin."""

    angular: Vec3
    linear: Vec3

    __array_ufunc__ = None

    @staticmethod
    def zero_like(s: Scalar) -> "Motion":
        """Rest, with components shaped like `s`."""
        return Motion(Vec3.zero_like(s), Vec3.zero_like(s))

    @staticmethod
    def from_array(a: Scalar) -> "Motion":
        """Components from the last axis of an array, of length 6."""
        return Motion(Vec3.from_array(a), Vec3.from_array(a[..., 3:]))

    def array(self) -> Scalar:
        """Components stacked on a new last axis of length 6."""
        return jnp.stack([*self.angular, *self.linear], -1)

    def __add__(self, o: "Motion") -> "Motion":
        """6a."""
        return Motion(self.angular + o.angular, self.linear + o.linear)

    def __sub__(self, o: "Motion") -> "Motion":
        """6a."""
        return Motion(self.angular - o.angular, self.linear - o.linear)

    def __neg__(self) -> "Motion":
        return Motion(-self.angular, -self.linear)

    def __mul__(self, s: Scalar) -> "Motion":
        """6m."""
        return Motion(self.angular * s, self.linear * s)

    __rmul__ = __mul__

    def dot(self, f: "Force") -> Scalar:
        """Power of a force on this motion. 6m 5a."""
        return self.angular.dot(f.angular) + self.linear.dot(f.linear)

    def cross(self, m: "Motion") -> "Motion":
        """crm: v × m (RBDA eq. 2.31). 18m 12a."""
        return Motion(self.angular.cross(m.angular), self.angular.cross(m.linear) + self.linear.cross(m.angular))

    def cross_force(self, f: "Force") -> "Force":
        """crf: v ×* f (RBDA eq. 2.32). 18m 12a."""
        return Force(self.angular.cross(f.angular) + self.linear.cross(f.linear), self.angular.cross(f.linear))


class Force(NamedTuple):
    """A spatial force: moment about the frame's origin, then linear force."""

    angular: Vec3
    linear: Vec3

    __array_ufunc__ = None

    @staticmethod
    def zero_like(s: Scalar) -> "Force":
        """No force, with components shaped like `s`."""
        return Force(Vec3.zero_like(s), Vec3.zero_like(s))

    @staticmethod
    def from_array(a: Scalar) -> "Force":
        """Components from the last axis of an array, of length 6."""
        return Force(Vec3.from_array(a), Vec3.from_array(a[..., 3:]))

    def array(self) -> Scalar:
        """Components stacked on a new last axis of length 6."""
        return jnp.stack([*self.angular, *self.linear], -1)

    def __add__(self, o: "Force") -> "Force":
        """6a."""
        return Force(self.angular + o.angular, self.linear + o.linear)

    def __sub__(self, o: "Force") -> "Force":
        """6a."""
        return Force(self.angular - o.angular, self.linear - o.linear)

    def __neg__(self) -> "Force":
        return Force(-self.angular, -self.linear)

    def __mul__(self, s: Scalar) -> "Force":
        """6m."""
        return Force(self.angular * s, self.linear * s)

    __rmul__ = __mul__

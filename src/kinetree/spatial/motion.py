"""Spatial motions and forces, angular part first (Featherstone, RBDA chapter 2)."""

from typing import NamedTuple, Self

import jax.numpy as jnp

from .vec3 import Scalar, Vec3


class SpatialVector(NamedTuple):
    """An angular part, and a linear part at the frame's origin."""

    angular: Vec3
    linear: Vec3

    __array_ufunc__ = None

    @classmethod
    def zero_like(cls, s: Scalar) -> Self:
        """Zero, with components shaped like `s`."""
        return cls(Vec3.zero_like(s), Vec3.zero_like(s))

    @classmethod
    def from_array(cls, a: Scalar) -> Self:
        """Components from the last axis of an array, of length 6."""
        return cls(Vec3.from_array(a), Vec3.from_array(a[..., 3:]))

    def array(self) -> Scalar:
        """Components stacked on a new last axis of length 6."""
        return jnp.stack([*self.angular, *self.linear], -1)

    def __add__(self, o: Self) -> Self:  # type: ignore[override]
        """6a."""
        return type(self)(self.angular + o.angular, self.linear + o.linear)

    def __sub__(self, o: Self) -> Self:
        """6a."""
        return type(self)(self.angular - o.angular, self.linear - o.linear)

    def __neg__(self) -> Self:
        return type(self)(-self.angular, -self.linear)

    def __mul__(self, s: Scalar) -> Self:
        """6m."""
        return type(self)(self.angular * s, self.linear * s)

    __rmul__ = __mul__


class Motion(SpatialVector):
    """A spatial motion."""

    __slots__ = ()

    def dot(self, f: "Force") -> Scalar:
        """Power of a force on this motion. 6m 5a."""
        return self.angular.dot(f.angular) + self.linear.dot(f.linear)

    def cross(self, m: "Motion") -> "Motion":
        """crm: v × m (RBDA eq. 2.31). 18m 12a."""
        return Motion(self.angular.cross(m.angular), self.angular.cross(m.linear) + self.linear.cross(m.angular))

    def cross_force(self, f: "Force") -> "Force":
        """crf: v ×* f (RBDA eq. 2.32). 18m 12a."""
        return Force(self.angular.cross(f.angular) + self.linear.cross(f.linear), self.angular.cross(f.linear))


class Force(SpatialVector):
    """A spatial force: moment about the frame's origin, then linear force."""

    __slots__ = ()

"""Rotations: as a coordinate transform (nine numbers) and as a unit quaternion (four).

By count a matrix turns a vector in 9m 6a, a quaternion in 15m 15a; two quaternions compose in 16m 12a, two matrices in
27m 18a, and a quaternion moves less than half the memory. By the clock (benchmarks/rotations.py, float64, two cores) a
scan of orientations takes half the time with quaternions, inverse dynamics by `paths` 0.9 of it, in lanes 1.25 of it.
What decides is accuracy: a matrix whose angle is the same in every body is rounded the same in every body, and in
inverse dynamics of a chain of 100 000 that adds up to 3e-12, where quaternions, made unit again at each product, leave
4e-14 (`paths`) and 1.6e-13 (lanes). So models and scans hold quaternions and turn with them; matrices are for where one
rotation turns many vectors of a mechanism that is not deep, as in inverse dynamics of robots.
"""

from typing import NamedTuple

import jax.numpy as jnp

from .vec3 import Mat3, Scalar, Vec3


class Rotation(Mat3):
    """E of Featherstone's plux(E, r): takes coordinates in the parent frame to coordinates in the child frame."""

    __slots__ = ()

    @staticmethod
    def identity_like(s: Scalar) -> "Rotation":
        """No rotation, with components shaped like `s`."""
        z, one = jnp.zeros_like(s), jnp.ones_like(s)
        return Rotation(one, z, z, z, one, z, z, z, one)

    @staticmethod
    def from_array(a: Scalar) -> "Rotation":
        """Components from the last two axes of an array."""
        return Rotation(*Mat3.from_array(a))

    @property
    def T(self) -> "Rotation":
        """The inverse: from child to parent coordinates."""
        return Rotation(*super().T)

    def to_child(self, v: Vec3) -> Vec3:
        """A vector from parent to child coordinates. 9m 6a."""
        return self @ v

    def to_parent(self, v: Vec3) -> Vec3:
        """A vector from child to parent coordinates. 9m 6a."""
        return self.t_mul(v)

    def turned(self, cos: Scalar, sin: Scalar) -> "Rotation":
        """The child turned about its own z axis. 12m 6a."""
        x, y, z = self.rows
        return Rotation(*Mat3.from_columns(x * cos + y * sin, y * cos - x * sin, z).T)

    def after(self, o: "Rotation") -> "Rotation":
        """First o, then self. 27m 18a."""
        return Rotation(*(Mat3(*self) @ Mat3(*o)))


class Quaternion(NamedTuple):
    """Orientation of a frame in its parent, (w, x, y, z), of unit length.

    `q.turn(v)` takes child to parent coordinates; `p * q` is the orientation of q's frame in the frame p lives in.
    """

    w: Scalar
    x: Scalar
    y: Scalar
    z: Scalar

    __array_ufunc__ = None

    @staticmethod
    def identity_like(s: Scalar) -> "Quaternion":
        """No rotation, with components shaped like `s`."""
        z = jnp.zeros_like(s)
        return Quaternion(jnp.ones_like(s), z, z, z)

    @staticmethod
    def from_array(a: Scalar) -> "Quaternion":
        """Components from the last axis of an array."""
        return Quaternion(a[..., 0], a[..., 1], a[..., 2], a[..., 3])

    @staticmethod
    def exp(v: Vec3) -> "Quaternion":
        """The turn by the rotation vector v; smooth at zero."""
        squared = v.dot(v)
        small = squared < 1e-12
        angle = jnp.sqrt(jnp.where(small, jnp.ones_like(squared), squared))  # never differentiate sqrt at 0
        ratio = jnp.where(small, 0.5 - squared / 48, jnp.sin(angle / 2) / angle)
        return Quaternion(jnp.where(small, 1 - squared / 8, jnp.cos(angle / 2)), *(v * ratio))

    def log(self) -> Vec3:
        """The rotation vector of length at most pi: the inverse of exp."""
        sign = jnp.where(self.w < 0, -1.0, 1.0).astype(jnp.result_type(self.w))  # q and −q are one rotation
        w, v = self.w * sign, Vec3(self.x, self.y, self.z) * sign
        squared = v.dot(v)
        small = squared < 1e-12
        length = jnp.sqrt(jnp.where(small, jnp.ones_like(squared), squared))
        ratio = 1 / jnp.where(small, w, jnp.ones_like(w))  # never divide by the w = 0 of half a turn
        return v * jnp.where(small, 2 * ratio * (1 - squared * ratio * ratio / 3), 2 * jnp.arctan2(length, w) / length)

    def array(self) -> Scalar:
        """Components stacked on a new last axis."""
        return jnp.stack(self, -1)

    def conjugate(self) -> "Quaternion":
        """The inverse rotation."""
        return Quaternion(self.w, -self.x, -self.y, -self.z)

    def __mul__(self, o: "Quaternion") -> "Quaternion":
        """Hamilton's product. 16m 12a."""
        a, b, c, d = self
        e, f, g, h = o
        return Quaternion(
            a * e - b * f - c * g - d * h,
            a * f + b * e + c * h - d * g,
            a * g - b * h + c * e + d * f,
            a * h + b * g - c * f + d * e,
        )

    def times_about_z(self, cos_half: Scalar, sin_half: Scalar) -> "Quaternion":
        """self * (cos_half, 0, 0, sin_half). 8m 4a."""
        w, x, y, z = self
        return Quaternion(
            w * cos_half - z * sin_half,
            x * cos_half + y * sin_half,
            y * cos_half - x * sin_half,
            z * cos_half + w * sin_half,
        )

    def norm_squared(self) -> Scalar:
        """4m 3a."""
        return self.w * self.w + self.x * self.x + self.y * self.y + self.z * self.z

    def renormalized(self) -> "Quaternion":
        """Back to unit length, for one that is nearly so: a Newton step, no square root. 9m 8a.

        Rounding a constant leaves its length wrong by the same half ulp in every body; along a chain of 100 000 that
        adds up to 1e-11 (float64) or 1e-2 (float32). After this step what is left is random, and grows as a square
        root: the defect is summed downwards from 1, because a sum that ends near 1 is rounded on a grid twice as fine
        below 1 as above, and that too would be the same small bias in every body.
        """
        defect = 0.5 * (1 - self.w * self.w - self.x * self.x - self.y * self.y - self.z * self.z)
        return Quaternion(*(c + c * defect for c in self))

    def normalized(self) -> "Quaternion":
        """The quaternion at unit length, from any length but zero."""
        scale = 1 / jnp.sqrt(self.norm_squared())
        return Quaternion(self.w * scale, self.x * scale, self.y * scale, self.z * scale)

    def rotation(self) -> Rotation:
        """The coordinate transform from parent to child. 9m 15a."""
        w, x, y, z = self
        x2, y2, z2 = x + x, y + y, z + z
        xx, yy, zz = x * x2, y * y2, z * z2
        xy, xz, yz, wx, wy, wz = x * y2, x * z2, y * z2, w * x2, w * y2, w * z2
        return Rotation(
            1 - (yy + zz), xy + wz, xz - wy, xy - wz, 1 - (xx + zz), yz + wx, xz + wy, yz - wx, 1 - (xx + yy)
        )

    def turn(self, v: Vec3) -> Vec3:
        """A vector from child to parent coordinates. 15m 15a."""
        u = Vec3(self.x, self.y, self.z)
        t = u.cross(v)
        t = t + t
        return v + t * self.w + u.cross(t)

    def to_parent(self, v: Vec3) -> Vec3:
        """As for a `Rotation`. 15m 15a."""
        return self.turn(v)

    def to_child(self, v: Vec3) -> Vec3:
        """As for a `Rotation`. 15m 15a."""
        return self.conjugate().turn(v)

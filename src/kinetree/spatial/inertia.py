"""Spatial inertias: of a rigid body (10 numbers) and of an articulated one (21)."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

from .motion import Force, Motion
from .vec3 import Mat3, Scalar, Sym3, Vec3


class Inertia(NamedTuple):
    """A rigid body: mass, first moment h = m c, and rotational inertia I about the frame's origin (RBDA eq. 2.63)."""

    mass: Scalar
    h: Vec3
    I: Sym3

    __array_ufunc__ = None

    @staticmethod
    def zero_like(s: Scalar) -> "Inertia":
        """Nothing, with components shaped like `s`."""
        z = jnp.zeros_like(s)
        return Inertia(z, Vec3(z, z, z), Sym3(z, z, z, z, z, z))

    @staticmethod
    def from_array(a: Scalar) -> "Inertia":
        """From (..., 10): mass, h, then xx yy zz xy xz yz."""
        return Inertia(a[..., 0], Vec3.from_array(a[..., 1:]), Sym3(*(a[..., k] for k in range(4, 10))))

    @staticmethod
    def from_matrix(a: Scalar) -> "Inertia":
        """From (..., 6, 6) spatial inertia matrices."""
        mass = (a[..., 3, 3] + a[..., 4, 4] + a[..., 5, 5]) / 3
        h = Vec3(a[..., 2, 4], a[..., 0, 5], a[..., 1, 3])
        return Inertia(mass, h, Sym3.from_array(a))

    def array(self) -> Scalar:
        """(..., 10): mass, h, then xx yy zz xy xz yz."""
        return jnp.stack([self.mass, *self.h, *self.I], -1)

    def __add__(self, o: "Inertia") -> "Inertia":
        """10a."""
        return Inertia(self.mass + o.mass, self.h + o.h, self.I + o.I)

    def __matmul__(self, v: Motion) -> Force:
        """Momentum of the body moving with v. 24m 18a."""
        return Force(self.I @ v.angular + self.h.cross(v.linear), v.linear * self.mass - self.h.cross(v.angular))

    def shifted(self, r: Vec3) -> "Inertia":
        """About another origin, from which the present one is seen at r. 19m 18a."""
        m, h = self.mass, self.h
        k = h + r * (0.5 * m)  # I' = I + 2 (r·k) 1 − (r kᵀ + k rᵀ)
        x, y, z = r.x * k.x, r.y * k.y, r.z * k.z
        return Inertia(
            m,
            h + r * m,
            self.I
            + Sym3(
                2 * (y + z),
                2 * (x + z),
                2 * (x + y),
                -(r.x * k.y + r.y * k.x),
                -(r.x * k.z + r.z * k.x),
                -(r.y * k.z + r.z * k.y),
            ),
        )

    def moments(self) -> "Moments":
        """The body as moments of mass. 1m 5a."""
        xx, yy, zz, xy, xz, yz = self.I
        half = (xx + yy + zz) * 0.5
        return Moments(self.mass, self.h, Sym3(half - xx, half - yy, half - zz, -xy, -xz, -yz))

    @staticmethod
    def from_moments(m: "Moments") -> "Inertia":
        """The body from its moments of mass. 3a."""
        xx, yy, zz, xy, xz, yz = m.second
        return Inertia(m.mass, m.first, Sym3(yy + zz, xx + zz, xx + yy, -xy, -xz, -yz))

    def articulated(self) -> "ArticulatedInertia":
        """The same inertia in the form that joints can be taken out of. No arithmetic."""
        z, (x, y, h) = jnp.zeros_like(self.mass), self.h
        return ArticulatedInertia(self.I, Mat3(z, -h, y, h, z, -x, -y, x, z), Sym3.diagonal(self.mass))


class Moments(NamedTuple):
    """A rigid body as ∫ dm, ∫ x dm and ∫ x xᵀ dm: enough to integrate fields that are linear in x."""

    mass: Scalar
    first: Vec3
    second: Sym3


class ArticulatedInertia(NamedTuple):
    """A symmetric map from motion to force, [[A, B], [Bᵀ, C]], of the body and all that hangs from it."""

    A: Sym3
    B: Mat3
    C: Sym3

    __array_ufunc__ = None

    @staticmethod
    def zero_like(s: Scalar) -> "ArticulatedInertia":
        """Nothing, with components shaped like `s`."""
        return Inertia.zero_like(s).articulated()

    @staticmethod
    def of(entry: Callable[[int, int], Scalar]) -> "ArticulatedInertia":
        """From the entries (i, j), i ≤ j, of the matrix."""

        def sym(k: int) -> Sym3:
            return Sym3(*(entry(k + i, k + j) for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))))

        return ArticulatedInertia(sym(0), Mat3(*(entry(i, 3 + j) for i in range(3) for j in range(3))), sym(3))

    def __add__(self, o: "ArticulatedInertia") -> "ArticulatedInertia":
        """21a."""
        return ArticulatedInertia(self.A + o.A, self.B + o.B, self.C + o.C)

    def __matmul__(self, v: Motion) -> Force:
        """36m 30a."""
        return Force(
            self.A @ v.angular + self.B @ v.linear,
            self.B.t_mul(v.angular) + self.C @ v.linear,
        )

    def without(self, U: Force, d_inverse: Scalar) -> "ArticulatedInertia":
        """self − U Uᵀ / d: what a joint that moves freely along S leaves, with U = self S and d = Sᵀ U. 27m 21a."""
        n, f = U.angular * d_inverse, U.linear * d_inverse
        x, y, z = f
        u = U.linear
        return ArticulatedInertia(
            self.A - Sym3(n.x * U.angular.x, n.y * U.angular.y, n.z * U.angular.z,
                          n.x * U.angular.y, n.x * U.angular.z, n.y * U.angular.z),
            self.B - n.outer(u),
            self.C - Sym3(x * u.x, y * u.y, z * u.z, x * u.y, x * u.z, y * u.z),
        )  # fmt: skip

    def solve(self, f: Force) -> Motion:
        """The motion a with self a = f, of a positive definite inertia, by LDLᵀ. 86m 65a 6 divisions."""
        (xx, yy, zz, xy, xz, yz), (ll, mm, nn, lm, ln, mn) = self.A, self.C
        top = [[xx], [xy, yy], [xz, yz, zz]]
        down = [list(column) for column in zip(*self.B.rows, strict=True)]
        L = [*top, [*down[0], ll], [*down[1], lm, mm], [*down[2], ln, mn, nn]]
        y = [*f.angular, *f.linear]
        for j, row in enumerate(L):
            row[j] = 1 / row[j]
            for i in range(j + 1, 6):
                factor = L[i][j] * row[j]
                for k in range(j + 1, i + 1):
                    L[i][k] = L[i][k] - factor * L[k][j]
                y[i] = y[i] - factor * y[j]
        for j in reversed(range(6)):
            for i in range(j + 1, 6):
                y[j] = y[j] - L[i][j] * y[i]
            y[j] = y[j] * L[j][j]
        return Motion(Vec3(*y[:3]), Vec3(*y[3:]))

    def array(self) -> Scalar:
        """(..., 6, 6) matrices."""
        A, B, C = self.A.array(), self.B.array(), self.C.array()
        return jnp.concatenate([jnp.concatenate([A, B], -1), jnp.concatenate([jnp.swapaxes(B, -1, -2), C], -1)], -2)

"""Three numbers with a direction, and 3 by 3 matrices, as components.

Each component is a scalar or an array of any shape; every operation is elementwise over that shape, so the same text
serves one body, a million bodies, a batch of states, or the registers of a kernel. Counts are multiplications (m) and
additions (a) for each element, with nothing computed twice and negations free.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

Scalar = Any  # a float, a NumPy array, a JAX array or a tracer: whatever shape the caller works on


class Vec3(NamedTuple):
    """A vector in 3-space."""

    x: Scalar
    y: Scalar
    z: Scalar

    __array_ufunc__ = None  # NumPy must leave `array * vector` to us

    @staticmethod
    def zero_like(s: Scalar) -> "Vec3":
        """The zero vector, with components shaped like `s`."""
        z = jnp.zeros_like(s)
        return Vec3(z, z, z)

    @staticmethod
    def from_array(a: Scalar) -> "Vec3":
        """Components from the last axis of an array."""
        return Vec3(a[..., 0], a[..., 1], a[..., 2])

    def array(self) -> Scalar:
        """Components stacked on a new last axis."""
        return jnp.stack(self, -1)

    def __add__(self, o: "Vec3") -> "Vec3":
        """3a."""
        return Vec3(self.x + o.x, self.y + o.y, self.z + o.z)

    def __sub__(self, o: "Vec3") -> "Vec3":
        """3a."""
        return Vec3(self.x - o.x, self.y - o.y, self.z - o.z)

    def __neg__(self) -> "Vec3":
        return Vec3(-self.x, -self.y, -self.z)

    def __mul__(self, s: Scalar) -> "Vec3":
        """3m."""
        return Vec3(self.x * s, self.y * s, self.z * s)

    __rmul__ = __mul__

    def dot(self, o: "Vec3") -> Scalar:
        """3m 2a."""
        return self.x * o.x + self.y * o.y + self.z * o.z

    def dot_plus(self, o: "Vec3", s: Scalar) -> Scalar:
        """s + self · o, in an order that fuses. 3m 3a."""
        return s + self.x * o.x + self.y * o.y + self.z * o.z

    def cross(self, o: "Vec3") -> "Vec3":
        """6m 3a."""
        return Vec3(self.y * o.z - self.z * o.y, self.z * o.x - self.x * o.z, self.x * o.y - self.y * o.x)

    def outer(self, o: "Vec3") -> "Mat3":
        """The matrix self oᵀ. 9m."""
        return Mat3(*(a * b for a in self for b in o))


class Mat3(NamedTuple):
    """A 3 by 3 matrix, row by row."""

    xx: Scalar
    xy: Scalar
    xz: Scalar
    yx: Scalar
    yy: Scalar
    yz: Scalar
    zx: Scalar
    zy: Scalar
    zz: Scalar

    __array_ufunc__ = None

    @staticmethod
    def from_array(a: Scalar) -> "Mat3":
        """Components from the last two axes of an array."""
        return Mat3(*(a[..., i, j] for i in range(3) for j in range(3)))

    @staticmethod
    def from_columns(x: Vec3, y: Vec3, z: Vec3) -> "Mat3":
        """The matrix with these columns."""
        return Mat3(x.x, y.x, z.x, x.y, y.y, z.y, x.z, y.z, z.z)

    def array(self) -> Scalar:
        """Components stacked on two new last axes."""
        stacked = jnp.stack(self, -1)
        return stacked.reshape(*stacked.shape[:-1], 3, 3)

    @property
    def rows(self) -> tuple[Vec3, Vec3, Vec3]:
        """The three rows."""
        return Vec3(*self[0:3]), Vec3(*self[3:6]), Vec3(*self[6:9])

    @property
    def T(self) -> "Mat3":
        """Transpose: no arithmetic."""
        return Mat3(self.xx, self.yx, self.zx, self.xy, self.yy, self.zy, self.xz, self.yz, self.zz)

    def __add__(self, o: "Mat3") -> "Mat3":
        """9a."""
        return Mat3(*(a + b for a, b in zip(self, o, strict=True)))

    def __sub__(self, o: "Mat3") -> "Mat3":
        """9a."""
        return Mat3(*(a - b for a, b in zip(self, o, strict=True)))

    def __mul__(self, s: Scalar) -> "Mat3":
        """9m."""
        return Mat3(*(a * s for a in self))

    __rmul__ = __mul__

    def __matmul__(self, o: Any) -> Any:
        """Times a vector: 9m 6a. Times a matrix: 27m 18a."""
        a, b, c = self.rows
        if isinstance(o, Vec3):
            return Vec3(a.dot(o), b.dot(o), c.dot(o))
        columns = o.T.rows
        return Mat3(*(r.dot(column) for r in (a, b, c) for column in columns))

    def times_plus(self, v: Vec3, o: Vec3) -> Vec3:
        """self v + o, in an order that fuses. 9m 9a."""
        return Vec3(*(row.dot_plus(v, x) for row, x in zip(self.rows, o, strict=True)))

    def t_mul(self, v: Vec3) -> Vec3:
        """The transpose times a vector. 9m 6a."""
        return self.T @ v

    def symmetric_part_twice(self) -> "Sym3":
        """self + selfᵀ. 6a."""
        return Sym3(
            self.xx + self.xx,
            self.yy + self.yy,
            self.zz + self.zz,
            self.xy + self.yx,
            self.xz + self.zx,
            self.yz + self.zy,
        )


class Sym3(NamedTuple):
    """A symmetric 3 by 3 matrix: its diagonal, then xy, xz, yz."""

    xx: Scalar
    yy: Scalar
    zz: Scalar
    xy: Scalar
    xz: Scalar
    yz: Scalar

    __array_ufunc__ = None

    @staticmethod
    def from_array(a: Scalar) -> "Sym3":
        """Components from the upper triangle of the last two axes of an array."""
        return Sym3(*(a[..., i, j] for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))))

    @staticmethod
    def diagonal(s: Scalar) -> "Sym3":
        """s times the identity."""
        z = jnp.zeros_like(s)
        return Sym3(s, s, s, z, z, z)

    def full(self) -> Mat3:
        """The same matrix with all nine components."""
        return Mat3(self.xx, self.xy, self.xz, self.xy, self.yy, self.yz, self.xz, self.yz, self.zz)

    @property
    def rows(self) -> tuple[Vec3, Vec3, Vec3]:
        """The three rows."""
        return self.full().rows

    def array(self) -> Scalar:
        """Components stacked on two new last axes."""
        return self.full().array()

    def __add__(self, o: "Sym3") -> "Sym3":
        """6a."""
        return Sym3(*(a + b for a, b in zip(self, o, strict=True)))

    def __sub__(self, o: "Sym3") -> "Sym3":
        """6a."""
        return Sym3(*(a - b for a, b in zip(self, o, strict=True)))

    def __mul__(self, s: Scalar) -> "Sym3":
        """6m."""
        return Sym3(*(a * s for a in self))

    __rmul__ = __mul__

    def __matmul__(self, v: Any) -> Any:
        """Times a vector: 9m 6a. Times a matrix: 27m 18a."""
        return self.full() @ v

    def turned_back(self, E: Mat3) -> "Sym3":
        """Eᵀ self E: from child to parent coordinates. 45m 30a."""
        M = (self.full() @ E).T.rows  # columns of self E
        e = E.T.rows
        return Sym3(e[0].dot(M[0]), e[1].dot(M[1]), e[2].dot(M[2]), e[0].dot(M[1]), e[0].dot(M[2]), e[1].dot(M[2]))


def cross_matrix_times(p: Vec3, M: Mat3) -> Mat3:
    """p× M: the cross product of p with each column of M. 18m 9a."""
    return Mat3.from_columns(*(p.cross(column) for column in M.T.rows))

"""Two articulated stretches in a row, in scalars: `combine_elements` of articulated_element.py for native walks.

M = (1 + C1 J2)⁻¹ is computed without an inverse. C1 = Σ δ l lᵀ acts as six joints in a row, each compliant along one l.
They are released one after the other, as the algorithm releases joints. So M is a product of projections
    M = F1 F2 … F6,   F = 1 − g l uᵀ,   u = J l,   g = δ / (1 + δ lᵀ u),   J ← J − g u uᵀ   (J = J2 at first)
in which every denominator is at least one.
"""

from typing import Any

import jax.numpy as jnp

from kinetree.spatial import ArticulatedInertia, Force, Motion, Scalar, Vec3

from .articulated import Articulated, Scale
from .articulated_element import ArticulatedElement

Vector = list[Scalar]
Matrix = list[Vector]  # of rows
SIX = range(6)
ROUNDINGS = 4  # in units of ε of a diagonal entry: a rest below this is only rounding error


def _rows(I: ArticulatedInertia) -> Matrix:
    A, B, C = I
    upper = [[A.xx, A.xy, A.xz], [A.xy, A.yy, A.yz], [A.xz, A.yz, A.zz]]
    lower = [[C.xx, C.xy, C.xz], [C.xy, C.yy, C.yz], [C.xz, C.yz, C.zz]]
    side = [[B.xx, B.xy, B.xz], [B.yx, B.yy, B.yz], [B.zx, B.zy, B.zz]]
    return [upper[i] + side[i] for i in range(3)] + [[side[j][i] for j in range(3)] + lower[i] for i in range(3)]


def _symmetric(m: Matrix) -> ArticulatedInertia:
    def entry(i: int, j: int) -> Scalar:
        return m[i][i] if i == j else 0.5 * (m[i][j] + m[j][i])

    return ArticulatedInertia.of(entry)


def _vector(v: Any) -> Vector:
    return [*v[0], *v[1]]


def _dot(a: Vector, b: Vector) -> Scalar:
    total = a[0] * b[0]
    for x, y in zip(a[1:], b[1:], strict=True):
        total = total + x * y
    return total


def _times(m: Matrix, v: Vector) -> Vector:
    return [_dot(row, v) for row in m]


def _columns(m: Matrix) -> Matrix:
    return [[m[i][j] for i in SIX] for j in range(len(m[0]))]


def _compliances(C: Matrix) -> list[tuple[Scalar, Vector]]:
    """C = Σ δ l lᵀ, δ ≥ 0: Cholesky without square roots. The pivot has the largest share of its diagonal entry left.

    C is singular if there are fewer than six rows, or if their axes depend on each other. Then the last diagonals and
    the entries beside them are rounding error; as early pivots they would make l large. If only rounding error is left,
    δ is zero.
    """
    left = [list(row) for row in C]
    zero, one = jnp.zeros_like(C[0][0]), jnp.ones_like(C[0][0])
    negligible = ROUNDINGS * float(jnp.finfo(zero.dtype).eps)
    share = [jnp.where(C[k][k] > 0, 1 / jnp.where(C[k][k] > 0, C[k][k], one), zero) for k in SIX]  # of the rest
    parts = []
    for _ in SIX:
        best, d, column, taken = left[0][0] * share[0], left[0][0], left[0], [True, *[False] * 5]
        for k in range(1, 6):
            own = left[k][k] * share[k]
            better = own > best
            best, d = jnp.where(better, own, best), jnp.where(better, left[k][k], d)
            column = [jnp.where(better, new, old) for new, old in zip(left[k], column, strict=True)]
            taken = [t & ~better for t in taken]
            taken[k] = better
        firm = best <= negligible
        delta, inverse = jnp.where(firm, zero, d), 1 / jnp.where(firm, one, d)
        l = [jnp.where(firm, zero, x * inverse) for x in column]
        parts.append((delta, l))
        share = [jnp.where(t, zero, x) for t, x in zip(taken, share, strict=True)]
        for i in SIX:
            for j in range(i + 1):
                left[i][j] = left[j][i] = left[i][j] - l[i] * (delta * l[j])
    return parts


def combine_scalars(inner: ArticulatedElement, outer: ArticulatedElement) -> ArticulatedElement:
    """Two stretches, one after the other; the formulas of articulated_element.py."""
    A1, A2 = [_vector(f) for f in inner.A], [_vector(f) for f in outer.A]
    C1, J2 = _rows(inner.C), _rows(outer.passed.inertia)
    eta2 = _vector(outer.passed.bias)
    projections, J = [], J2
    for delta, l in _compliances(C1):
        u = _times(J, l)
        g = delta / (1 + delta * _dot(l, u))
        projections.append((l, u, g))
        J = [[J[i][j] - (g * u[i]) * u[j] for j in SIX] for i in SIX]

    def released(x: Vector) -> Vector:
        for l, u, g in reversed(projections):
            along = g * _dot(u, x)
            x = [a - b * along for a, b in zip(x, l, strict=True)]
        return x

    pushed = _times(C1, eta2)
    free = released([b - c for b, c in zip(_vector(inner.b), pushed, strict=True)])
    MA1 = _columns([released(column) for column in _columns(A1)])  # rows of M A1
    MC1 = _columns([released(column) for column in C1])  # C1 is symmetric
    A1t = _columns(A1)
    A2MC1 = [[_dot(row, column) for column in _columns(MC1)] for row in A2]
    JMA1 = [[_dot(row, column) for column in _columns(MA1)] for row in J2]
    force = [a + b for a, b in zip(eta2, _times(J2, free), strict=True)]
    eta, moved = _times(A1t, force), _times(A2, free)

    def product(a: Matrix, b_columns: Matrix) -> Matrix:
        return [[_dot(row, column) for column in b_columns] for row in a]

    J = _symmetric(product(A1t, _columns(JMA1)))
    return ArticulatedElement(
        tuple(Force(Vec3(*row[:3]), Vec3(*row[3:])) for row in product(A2, _columns(MA1))),
        outer.b + Motion(Vec3(*moved[:3]), Vec3(*moved[3:])),
        outer.C + _symmetric(product(A2MC1, A2)),
        inner.passed + Articulated(J, Force(Vec3(*eta[:3]), Vec3(*eta[3:])), outer.passed.scale and Scale.of(J)),
    )

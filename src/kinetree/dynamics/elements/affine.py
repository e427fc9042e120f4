"""Affine maps of accelerations: what a stretch of rows makes of the acceleration at its inner end.

a_out = F a_in + g        one row: F = (1 − S Uᵀ/d) X,  g = (1 − S Uᵀ/d) c + S u/d
"""

from typing import NamedTuple

import jax.numpy as jnp

from kinetree.spatial import Motion, Scalar, Vec3

from ..recursion import Row


class Affine(NamedTuple):
    """a ↦ F a + g: the columns of F are what unit accelerations at the inner end become."""

    F: tuple[Motion, ...]
    g: Motion


def at_rest(s: Scalar) -> Affine:
    """No rows at all, with components shaped like `s`."""
    z, one = jnp.zeros_like(s), jnp.ones_like(s)
    units = [[one if i == j else z for j in range(6)] for i in range(6)]
    return Affine(tuple(Motion(Vec3(*u[:3]), Vec3(*u[3:])) for u in units), Motion.zero_like(s))


def append_row(e: Affine, row: Row, c: Motion | None) -> Affine:
    """One row more: its visit on g, and the linear part of that on the columns; c is None at rest."""

    def moved(a: Motion) -> Motion:
        a = row.at @ a
        return a - row.axis.times(a.dot(row.joint.U) * row.joint.d_inverse)

    a = row.at @ e.g if c is None else row.at @ e.g + c
    return Affine(tuple(map(moved, e.F)), a + row.axis.times(row.joint.rate(a)))


def mapped(e: Affine, a: Motion) -> Motion:
    """F a. 36m 30a."""
    parts = (*a.angular, *a.linear)
    total = e.F[0] * parts[0]
    for column, x in zip(e.F[1:], parts[1:], strict=True):
        total = total + column * x
    return total


def then(inner: Affine, outer: Affine) -> Affine:
    """Two stretches, one after the other."""
    return Affine(tuple(mapped(outer, f) for f in inner.F), mapped(outer, inner.g) + outer.g)

"""Affine maps of motions outward, and of forces inward: how a stretch of rows changes what enters it.

outward   a_out = F a_in + g        one row: F = (1 − S Uᵀ/d) X,      g = (1 − S Uᵀ/d) c + S u/d
inward    f_in  = F f_out + g       one row: F = Xᵀ (1 − U Sᵀ/d),     g = the force that the row passes by itself
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax.numpy as jnp

from kinetree.dynamics.recursion import Found, Row, Stretch
from kinetree.spatial import Force, Motion, Scalar, Vec3

from .articulated import Pivot, pull_back

Six = TypeVar("Six", Motion, Force)


class Affine(NamedTuple):
    """x ↦ F x + g, for motions or for forces. The columns of F are the images of unit vectors."""

    F: tuple[Any, ...]
    g: Any


def units(kind: type[Six], s: Scalar) -> tuple[Six, ...]:
    """Six unit vectors, with components shaped like `s`."""
    z, one = jnp.zeros_like(s), jnp.ones_like(s)
    rows = [[one if i == j else z for j in range(6)] for i in range(6)]
    return tuple(kind(Vec3(*u[:3]), Vec3(*u[3:])) for u in rows)


def no_change(kind: type[Six]) -> Callable[[Scalar], Affine]:
    """The identity map, with components shaped like a given scalar."""
    return lambda s: Affine(units(kind, s), kind.zero_like(s))


def combined(columns: tuple[Six, ...], x: Motion | Force) -> Six:
    """F x, from the columns of F. 36m 30a."""
    parts = (*x.angular, *x.linear)
    total = columns[0] * parts[0]
    for column, part in zip(columns[1:], parts[1:], strict=True):
        total = total + column * part
    return total


def act(e: Affine, x: Any) -> Any:
    """F x + g. 36m 36a."""
    return combined(e.F, x) + e.g


def then(first: Affine, second: Affine) -> Affine:
    """Two maps, one after the other."""
    return Affine(tuple(combined(second.F, f) for f in first.F), combined(second.F, first.g) + second.g)


def append_row(e: Affine, row: Row, c: Motion | None) -> Affine:
    """Add a row outward: its visit acts on g, and the linear part of the visit on the columns; c is None at rest."""

    def moved(a: Motion) -> Motion:
        a = row.at @ a
        return a - row.axis.times(a.dot(row.joint.U) * row.joint.d_inverse)

    a = row.at @ e.g if c is None else row.at @ e.g + c
    return Affine(tuple(map(moved, e.F)), a + row.axis.times(row.joint.rate(a)))


def forces_stretch(visit: Callable[[Row, Force], tuple[Force, Found]]) -> Stretch:
    """The stretch of an inward pass over bias forces, which finds `joint`, a pivot with known U and d."""

    def extend(row: Row, own: Force, e: Affine) -> Affine:
        passed, found = visit(row, own + e.g)
        joint: Pivot = found["joint"]
        return Affine(tuple(pull_back(row.at, row.axis, joint.U, joint.d_inverse, f) for f in e.F), passed)

    identity = no_change(Force)
    return Stretch(
        element=lambda row, own: extend(row, own, identity(own.linear.x)),
        combine=lambda inner, outer: then(outer, inner),
        act=act,
        identity=identity,
        extend=extend,
        passed=lambda e: e.g,
    )

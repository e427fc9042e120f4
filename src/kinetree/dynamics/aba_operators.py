"""The recursions of the articulated-body algorithm as operators: what a row does, and what a stretch of rows does."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from kinetree.model import Axis
from kinetree.spatial import ArticulatedInertia, Motion, Scalar, Sym3, Transform, Vec3
from kinetree.tree import Inward, Outward

from .articulated import Articulated, Pivot, Scale, articulated_step
from .articulated_element import act_on, combine_elements, identity_element, no_rows, prepend_row

# -- inward: articulated inertias and biases --------------------------------------------------------------------------


def ballast_of(own: ArticulatedInertia) -> Articulated:
    """An inertia to stand on, for a lane whose outermost row has none that resists every motion.

    Where that row's own inertia is positive definite, a joint of the lane that nothing resists is one that nothing
    resists in the whole tree. Where it is not (inner rows of a joint, thin rods), the rows outside the cut have to
    help: they lend the mean inertia of the lane, made the same in all directions.
    """
    last = jax.tree.map(lambda x: x[-1], own)
    mass = last.C.xx
    firm = mass > 0
    scale = (last.A.xx + last.A.yy + last.A.zz) / 3
    I = last.A - (last.B @ last.B.T * (1 / jnp.where(firm, mass, jnp.ones_like(mass)))).symmetric_part_twice() * 0.5
    det = Vec3(I.xx, I.xy, I.xz).dot(Vec3(I.xy, I.yy, I.yz).cross(Vec3(I.xz, I.yz, I.zz)))
    firm = firm & (det > 1e-6 * scale * scale * scale)
    turning = ((own.A.xx + own.A.yy + own.A.zz) / 3).mean(0)
    none = jnp.zeros_like(mass)
    lent = Articulated.zero_like(mass)
    inertia = lent.inertia._replace(
        A=Sym3.diagonal(jnp.where(firm, none, turning)), C=Sym3.diagonal(jnp.where(firm, none, own.C.xx.mean(0)))
    )
    return lent._replace(inertia=inertia, scale=Scale.of(inertia))


ARTICULATED = Inward(
    step=articulated_step,
    element=lambda row, branches: prepend_row(row, branches, no_rows(row.tau)),
    combine=combine_elements,
    act=act_on,
    identity=identity_element,
    extend=prepend_row,
    ballast=lambda rows, branches: ballast_of(rows.own.inertia),
    lend=lambda e, state: e._replace(passed=e.passed + state),
    name="articulated inertia",
)

# -- outward: accelerations -------------------------------------------------------------------------------------------


class JointedRow(NamedTuple):
    """What the last pass knows of a row."""

    X: Transform
    axis: Axis
    c: Motion
    joint: Pivot


class Accelerated(NamedTuple):
    """Acceleration of a row's frame, and of its joint."""

    a: Motion
    qdd: Scalar


def acceleration_step(row: JointedRow, parent: Accelerated) -> Accelerated:
    """a′ = X a_parent + c, qdd = (u − Uᵀ a′)/d, a = a′ + S qdd. 41m 35a."""
    a = row.X @ parent.a + row.c
    qdd = row.joint.rate(a)
    return Accelerated(a + row.axis.times(qdd), qdd)


class Affine(NamedTuple):
    """a ↦ F a + g: the columns of F are what unit accelerations at the inner end become."""

    F: tuple[Motion, ...]
    g: Motion


def at_rest(s: Scalar) -> Affine:
    """No rows at all, with components shaped like `s`."""
    z, one = jnp.zeros_like(s), jnp.ones_like(s)
    units = [[one if i == j else z for j in range(6)] for i in range(6)]
    return Affine(tuple(Motion(Vec3(*u[:3]), Vec3(*u[3:])) for u in units), Motion.zero_like(s))


def append_row(e: Affine, row: JointedRow) -> Affine:
    """One row more: the step on g, and its linear part on the columns."""

    def moved(a: Motion) -> Motion:
        a = row.X @ a
        return a - row.axis.times(a.dot(row.joint.U) * row.joint.d_inverse)

    zero = jnp.zeros_like(row.joint.u)
    return Affine(tuple(map(moved, e.F)), acceleration_step(row, Accelerated(e.g, zero)).a)


def mapped(e: Affine, a: Motion) -> Motion:
    """F a. 36m 30a."""
    parts = (*a.angular, *a.linear)
    total = e.F[0] * parts[0]
    for column, x in zip(e.F[1:], parts[1:], strict=True):
        total = total + column * x
    return total


ACCELERATION = Outward(
    step=acceleration_step,
    element=lambda row: append_row(at_rest(row.joint.u), row),
    combine=lambda inner, outer: Affine(tuple(mapped(outer, f) for f in inner.F), mapped(outer, inner.g) + outer.g),
    act=lambda e, parent: Accelerated(
        mapped(e, parent.a) + e.g, jnp.zeros_like(parent.qdd)
    ),  # qdd is the last row's own
    identity=lambda e: at_rest(e.g.linear.x),
    extend=append_row,
    name="acceleration",
)

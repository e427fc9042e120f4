"""The articulated-body algorithm: forward dynamics in three passes over the rows, under any schedule.

Outward, velocities; inward, articulated inertias and biases; outward, accelerations (RBDA table 7.1). Row by row and
level by level the steps are the classical ones (articulated.py). Under `paths` long stretches of tree are taken at
once, by the elements of articulated_element.py on the way in and by affine maps of accelerations, a ↦ P X a + g, on
the way out: O(log n) rounds.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from kinetree.model import Axis, Model
from kinetree.model.coordinates import velocity_product_shift
from kinetree.spatial import ArticulatedInertia, Motion, Scalar, Sym3, Transform, Vec3
from kinetree.tree import Inward, Layout, Outward, inward, layout, outward, restore

from .aba_lanes import aba_lanes
from .arranged import Arranged, applied_forces, arranged, by_position, row_velocities
from .articulated import (
    Articulated,
    ArticulatedRow,
    Pivot,
    articulated_step,
    base_acceleration,
    own_bias,
    pivot,
    velocity_product,
)
from .articulated_element import (
    ArticulatedElement,
    act_on,
    combine_elements,
    identity_element,
    prepend_row,
    unit_forces,
)
from .positive import require_solution
from .schedule import IN_ORDER, resolve_schedule

# -- inward: articulated inertias and biases --------------------------------------------------------------------------


def _blank(s: Scalar) -> ArticulatedElement:
    zero = Articulated.zero_like(s)
    return ArticulatedElement(unit_forces(s), Motion.zero_like(s), zero.inertia, zero)


def _ballast(rows: ArticulatedRow, branches: Articulated) -> Articulated:
    """An inertia to stand on, for a lane whose outermost row has none that resists every motion.

    Where that row's own inertia is positive definite, a joint of the lane that nothing resists is one that nothing
    resists in the whole tree. Where it is not (inner rows of a joint, thin rods), the rows outside the cut have to
    help: they lend the mean inertia of the lane, made the same in all directions.
    """
    own = rows.own.inertia
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
    return lent._replace(inertia=inertia)


ARTICULATED = Inward(
    step=articulated_step,
    element=lambda row, branches: prepend_row(row, branches, _blank(row.tau)),
    combine=combine_elements,
    act=act_on,
    identity=identity_element,
    extend=prepend_row,
    ballast=_ballast,
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


def _at_rest(s: Scalar) -> Affine:
    z, one = jnp.zeros_like(s), jnp.ones_like(s)
    units = [[one if i == j else z for j in range(6)] for i in range(6)]
    return Affine(tuple(Motion(Vec3(*u[:3]), Vec3(*u[3:])) for u in units), Motion.zero_like(s))


def _append(e: Affine, row: JointedRow) -> Affine:
    """One row more: the step on g, and its linear part on the columns."""

    def moved(a: Motion) -> Motion:
        a = row.X @ a
        return a - row.axis.times(a.dot(row.joint.U) * row.joint.d_inverse)

    zero = jnp.zeros_like(row.joint.u)
    return Affine(tuple(map(moved, e.F)), acceleration_step(row, Accelerated(e.g, zero)).a)


def _map(e: Affine, a: Motion) -> Motion:
    parts = (*a.angular, *a.linear)
    total = e.F[0] * parts[0]
    for column, x in zip(e.F[1:], parts[1:], strict=True):
        total = total + column * x
    return total


ACCELERATION = Outward(
    step=acceleration_step,
    element=lambda row: _append(_at_rest(row.joint.u), row),
    combine=lambda inner, outer: Affine(tuple(_map(outer, f) for f in inner.F), _map(outer, inner.g) + outer.g),
    act=lambda e, parent: Accelerated(_map(e, parent.a) + e.g, jnp.zeros_like(parent.qdd)),  # qdd is the last row's own
    identity=lambda e: _at_rest(e.g.linear.x),
    extend=_append,
    name="acceleration",
)

# -- the algorithm ----------------------------------------------------------------------------------------------------


def articulated_rows(laid: Layout, model: Model, at: Arranged, qd: Any, tau: Any, f_ext: Any) -> ArticulatedRow:
    """All that the inward pass needs, by position; the first pass."""
    tau = shifted(model, tau, qd)
    qd = by_position(laid, qd)
    v = row_velocities(laid, at, qd)
    bias = own_bias(at.rows.inertia, v)
    if f_ext is not None:
        bias = bias - applied_forces(laid, model, at, f_ext)
    inertia: ArticulatedInertia = at.rows.inertia.articulated()
    own = Articulated(jax.tree.map(lambda x: jnp.broadcast_to(x, qd.shape), inertia), bias)
    armature = jnp.broadcast_to(at.rows.armature, qd.shape)
    axis = Axis(*(jnp.broadcast_to(x, qd.shape) for x in at.rows.axis))
    c = velocity_product(v, axis, qd)
    return ArticulatedRow(at.placed.transform, axis, armature, own, c, by_position(laid, tau))


def articulated_bodies(laid: Layout, at: Arranged, rows: ArticulatedRow) -> Articulated:
    """Articulated inertia and bias of every position; the second pass."""
    return rows.own + inward(ARTICULATED, laid, rows, Articulated.zero_like(at.gravity.x))


def accelerations(laid: Layout, at: Arranged, rows: ArticulatedRow, whole: Articulated) -> Accelerated:
    """Accelerations of every position, given its articulated body; the last pass."""
    joint = pivot(rows.axis, rows.armature, rows.tau, whole)
    base = Accelerated(base_acceleration(at.gravity), jnp.zeros_like(at.gravity.x))
    return outward(ACCELERATION, laid, JointedRow(rows.X, rows.axis, rows.c, joint), base)


@jax.jit
def _over_the_tree(laid: Layout, model: Model, q: Any, qd: Any, tau: Any, f_ext: Any) -> Any:
    at = arranged(laid, model, q)
    rows = articulated_rows(laid, model, at, qd, tau, f_ext)
    moving = accelerations(laid, at, rows, articulated_bodies(laid, at, rows))
    return unshifted(model, restore(laid, moving.qdd).T, qd)


@jax.jit
def shifted(model: Model, tau: Any, qd: Any) -> Any:
    """Forces on the rows, (batch, nv): armature resists the joint's acceleration, of which the rows lack the shift."""
    return tau - jnp.asarray(model.rows.armature, tau.dtype) * velocity_product_shift(model.structure, qd.T).T


@jax.jit
def unshifted(model: Model, qdd: Any, qd: Any) -> Any:
    """Accelerations of the joints, (batch, nv), from those of the rows: quaternion joints take their shift back."""
    return qdd + velocity_product_shift(model.structure, qd.T).T


def _across_states(model: Model, q: Any, qd: Any, tau: Any, f_ext: Any, schedule: str) -> Any:
    quaternions = len(model.structure.quaternion_joints) > 0
    extra = () if f_ext is None else (f_ext.reshape(len(f_ext), -1),)
    return aba_lanes(quaternions, f_ext is not None)(model, q, qd, tau, *extra, schedule=schedule)[0]


def forward_dynamics_aba(model: Model, q: Any, qd: Any, tau: Any, f_ext: Any, *, schedule: str = "auto") -> Any:
    """Accelerations, (batch, nv)."""
    chosen = resolve_schedule(schedule, model.tree, q.shape[0])
    if chosen == "euler":
        raise ValueError(
            "articulated inertias have no inverse, which schedule 'euler' needs: choose lanes, levels or paths"
        )
    if chosen in IN_ORDER:
        return require_solution(_across_states(model, q, qd, tau, f_ext, chosen), "aba")
    return require_solution(_over_the_tree(layout(model.tree, chosen), model, q, qd, tau, f_ext), "aba")

"""From a state to the mechanism in world axes: poses, screws, velocities, inertias, and the forces of motion.

Constraints act on x: accelerations whose linear part does not turn with a free body. The forces at x = 0 are those of
inverse dynamics at qdd = −ω × v. A chain of rows has velocity products that a quaternion joint does not have; they lie
along its own axes (model/coordinates.py): `shift`.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import there
from kinetree.dynamics.elements.articulated import base_acceleration, own_bias
from kinetree.lanes import Lane, Slots
from kinetree.model import Axis, Model, Placement, place
from kinetree.model.compile import merge_inertia
from kinetree.model.coordinates import chained_acceleration, joint_pose
from kinetree.model.physics import quaternion_stretch, way_from_rest
from kinetree.spatial import Force, Inertia, Motion, Quaternion, Transform, Vec3
from kinetree.tree import pick

from .memory import BODY, INERTIA, PLACEMENT, ROW, ZERO3, fixed
from .parts import Known, Part, added, fill, part, table
from .plan import Plan

AXIS = Axis(0.0, 0.0)
ROOT_ROWS = 6  # of a free joint: turns about the axes of its frame, then slides along them


def at_q(column: int, count: int) -> Any:
    """Consecutive coordinates."""
    return Slots(column, 0, jax.tree.structure((0.0,) * count))


def rows_apart(column: int, field: str, count: int) -> tuple:
    """A field of `count` consecutive rows."""
    own = ROW.at(column, field)
    return tuple(own._replace(offset=own.offset + k * ROW.size) for k in range(count))


def without_roots(plan: Plan, rows: np.ndarray) -> np.ndarray:
    """Rows that do not belong to roots, the free joints on which trees hang; roots have their own turns (roots.py)."""
    return rows[~np.isin(rows, plan.roots[:, None] + np.arange(ROOT_ROWS))]


# -- placements -------------------------------------------------------------------------------------------------------


def placing(quaternions: bool) -> list[Part]:
    """Where every row is in its parent's frame."""
    own = (ROW.at(0, "placed"),)

    def moving(known, q):
        (orientation, position), axis = known
        return (place(orientation, position, axis, *q),)

    def moving_table(plan: Plan) -> np.ndarray:
        rows = np.flatnonzero(plan.structure.q_of_row >= 0)
        return table(plan.row(rows), plan.q + plan.structure.q_of_row[rows])

    def moving_constants(model: Model, plan: Plan, known: Known) -> Any:
        at = np.flatnonzero(plan.structure.q_of_row >= 0)
        rows = pick(model.rows, at)
        return Placement(rows.orientation, rows.position), rows.axis

    parts = [part(moving_table, moving, (at_q(1, 1),), own, ((PLACEMENT, AXIS), moving_constants))]
    if not quaternions:
        return parts

    def free(known: Placement, q: tuple) -> tuple:
        return (joint_pose(*known, Quaternion(*q[3:]), Vec3(*q[:3])),)

    def ball(known: Placement, q: tuple) -> tuple:
        return (joint_pose(*known, Quaternion(*q), Vec3.zero_like(q[0])),)

    def constants(rows_of: Any) -> Any:
        def frames(model: Model, plan: Plan, known: Known) -> Placement:
            rows = pick(model.rows, rows_of(plan))
            return Placement(rows.orientation, rows.position)

        return frames

    still = lambda plan: without_roots(plan, plan.resting)  # noqa: E731
    at_rest = PLACEMENT, constants(still)
    parts.append(part(lambda plan: table(plan.row(still(plan))), lambda known: (known,), (), own, at_rest))
    for is_free, step, count in ((1, free, 7), (0, ball, 4)):

        def joints(plan: Plan, is_free: int = is_free) -> np.ndarray:
            found = plan.structure.quaternion_joints
            return found[found[:, 2] == is_free]

        def turns(plan: Plan, joints: Any = joints) -> np.ndarray:
            return table(plan.row(joints(plan)[:, 0]), plan.q + joints(plan)[:, 1])

        known = PLACEMENT, constants(lambda plan, joints=joints: joints(plan)[:, 0])
        parts.append(part(turns, step, (at_q(1, count),), own, known))
    return parts


def shifts() -> list[Part]:
    """The acceleration of a quaternion joint minus that of its rows; 0 for other rows."""

    def others(plan: Plan) -> np.ndarray:
        return table(plan.row(np.flatnonzero(plan.structure.q_of_row >= 0)))

    def of_joints(width: int) -> Part:
        def step(*u):
            linear = Vec3(*u[3:]) if width == 6 else Vec3.zero_like(u[0])
            turning, sliding = chained_acceleration(Vec3(*u[:3]), linear)
            return (*turning, *sliding)[:width]

        def turns(plan: Plan) -> np.ndarray:
            joints = plan.structure.quaternion_joints
            return table(plan.row(joints[joints[:, 2] == width // 6, 0]))

        return part(turns, step, rows_apart(0, "qd", width), rows_apart(0, "shift", width))

    return [fill(others, ROW.at(0, "shift")), of_joints(6), of_joints(3)]


# -- outward ----------------------------------------------------------------------------------------------------------


def bases() -> list[Part]:
    """The bases of the trees at rest; then they are moved, so that every tree has its own origin."""

    def still(gravity):
        zero = jnp.zeros_like(gravity.x)
        rest = Motion.zero_like(zero)
        drift = base_acceleration(gravity)
        return (Placement.identity_like(zero), rest, drift, rest)

    def pose(above, placed):
        return (placed @ above,)

    def counted(mark):
        return (Placement(Quaternion.identity_like(jnp.zeros_like(mark.position.x)), -mark.position),)

    def marks(plan: Plan) -> np.ndarray:
        return table(plan.base(np.arange(plan.n_trees)), plan.row(plan.marks))

    origin, seen = Placement(Quaternion(1.0, 0.0, 0.0, 0.0), ZERO3), ROW.at(1, "seen")
    way = (ROW.at(0, "seen"), ROW.at(1, "placed"))
    return [
        fill(Plan.every_base, ROW.at(0, "seen"), values=(origin,)),
        part(lambda plan: table(plan.up(plan.way), plan.row(plan.way)), pose, way, (seen,)),
        part(Plan.every_base, still, (fixed("gravity"),), ROW.of(0, "pose", "v", "drift", "a")),
        part(marks, counted, (seen,), (ROW.at(0, "pose"),)),
    ]


def screw(axis: Axis, pose: Placement) -> Motion:
    """S in world axes."""
    z = pose.orientation.rotation().rows[2]
    turn = z * axis.turn
    return Motion(turn, pose.position.cross(turn) + z * axis.slide)


def outward(quaternions: bool) -> Part:
    """Poses, screws, velocities, accelerations where x is zero, and J x of the first guess."""

    def step(axis, above, v, drift, a, placed, qd, x, *shift):
        pose = placed @ above
        S = screw(axis, pose)
        own = S * qd
        drift = drift + v.cross(own)
        if quaternions:
            drift = drift + S * (-(1 + axis.slide) * shift[0])
        return (pose, S, v + own, drift, a + S * x)

    up = ROW.of(0, "pose", "v", "drift", "a")
    own = ROW.of(1, "placed", "qd", "x", *(("shift",) if quaternions else ()))
    writes = ROW.of(1, "pose", "S", "v", "drift", "a")

    def turns(plan: Plan) -> np.ndarray:
        rows = without_roots(plan, plan.outward_rows)
        return table(plan.up(rows), plan.row(rows))

    def axes(model: Model, plan: Plan, known: Known) -> Axis:
        return pick(model.rows.axis, without_roots(plan, plan.outward_rows))

    return part(turns, step, (*up, *own), writes, (AXIS, axes))


class Mass(NamedTuple):
    """A row's body, and mass and first moment of its compensated weight (gravity compensation)."""

    inertia: Inertia
    carried: Any
    carried_h: Vec3


def carried_weight(model: Model, plan: Plan) -> tuple[Any, Vec3]:
    """Mass and first moment of the compensated weight of each body."""
    fraction = plan.world.gravity_compensation
    if fraction is None:
        return 0.0, ZERO3
    weights = jax.tree.map(lambda x: x * fraction, model.inertia)
    rows = merge_inertia(plan.structure.row_of_body, model.frames, weights, plan.n)
    return rows.mass[plan.massive], Vec3(*(c[plan.massive] for c in rows.h))


def point_rates(arm: Vec3, v: Motion, drift: Motion, gravity: Vec3) -> tuple[Vec3, Vec3]:
    """Velocity and acceleration, where x is zero, of a point of a body; its base accelerates against gravity."""
    linear = v.linear + v.angular.cross(arm)
    return linear, drift.linear + gravity + drift.angular.cross(arm) + v.angular.cross(linear)


def bodies() -> list[Part]:
    """Inertias of the bodies, and the forces of their motion at x = 0; no force on other rows and on bases."""

    def step(known, pose, v, drift, gravity):
        inertia = Transform(pose.orientation.rotation(), pose.position).inertia_to_parent(known.inertia)
        force = inertia @ drift + own_bias(inertia, v)
        h = pose.orientation.turn(known.carried_h) + pose.position * known.carried
        return (inertia, force + Force(h.cross(gravity), gravity * known.carried))

    def constants(model: Model, plan: Plan, known: Known) -> Mass:
        return Mass(pick(model.rows.inertia, plan.massive), *carried_weight(model, plan))

    def turns(plan: Plan) -> np.ndarray:
        return table(plan.row(plan.massive), plan.body(plan.massive))

    reads, writes = (*ROW.of(0, "pose", "v", "drift"), fixed("gravity")), (BODY.at(1, "inertia"), ROW.at(0, "force"))
    own = part(turns, step, reads, writes, (Mass(INERTIA, 0.0, ZERO3), constants))
    return [own, fill(Plan.without_bodies, ROW.at(0, "force"))]


# -- inward -----------------------------------------------------------------------------------------------------------


def bias(damped: bool) -> Part:
    """b: forces on the joints, minus those of motion, of weight and of dampers."""

    def step(damping, S, force, tau, qd):
        b = tau - S.dot(force)
        return (b - damping * qd if damped else b, force)

    def turns(plan: Plan) -> np.ndarray:
        rows = without_roots(plan, plan.outward_rows)[::-1]
        return table(plan.up(rows), plan.row(rows))

    def constants(model: Model, plan: Plan, known: Known) -> Any:
        if not damped:
            return ()
        return there(model.passive).damping[without_roots(plan, plan.outward_rows)[::-1]]

    made = (ROW.at(1, "b"), *added(ROW.at(0, "force")))
    return part(turns, step, ROW.of(1, "S", "force", "b", "qd"), made, (0.0 if damped else (), constants))


def springs(width: int) -> Part:
    """−stiffness · stretch of joints with `count` rows: hinges and sliders (1), balls (3) or free joints (6)."""

    def step(known, q):
        stiffness, rest = known
        if width == 1:
            return (-stiffness[0] * (q[0] - rest[0]),)
        here, begin = Quaternion(*q[-4:]), Quaternion(*rest[-4:])
        way = way_from_rest(Vec3(*rest[:3]), Vec3(*q[:3]), here) if width == 6 else ()
        return tuple(-k * x for k, x in zip(stiffness, (*quaternion_stretch(begin, here), *way), strict=True))

    count = width + (width > 1)
    numbers = (0.0,) * width, (0.0,) * count

    def joints(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
        if width == 1:
            rows = np.flatnonzero(plan.structure.q_of_row >= 0)
            return rows, plan.structure.q_of_row[rows]
        found = plan.structure.quaternion_joints
        return tuple(found[found[:, 2] == width // 6, :2].T)

    def turns(plan: Plan) -> np.ndarray:
        rows, columns = joints(plan)
        return table(plan.row(rows), plan.q + columns)

    def constants(model: Model, plan: Plan, known: Known) -> tuple:
        assert model.passive is not None
        rows, columns = joints(plan)
        stiffness = tuple(model.passive.stiffness[rows + k] for k in range(width))
        return stiffness, tuple(model.passive.rest[columns + k] for k in range(count))

    return part(turns, step, (at_q(1, count),), added(*rows_apart(0, "b", width)), (numbers, constants))


def applied(array: int) -> Part:
    """Forces on bodies, given in the world about its origin."""

    def step(*seen):
        *f, base = seen
        moment, linear, origin = Vec3(*f[:3]), Vec3(*f[3:]), base.position  # the world's origin, from the tree's
        return (-Force(moment + origin.cross(linear), linear),)

    def turns(plan: Plan) -> np.ndarray:
        rows = plan.structure.row_of_body.astype(np.int64)
        moving = np.flatnonzero(rows >= 0)
        rows = rows[moving]
        return table(plan.row(rows), plan.base(plan.tree_of_row[rows]), 6 * moving)

    seen = (*(Lane(array, 2, k) for k in range(6)), ROW.at(1, "pose"))
    return part(turns, step, seen, added(ROW.at(0, "force")))

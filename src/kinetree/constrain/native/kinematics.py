"""From a state to the mechanism in world axes: poses, screws, velocities, inertias, and the forces of motion.

x is what constraints act on: accelerations whose linear part does not turn with a free body. The forces where x is zero
are those of inverse dynamics at qdd = −ω × v. A chain of rows has velocity products that a quaternion joint has not,
and they lie along its own axes (model/coordinates.py): `shift`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from kinetree.dynamics.elements.articulated import base_acceleration, own_bias
from kinetree.lanes import Lane, Loop, Slots
from kinetree.model import Axis, Model, Placement, place
from kinetree.model.compile import merge_inertia
from kinetree.model.coordinates import chained_acceleration, joint_pose
from kinetree.spatial import Force, Inertia, Motion, Quaternion, Transform, Vec3

from .forks import at_branches, at_forks, at_roots, forks_inward, no_columns
from .memory import BODY, FORCE, INERTIA, NOTHING, NUMBER, PLACEMENT, ROW, ZERO3, Passing, fixed
from .parts import Known, Part, Strand, braided, table
from .plan import Plan

AXIS = Axis(0.0, 0.0)


def at_q(column: int, count: int) -> Any:
    """Consecutive coordinates."""
    return Slots(column, 0, jax.tree.structure((0.0,) * count))


def rows_apart(column: int, field: str, count: int, first: int = 0) -> tuple:
    """A field of `count` rows in a row."""
    own = ROW.at(column, field)
    return tuple(own._replace(offset=own.offset + (first + k) * ROW.size) for k in range(count))


# -- where rows are in their parents' frames --------------------------------------------------------------------------


class Placer(NamedTuple):
    """Rows of one kind of joint: `place(frame, axis, coordinates)` says where they are."""

    rows: Callable[[Plan], np.ndarray]
    count: int  # of coordinates
    place: Callable[[Placement, Axis, tuple], Placement]
    shifts: bool  # of a joint with a quaternion

    def table(self, plan: Plan) -> np.ndarray:
        """First slots of rows and of their coordinates."""
        rows = self.rows(plan)
        column = plan.structure.q_of_row[rows]
        starts = dict(plan.structure.quaternion_joints[:, :2].tolist())
        q = [starts.get(r, max(int(c), 0)) for r, c in zip(rows.tolist(), column, strict=True)]
        return table(plan.row(rows), plan.q + np.array(q, np.int64))

    def constants(self, model: Model, plan: Plan, known: Known) -> tuple[Placement, Axis]:
        """Frames, and what the rows do in them."""
        rows = jax.tree.map(lambda x: x[self.rows(plan)], model.rows)
        return Placement(rows.orientation, rows.position), rows.axis


def placers(quaternions: bool) -> list[Placer]:
    """One for each kind of joint: screws, and those with quaternions, whose rows after the first rest in it."""

    def joints(is_free: int) -> Callable[[Plan], np.ndarray]:
        def first_rows(plan: Plan) -> np.ndarray:
            found = plan.structure.quaternion_joints
            return found[found[:, 2] == is_free, 0]

        return first_rows

    def turned(at: Placement, orientation: Quaternion, position: Vec3) -> Placement:
        return joint_pose(at.orientation, at.position, orientation, position)

    def screws(plan: Plan) -> np.ndarray:
        return np.flatnonzero(plan.structure.q_of_row >= 0)

    found = [Placer(screws, 1, lambda at, axis, q: place(at.orientation, at.position, axis, q[0]), False)]
    if not quaternions:
        return found
    return [
        *found,
        Placer(lambda plan: plan.resting, 0, lambda at, axis, q: at, True),
        Placer(joints(1), 7, lambda at, axis, q: turned(at, Quaternion(*q[3:]), Vec3(*q[:3])), True),
        Placer(joints(0), 4, lambda at, axis, q: turned(at, Quaternion(*q), Vec3.zero_like(q[0])), True),
    ]


PLACED = jax.tree.structure((PLACEMENT, AXIS))


def shifts() -> list[Part]:
    """What the accelerations of quaternion joints have more than their rows'."""

    def of_joints(width: int) -> Part:
        def step(_: tuple, __: tuple, u: tuple) -> tuple:
            linear = Vec3(*u[3:]) if width == 6 else Vec3.zero_like(u[0])
            turning, sliding = chained_acceleration(Vec3(*u[:3]), linear)
            return (*turning, *sliding)[:width], (), ()

        def turns(plan: Plan) -> np.ndarray:
            joints = plan.structure.quaternion_joints
            return table(plan.row(joints[joints[:, 2] == width // 6, 0]))

        loop = Loop(step, 1, NOTHING, reads=rows_apart(0, "qd", width), writes=rows_apart(0, "shift", width))
        return Part(loop, turns)

    return [of_joints(6), of_joints(3)]


def shifted(sign: float, field: str = "x") -> Part:
    """From the accelerations of quaternion joints to their x, or back."""

    def step(slide: Any, _: tuple, reads: tuple) -> tuple:
        return (), (sign * slide * reads[0],), ()

    def rows(plan: Plan) -> np.ndarray:
        return np.flatnonzero(plan.structure.q_of_row < 0)

    loop = Loop(step, 1, NUMBER, reads=(ROW.at(0, "shift"),), adds=(ROW.at(0, field),))
    return Part(loop, lambda plan: table(plan.row(rows(plan))), lambda model, plan, _: model.rows.slide[rows(plan)])


# -- outward ----------------------------------------------------------------------------------------------------------


def bases(quaternions: bool) -> Part:
    """Where the bases of the trees are, each seen from the point that its tree is counted from: a body of the tree."""

    def start(_: tuple, __: tuple, ___: tuple, pose: Placement) -> tuple:
        return (), (), (), Placement(Quaternion(1.0, 0.0, 0.0, 0.0), ZERO3)

    def on_way(placer: Placer) -> Strand:
        def step(known: tuple, _: tuple, reads: tuple, pose: Placement) -> tuple:
            return (), (), (), placer.place(known[0], known[1], reads[0]) @ pose

        def chosen(plan: Plan) -> np.ndarray:
            return np.isin(placer.rows(plan), plan.way)

        def constants(model: Model, plan: Plan, known: Known) -> tuple:
            return jax.tree.map(lambda x: x[chosen(plan)], placer.constants(model, plan, known))

        loop = Loop(step, 2, PLACED, reads=(at_q(1, placer.count),))
        part = Part(loop, lambda plan: placer.table(plan)[chosen(plan)], constants)
        return Strand(part, lambda plan: placer.rows(plan)[chosen(plan)])

    def counted(_: tuple, __: tuple, ___: tuple, pose: Placement) -> tuple:
        return (Placement(Quaternion(1.0, 0.0, 0.0, 0.0), -pose.position),), (), (), pose

    end = Loop(counted, 1, NOTHING, writes=(ROW.at(0, "pose"),))
    strands = [
        Strand(Part(Loop(start, 0, NOTHING), no_columns(at_roots)), at_roots),
        *map(on_way, placers(quaternions)),
        Strand(Part(end, lambda plan: table(plan.base(plan.tree_of_row[plan.marks]))), lambda plan: plan.marks),
    ]
    return braided(PLACEMENT, strands, True)


def still_bases() -> Part:
    """Motions of the bases, where rows are stored: they rest."""

    def step(_: tuple, __: tuple, reads: tuple) -> tuple:
        rest = Motion.zero_like(reads[0].x)
        return (rest, base_acceleration(reads[0]), rest), (), ()

    writes = tuple(ROW.at(0, f) for f in ("v", "drift", "a"))
    loop = Loop(step, 1, NOTHING, reads=(fixed("gravity"),), writes=writes)
    return Part(loop, lambda plan: table(plan.base(np.arange(plan.n_trees))))


def screw(axis: Axis, pose: Placement) -> Motion:
    """S in world axes."""
    z = pose.orientation.rotation().rows[2]
    turn = z * axis.turn
    return Motion(turn, pose.position.cross(turn) + z * axis.slide)


def outward(quaternions: bool, stores: bool) -> list[Strand]:
    """Poses, screws, velocities, accelerations where x is zero, and J x of the first guess.

    Rows are stored where bodies are coupled: then others than the next rows ask for them.
    """

    def start(_: tuple, __: tuple, reads: tuple, above: Passing) -> tuple:
        gravity, base = reads
        rest = Motion.zero_like(gravity.x)
        return (), (), (), Passing(base, rest, base_acceleration(gravity), rest)

    def passed(placer: Placer) -> Strand:
        def step(known: tuple, _: tuple, reads: tuple, above: Passing) -> tuple:
            q, qd, x, *shift = reads
            axis = known[1]
            pose = placer.place(known[0], axis, q) @ above.pose
            S = screw(axis, pose)
            own = S * qd
            drift = above.drift + above.v.cross(own)
            if placer.shifts:
                drift = drift + S * (-(1 + axis.slide) * shift[0])
            return (S,), (), (), Passing(pose, above.v + own, drift, above.a + S * x)

        own = tuple(ROW.at(0, f) for f in ("qd", "x", *(("shift",) if placer.shifts else ())))
        loop = Loop(step, 2, PLACED, reads=(at_q(1, placer.count), *own), writes=(ROW.at(0, "S"),))
        return Strand(Part(loop, placer.table, placer.constants), placer.rows)

    begin = Loop(start, 1, NOTHING, reads=(fixed("gravity"), ROW.at(0, "pose")))
    strands = [
        Strand(Part(begin, lambda plan: table(plan.base(plan.tree_of_row[plan.roots]))), at_roots),
        at_branches("passing"),
        *map(passed, placers(quaternions)),
        at_forks("passing"),
    ]
    if not stores:
        return strands

    def store(_: tuple, __: tuple, ___: tuple, own: Passing) -> tuple:
        return tuple(own), (), (), own

    loop = Loop(store, 1, NOTHING, writes=tuple(ROW.at(0, f) for f in Passing._fields))
    every = Part(loop, lambda plan: table(plan.row(np.arange(plan.n))))
    return [*strands, Strand(every, lambda plan: np.arange(plan.n))]


class Mass(NamedTuple):
    """A row's body, and the mass and first moment of what of its weight is carried (gravity compensation)."""

    inertia: Inertia
    carried: Any
    carried_h: Vec3


def bodies() -> Strand:
    """Inertias of the bodies, and the forces of their motion where x is zero."""

    def step(known: Mass, _: tuple, reads: tuple, own: Passing) -> tuple:
        gravity, pose = reads[0], own.pose
        inertia = Transform(pose.orientation.rotation(), pose.position).inertia_to_parent(known.inertia)
        force = inertia @ own.drift + own_bias(inertia, own.v)
        h = pose.orientation.turn(known.carried_h) + pose.position * known.carried
        return (inertia, force + Force(h.cross(gravity), gravity * known.carried)), (), (), own

    writes = (BODY.at(1, "inertia"), ROW.at(0, "force"))
    loop = Loop(step, 2, jax.tree.structure(Mass(INERTIA, 0.0, ZERO3)), reads=(fixed("gravity"),), writes=writes)

    def constants(model: Model, plan: Plan, known: Known) -> Mass:
        inertia = jax.tree.map(lambda x: x[plan.massive], model.rows.inertia)
        fraction = plan.world.gravity_compensation
        if fraction is None:
            return Mass(inertia, 0.0, ZERO3)
        weights = jax.tree.map(lambda x: x * fraction, model.inertia)
        rows = merge_inertia(plan.structure.row_of_body, model.frames, weights, plan.n)
        return Mass(inertia, rows.mass[plan.massive], Vec3(*(c[plan.massive] for c in rows.h)))

    part = Part(loop, lambda plan: table(plan.row(plan.massive), plan.body(plan.massive)), constants)
    return Strand(part, lambda plan: plan.massive)


def no_forces() -> Part:
    """No force on the bases, and on rows without a mass."""

    def others(plan: Plan) -> np.ndarray:
        rows = np.setdiff1d(np.arange(plan.n), plan.massive)
        return table(np.concatenate([plan.base(np.arange(plan.n_trees)), plan.row(rows)]))

    return Part(Loop(lambda *_: ((Force(ZERO3, ZERO3),), (), ()), 1, NOTHING, writes=(ROW.at(0, "force"),)), others)


# -- inward -----------------------------------------------------------------------------------------------------------


def bias(damped: bool, external: int | None, everywhere: bool = False) -> Part:
    """b: forces on the joints, less those of motion, of weight, of dampers, and with those on bodies, an input.

    `everywhere`: forces are on all rows, not only on those with a mass.
    """

    def pressed(plan: Plan) -> np.ndarray:
        return np.arange(plan.n) if everywhere else plan.massive

    def body(_: tuple, __: tuple, reads: tuple, force: Force) -> tuple:
        return (), (), (), force + reads[0]

    def row(damping: Any, _: tuple, reads: tuple, force: Force) -> tuple:
        S, tau, qd = reads
        b = tau - S.dot(force)
        return (b - damping * qd if damped else b,), (), (), force

    def constants(model: Model, plan: Plan, known: Known) -> Any:
        if not damped:
            return ()
        assert model.passive is not None
        return model.passive.damping

    own = Loop(body, 1, NOTHING, reads=(ROW.at(0, "force"),))
    reads = tuple(ROW.at(0, f) for f in ("S", "b", "qd"))
    joint = Loop(row, 1, NUMBER if damped else NOTHING, reads=reads, writes=(ROW.at(0, "b"),))
    gathered, left = forks_inward("force")
    strands = [
        gathered,
        Strand(Part(own, lambda plan: table(plan.row(pressed(plan)))), pressed),
        *([] if external is None else [applied(external)]),
        Strand(Part(joint, lambda plan: table(plan.row(np.arange(plan.n))), constants), lambda plan: np.arange(plan.n)),
        *left,
    ]
    return braided(FORCE, strands, False)


def springs() -> Part:
    """−stiffness (q − rest) of hinges and sliders."""

    def step(known: tuple, _: tuple, reads: tuple) -> tuple:
        stiffness, rest = known
        return (), (-stiffness * (reads[0][0] - rest),), ()

    loop = Loop(step, 2, jax.tree.structure((0.0, 0.0)), reads=(at_q(1, 1),), adds=(ROW.at(0, "b"),))

    def rows(plan: Plan) -> np.ndarray:
        return np.flatnonzero(plan.structure.q_of_row >= 0)

    def constants(model: Model, plan: Plan, known: Known) -> tuple:
        assert model.passive is not None
        return model.passive.stiffness[rows(plan)], model.passive.rest[plan.structure.q_of_row[rows(plan)]]

    return Part(loop, lambda plan: table(plan.row(rows(plan)), plan.q + plan.structure.q_of_row[rows(plan)]), constants)


def applied(array: int) -> Strand:
    """Forces on bodies, given in the world about its origin."""

    def step(_: tuple, f: tuple, reads: tuple, force: Force) -> tuple:
        moment, linear, origin = Vec3(*f[:3]), Vec3(*f[3:]), reads[0].position  # the world's origin, from the tree's
        return (), (), (), force - Force(moment + origin.cross(linear), linear)

    inputs = tuple(Lane(array, 1, k) for k in range(6))
    loop = Loop(step, 2, NOTHING, reads=(ROW.at(0, "pose"),), inputs=inputs)

    def moving(plan: Plan) -> np.ndarray:
        return np.flatnonzero(plan.structure.row_of_body >= 0)

    def rows(plan: Plan) -> np.ndarray:
        return plan.structure.row_of_body[moving(plan)].astype(np.int64)

    return Strand(Part(loop, lambda plan: table(plan.base(plan.tree_of_row[rows(plan)]), 6 * moving(plan))), rows)

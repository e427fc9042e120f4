"""Free joints on which a tree hangs: their six rows in one turn.

All spatial quantities are about the point of the tree, which moves with such a joint. There its screws are the axes of
its frame, turning and sliding, and the six rows together allow any motion of the body. So in Newton's step the sweep
inward ends with one solve with its articulated inertia, and the sweep outward begins with the result.
"""

import jax
import numpy as np

from kinetree._arrays import there
from kinetree.lanes import Slots
from kinetree.model import Model, Placement
from kinetree.model.coordinates import X_FRAME
from kinetree.spatial import ArticulatedInertia, Force, Mat3, Motion, Sym3, Vec3

from .kinematics import ROOT_ROWS as ROWS
from .kinematics import rows_apart
from .memory import ARTICULATED_BLOCK, BODY, REPLY, ROW, ZERO3, ArticulatedBody, Norms, total
from .parts import Known, Part, added, part, table
from .plan import Plan

LAST = (ROWS - 1) * ROW.size  # slots from the first row of a root to its last, which has the body


def axes_of(*fields: str) -> tuple[Slots, ...]:
    """Slots of the three axes of the root in column 0, and of numbers of its six rows."""
    axes = (s._replace(tree=jax.tree.structure(ZERO3)) for s in rows_apart(0, "S", 3))
    return *axes, *(s for f in fields for s in rows_apart(0, f, ROWS))


def of_body(*fields: str) -> tuple[Slots, ...]:
    """Fields of the row that has the body of the root in column 0."""
    return tuple(s._replace(offset=s.offset + LAST) for s in (ROW.at(0, f) for f in fields))


def outward() -> Part:
    """Pose, screws, velocity, acceleration where x is zero, and J x of the first guess (kinematics.py).

    The accelerations of the six rows in a row, less `shift`, leave −ω × v of that of the base.
    """

    def step(placed, drift, *numbers):
        orientation = placed.orientation * X_FRAME.conjugate()
        axes = orientation.rotation()
        (omega, linear), (turning, sliding) = (
            (axes.t_mul(Vec3(*numbers[k : k + 3])), axes.t_mul(Vec3(*numbers[k + 3 : k + 6]))) for k in (0, ROWS)
        )
        drift = Motion(drift.angular, drift.linear - omega.cross(linear))
        S = (*(Motion(z, ZERO3) for z in axes.rows), *(Motion(ZERO3, z) for z in axes.rows))
        return (*S, Placement(orientation, ZERO3), Motion(omega, linear), drift, Motion(turning, sliding))

    reads = (ROW.at(0, "placed"), ROW.at(1, "drift"), *(s for f in ("qd", "x") for s in rows_apart(0, f, ROWS)))
    writes = (*rows_apart(0, "S", ROWS), *of_body("pose", "v", "drift", "a"))
    return part(_turns, step, reads, writes)


def bias(damped: bool) -> Part:
    """b of the six rows (kinematics.py)."""

    def step(damping, *reads):
        force, axes, numbers = reads[0], Mat3(*reads[1], *reads[2], *reads[3]), reads[4:]
        needs = (*(axes @ force.angular), *(axes @ force.linear))
        b = [tau - need for tau, need in zip(numbers, needs, strict=False)]
        if damped:
            b = [x - c * qd for x, c, qd in zip(b, damping, numbers[ROWS:], strict=True)]
        return tuple(b)

    reads = (*of_body("force"), *axes_of("b", *(("qd",) if damped else ())))

    def constants(model: Model, plan: Plan, known: Known) -> tuple:
        if not damped:
            return ()
        return tuple(there(model.passive).damping[plan.roots[:, None] + np.arange(ROWS)].T)

    return part(_turns, step, reads, rows_apart(0, "b", ROWS), ((0.0,) * ROWS if damped else (), constants), columns=2)


GUESS = 0.5  # of the accelerations of the step before, the rest of those of a free fall (benchmarks/NOTES.md)


def guess_motion() -> Part:
    """A better first guess where all trees are single free bodies: between the step before and a free fall.

    A contact that brakes a body in one step has less to do in the next one, but is likely to act again.
    """

    def step(body, one, two, three, *numbers):
        axes, b, x = Mat3(*one, *two, *three), numbers[:ROWS], numbers[ROWS:]
        fall = body.articulated().solve(Force(axes.t_mul(Vec3(*b[:3])), axes.t_mul(Vec3(*b[3:]))))
        before = Motion(axes.t_mul(Vec3(*x[:3])), axes.t_mul(Vec3(*x[3:])))
        a = fall + (before - fall) * GUESS
        return (*(axes @ a.angular), *(axes @ a.linear), a)

    def turns(plan: Plan) -> np.ndarray:
        return table(plan.row(plan.roots), plan.body(plan.roots + ROWS - 1))

    reads, writes = (BODY.at(1, "inertia"), *axes_of("b", "x")), (*rows_apart(0, "x", ROWS), *of_body("a"))
    return part(turns, step, reads, writes)


def _turns(plan: Plan) -> np.ndarray:
    return table(plan.row(plan.roots), plan.up(plan.roots))


def _resisting(body: ArticulatedBody, axes: Mat3, resistance: tuple) -> ArticulatedInertia:
    """The resistance of the body with its joint."""
    turning, sliding = (Sym3(*resistance[k : k + 3], *(0.0,) * 3).turned_back(axes) for k in (0, 3))
    return ArticulatedInertia(body.inertia.A + turning, body.inertia.B, body.inertia.C + sliding)


def root_load(reads: tuple) -> tuple[ArticulatedInertia, Force]:
    """The resistance of the body with its joint, and the force on it: from its block, axes, resistances and pushes."""
    body, axes, numbers = reads[0], Mat3(*reads[1], *reads[2], *reads[3]), reads[4:]
    push = numbers[ROWS : 2 * ROWS]
    force = Force(axes.t_mul(Vec3(*push[:3])), axes.t_mul(Vec3(*push[3:])))
    return _resisting(body, axes, numbers[:ROWS]), force - body.bias


def solve_roots(norm: Slots | None = None) -> Part:
    """The new x of the joint, where the rest of the tree was swept inward, and how its body moves.

    With `norm`, the slot of the step's norm, again with the forces in `applied` (conjugate.py).
    """
    again = norm is not None

    def step(*reads):
        axes, x = Mat3(*reads[1], *reads[2], *reads[3]), reads[4 + 2 * ROWS : 4 + 3 * ROWS]
        whole, force = root_load(reads)
        force = force - reads[-1] if again else force
        a = whole.solve(force)
        change = a - Motion(axes.t_mul(Vec3(*x[:3])), axes.t_mul(Vec3(*x[3:])))
        new, size = (*(axes @ a.angular), *(axes @ a.linear)), change.dot(whole @ change)
        if again:
            return (*new, a, change, Force(ZERO3, ZERO3), size)
        return (*new, a, change, Norms(size, a.dot(force)))

    applied = (_last_reply("applied"),) if again else ()
    seen = (ARTICULATED_BLOCK.at(1, "body"), *axes_of("resistance", "push", "x"), *applied)
    size = added(total(2, "norms") if norm is None else norm._replace(column=2))
    made = (*rows_apart(0, "x_new", ROWS), *of_body("a_new", "change"), *applied, *size)

    return part(_replying_turns if again else _articulated_turns, step, seen, made, scratch=not again)


def _last_reply(name: str) -> Slots:
    """A field of the reply of the row that has the body, where column 3 names that of the first row."""
    own = REPLY.at(3, name)
    return own._replace(offset=own.offset + (ROWS - 1) * REPLY.size)


def _articulated_turns(plan: Plan) -> np.ndarray:
    return table(plan.row(plan.roots), plan.articulated[plan.roots + ROWS - 1], plan.total(plan.roots))


def _replying_turns(plan: Plan) -> np.ndarray:
    return np.concatenate([_articulated_turns(plan), table(plan.reply(plan.roots))], 1)


def reply_of_roots() -> Part:
    """How the joint answers forces on the tree (conjugate.py)."""

    def step(*reads):
        axes, applied = Mat3(*reads[1], *reads[2], *reads[3]), reads[-1]
        return (_resisting(reads[0], axes, reads[4:-1]).solve(-applied), Force(ZERO3, ZERO3))

    a, applied = map(_last_reply, ("a", "applied"))
    reads = (ARTICULATED_BLOCK.at(1, "body"), *axes_of("resistance"), applied)
    return part(_replying_turns, step, reads, (a, applied), scratch=True)

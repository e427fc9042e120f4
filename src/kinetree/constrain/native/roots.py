"""Free joints on which a tree hangs: Newton's step of their six rows in one turn.

All spatial quantities are about the point of the tree, which such a joint carries along. There its screws are the axes
of its frame, turning and sliding, and the six rows together let the body go any way: the sweep inward ends with one
solve of its articulated inertia, and the sweep outward begins with what that gives.
"""

import jax
import numpy as np

from kinetree.lanes import Loop
from kinetree.spatial import ArticulatedInertia, Force, Mat3, Motion, Sym3, Vec3

from .kinematics import rows_apart
from .memory import HELD_BLOCK, NOTHING, ROW, ZERO3, Norms, total
from .parts import Part, table
from .plan import Plan

ROWS = 6  # turns about the axes of the frame, then slides along them


def roots_of(plan: Plan) -> np.ndarray:
    """First rows of the free joints on which trees hang, and which carry the trees' points along."""
    joints = plan.structure.quaternion_joints
    first = joints[joints[:, 2] == 1, 0].astype(np.int64)
    return first[(plan.parent[first] < 0) & np.isin(first, plan.marks)]


def rows_of_roots(plan: Plan) -> np.ndarray:
    """All rows of these joints."""
    return (roots_of(plan)[:, None] + np.arange(ROWS)).ravel()


def answered() -> Part:
    """The new x of the joint, where the rest of the tree was swept inward, and how its body moves."""

    def step(_: tuple, __: tuple, reads: tuple) -> tuple:
        held, axes, numbers = reads[0], Mat3(*reads[1], *reads[2], *reads[3]), reads[4:]
        resistance, push, x = ((Vec3(*numbers[k : k + 3]), Vec3(*numbers[k + 3 : k + 6])) for k in (0, 6, 12))
        zero = (0.0,) * 3
        turning, sliding = (Sym3(*r, *zero).turned_back(axes) for r in resistance)
        whole = ArticulatedInertia(held.inertia.A + turning, held.inertia.B, held.inertia.C + sliding)
        force = Force(axes.t_mul(push[0]), axes.t_mul(push[1])) - held.bias
        a = whole.solve(force)
        change = a - Motion(axes.t_mul(x[0]), axes.t_mul(x[1]))
        new = (*(axes @ a.angular), *(axes @ a.linear))
        return (*new, a, change), (Norms(change.dot(whole @ change), a.dot(force)),), ()

    vector, last = jax.tree.structure(ZERO3), (ROWS - 1) * ROW.size
    axes = tuple(s._replace(tree=vector) for s in rows_apart(0, "S", 3))
    numbers = tuple(s for f in ("resistance", "push", "x") for s in rows_apart(0, f, ROWS))
    moved = tuple(s._replace(offset=s.offset + last) for s in (ROW.at(0, "a_new"), ROW.at(0, "change")))
    loop = Loop(
        step,
        3,
        NOTHING,
        reads=(HELD_BLOCK.at(1, "held"), *axes, *numbers),
        writes=(*rows_apart(0, "x_new", ROWS), *moved),
        adds=(total(2, "norms"),),
        scratch=True,
    )

    def turns(plan: Plan) -> np.ndarray:
        first = roots_of(plan)
        return table(plan.row(first), plan.held[first + ROWS - 1], plan.total(first))

    return Part(loop, turns)

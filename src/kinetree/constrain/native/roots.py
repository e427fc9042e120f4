"""Free joints on which a tree hangs: Newton's step of their six rows in one turn.

All spatial quantities are about the point of the tree, which such a joint carries along. There its screws are the axes
of its frame, turning and sliding, and the six rows together let the body go any way: the sweep inward ends with one
solve of its articulated inertia, and the sweep outward begins with what that gives.
"""

import jax
import numpy as np

from kinetree.lanes import Loop, Slots
from kinetree.spatial import ArticulatedInertia, Force, Mat3, Motion, Sym3, Vec3

from .kinematics import rows_apart
from .memory import HELD_BLOCK, NOTHING, ROW, ZERO3, Norms, total
from .parts import Part, table
from .plan import Plan

ROWS = 6  # turns about the axes of the frame, then slides along them


def rows_of_roots(plan: Plan) -> np.ndarray:
    """All rows of these joints."""
    return (plan.roots[:, None] + np.arange(ROWS)).ravel()


def axes_of(*fields: str) -> tuple[Slots, ...]:
    """Slots of the three axes of the root in column 0, and of numbers of its six rows."""
    axes = (s._replace(tree=jax.tree.structure(ZERO3)) for s in rows_apart(0, "S", 3))
    return *axes, *(s for f in fields for s in rows_apart(0, f, ROWS))


def root_load(reads: tuple) -> tuple[ArticulatedInertia, Force]:
    """What the body resists with its joint, and the force on it: from what it holds, axes, resistances and pushes."""
    held, axes, numbers = reads[0], Mat3(*reads[1], *reads[2], *reads[3]), reads[4:]
    resistance, push = ((Vec3(*numbers[k : k + 3]), Vec3(*numbers[k + 3 : k + 6])) for k in (0, ROWS))
    turning, sliding = (Sym3(*r, *(0.0,) * 3).turned_back(axes) for r in resistance)
    whole = ArticulatedInertia(held.inertia.A + turning, held.inertia.B, held.inertia.C + sliding)
    return whole, Force(axes.t_mul(push[0]), axes.t_mul(push[1])) - held.bias


def answered() -> Part:
    """The new x of the joint, where the rest of the tree was swept inward, and how its body moves."""

    def step(_: tuple, __: tuple, reads: tuple) -> tuple:
        axes, x = Mat3(*reads[1], *reads[2], *reads[3]), reads[4 + 2 * ROWS :]
        whole, force = root_load(reads)
        a = whole.solve(force)
        change = a - Motion(axes.t_mul(Vec3(*x[:3])), axes.t_mul(Vec3(*x[3:])))
        new = (*(axes @ a.angular), *(axes @ a.linear))
        return (*new, a, change), (Norms(change.dot(whole @ change), a.dot(force)),), ()

    last = (ROWS - 1) * ROW.size
    moved = tuple(s._replace(offset=s.offset + last) for s in (ROW.at(0, "a_new"), ROW.at(0, "change")))
    loop = Loop(
        step,
        3,
        NOTHING,
        reads=(HELD_BLOCK.at(1, "held"), *axes_of("resistance", "push", "x")),
        writes=(*rows_apart(0, "x_new", ROWS), *moved),
        adds=(total(2, "norms"),),
        scratch=True,
    )

    def turns(plan: Plan) -> np.ndarray:
        return table(plan.row(plan.roots), plan.held[plan.roots + ROWS - 1], plan.total(plan.roots))

    return Part(loop, turns)

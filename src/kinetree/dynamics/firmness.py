"""Firm mechanisms: their mass matrix is not singular in any state.

If the body of every joint resists every motion by itself, H is positive definite: the d of each joint is at least the
resistance of its own body. Most robots are firm, and need no check. The others have massless links, point masses, thin
rods, or bodies that are very light compared with what they carry.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from kinetree.lanes.kept.once import OncePerOwner
from kinetree.model import Model, Structure
from kinetree.model.arguments import is_known
from kinetree.model.piecewise import in_pieces
from kinetree.spatial import Inertia
from kinetree.tree import Tree, pick

FIRM = 1e-6  # a body is firm if its own resistance is at least a millionth of that of its subtree


class JointTree(NamedTuple):
    """The tree of joints that move, in the order of their rows."""

    tree: Tree
    first: np.ndarray  # (joints,): first row
    count: np.ndarray  # (joints,): rows

    @property
    def last(self) -> np.ndarray:
        """The row that carries the body."""
        return self.first + self.count - 1


@lru_cache(maxsize=64)
def joint_tree(structure: Structure) -> JointTree:
    """The tree of the joints of a model."""
    count = np.diff(structure.v_start)
    moving = np.flatnonzero(count)
    first, count = structure.v_start[moving], count[moving].astype(np.int32)
    joint_of_row = np.repeat(np.arange(len(moving)), count)
    if len(first) == structure.tree.n:
        return JointTree(structure.tree, first, count)  # one row to a joint: the tree of rows is the tree of joints
    above = structure.tree.parent[first]
    return JointTree(Tree(np.where(above >= 0, joint_of_row[np.maximum(above, 0)], -1)), first, count)


def resists(own: Inertia, least: np.ndarray) -> np.ndarray:
    """True where all principal moments of inertia about the centre of mass exceed `least`: J − least 1 > 0."""
    mass = np.maximum(own.mass, np.finfo(float).tiny)
    x, y, z = own.h
    xx, yy, zz, xy, xz, yz = own.I
    a, b, c = (J - (u * u + v * v) / mass - least for J, u, v in ((xx, y, z), (yy, x, z), (zz, x, y)))
    d, e, f = (J + u * v / mass for J, u, v in ((xy, x, y), (xz, x, z), (yz, y, z)))
    minor = a * b - d * d
    return (a > 0) & (minor > 0) & (minor * c - a * f * f - b * e * e + 2 * d * e * f > 0)


_firm: OncePerOwner[bool] = OncePerOwner()


def is_firm(model: Model) -> bool:
    """True if every joint's body resists every motion by itself; found once. False if numbers are not known."""
    return _firm.get(model, None, lambda: _is_firm(model))


def _is_firm(model: Model) -> bool:
    if not is_known(model.rows.inertia, model.rows.position):
        return False
    joints = joint_tree(model.structure)
    own: Inertia = pick(model.rows.inertia, joints.last)
    lever = sum(np.square(x[joints.first]) for x in model.rows.position)
    turning = own.I.xx + own.I.yy + own.I.zz + own.mass * lever
    light = own.mass <= FIRM * _over_subtrees(joints.tree, own.mass)
    least = FIRM * _over_subtrees(joints.tree, turning)
    (firm,) = in_pieces(lambda s: (resists(pick(own, s), least[s]),), len(light))
    return bool(firm.all()) and not bool(light.any())


def _over_subtrees(tree: Tree, x: Any) -> np.ndarray:
    """Sums over each joint and all that hangs from it."""
    before = np.concatenate([[0.0], np.cumsum(x[tree.preorder])])
    first = tree.preorder_index
    return before[first + tree.subtree_size] - before[first]

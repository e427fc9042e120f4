"""The coordinates of derivatives: all those of a tree, or fewer if joints follow others."""

from functools import cached_property

import numpy as np

from kinetree.model import Model, Structure
from kinetree.model.coupling import Coupling
from kinetree.tree import Tree


class Skeleton:
    """A structure and its coupling: the tables of a derivative program depend on these."""

    def __init__(self, structure: Structure, coupling: Coupling | None):
        self.structure, self.coupling = structure, coupling

    @staticmethod
    def of(model: Model) -> "Skeleton":
        """The shape of a model."""
        return Skeleton(model.structure, model.coupling)

    def __hash__(self) -> int:
        return hash((self.structure, self.coupling))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Skeleton):
            return False
        return self.structure == other.structure and self.coupling == other.coupling

    @property
    def rows(self) -> int:
        """Rows of the tree."""
        return self.structure.tree.n

    @property
    def size(self) -> int:
        """Degrees of freedom."""
        return self.rows if self.coupling is None else self.coupling.nv

    def v_column(self, rows: np.ndarray) -> np.ndarray:
        """The degree of freedom of each row."""
        return rows if self.coupling is None else self.coupling.source_v[rows]

    def q_column(self, columns: np.ndarray) -> np.ndarray:
        """The coordinate behind each coordinate of the tree."""
        return columns if self.coupling is None else self.coupling.source_q[columns]

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Pairs (i, j): each row j with each row i ≠ j that carries it."""
        j, i = (x.astype(np.int64) for x in self.structure.tree.ancestor_pairs)
        return i[i != j], j[i != j]

    @cached_property
    def joint_of_row(self) -> np.ndarray:
        """For each row of a quaternion joint, the first row of the joint; for other rows, the row itself."""
        first = np.arange(self.rows)
        for row, _, free in self.structure.quaternion_joints:
            first[row : row + 3 + 3 * free] = row
        return first

    @cached_property
    def last_of_row(self) -> np.ndarray:
        """For each row of a quaternion joint, the last row of the joint; for other rows, the row itself."""
        last = np.arange(self.rows)
        for row, _, free in self.structure.quaternion_joints:
            last[row : row + 3 + 3 * free] = row + 2 + 3 * free
        return last

    @cached_property
    def tree(self) -> Tree:
        """The elimination tree of H over the degrees of freedom: H_ij ≠ 0 only if one of them is the other's ancestor.

        Without coupling it is the tree of the rows. A coupled coordinate is related to all coordinates that its
        followers are related to.
        """
        if self.coupling is None:
            return self.structure.tree
        m = self.size
        related = np.zeros((m, m), bool)
        i, j = (self.v_column(x) for x in self.pairs)
        related[np.maximum(i, j), np.minimum(i, j)] = True
        parent = np.full(m, -1)
        for k in range(m - 1, -1, -1):
            earlier = np.flatnonzero(related[k, :k])
            if len(earlier):
                parent[k] = earlier[-1]
                related[parent[k], earlier[:-1]] = True  # what eliminating k fills in
        return Tree(parent)

    def packed(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """The place of (i, j) in H packed on the elimination tree."""
        low, high = np.minimum(i, j), np.maximum(i, j)
        start, depth = self.tree.ancestor_start, self.tree.depth
        return start[high] + depth[high] - depth[low]

"""Entries of a matrix over pairs of rows that belong to free joints on the base: six of them in one turn.

The momentum that a row of a limb carries up to the body of its root gives an entry for each of the root's rows. These
rows are at rest in one another, so from row to row the momentum is only turned by a third of a full turn, and the
entries are its components (lane_roots.py). The same holds for the entries among the root's own rows.
"""

import jax
import numpy as np

from kinetree.dynamics.recursion import AT, Algorithm, Ancestors, Pass, Row
from kinetree.lanes import NOTHING, Lane, Loop
from kinetree.model import Model, Structure
from kinetree.spatial import Force

from .lane_roots import AXES, LAST, ROWS, resting
from .lane_rows import RowForm, RowPart, Turns, joints_with
from .lane_visits import Fields

BELOW, START, ENTRY, MIRROR = range(4)  # columns for a row of a limb; six mirrored places begin at the last column
OWN, PLACES = range(2)  # columns for a root; six places begin at the last column


def root_rows(structure: Structure) -> np.ndarray:
    """(rows,): True for rows of free joints."""
    return structure.q_of_row < 0


class RootPairs:
    """Writes the turns of root joints for the matrix of one algorithm."""

    def __init__(self, algorithm: Algorithm, links: RowForm, fields: Fields, packed: bool):
        self.links, self.fields, self.packed = links, fields, packed
        self.array = list(algorithm.outputs).index(algorithm.matrix)
        self.name = algorithm.matrix
        (self.carry,) = (p for p in algorithm.passes if isinstance(p, Ancestors))

    def upward(self, F: Force, at: list, last: int) -> list:
        """Entries of a momentum, carried from below row `last` to all rows of the root above, the nearest first."""
        found = []
        for k in range(last, -1, -1):
            F, entry = self.carry.visit(Row({AT: at[k + 1], "axis": AXES[k]}), F)
            found.append(entry[self.name])
        return found

    def among_roots(self, p: Pass) -> RowPart:
        """The inward pass at a root, and the entries of its rows. Only the last row has a body."""
        at = [resting(k).transform for k in range(ROWS)]
        hinges = self.links.hinges

        def step(armature: tuple, _: tuple, reads: tuple) -> tuple:
            whole = self.fields.taken((p.state,), list(reads))[p.state]
            entries = {}
            for k in range(LAST, -1, -1):
                row = Row({AT: at[k], "axis": AXES[k], "armature": 0.0 if hinges else armature[k]})
                whole, found = p.visit(row, whole)
                column = [found[self.name], *self.upward(found[self.carry.state], at, k - 1)]
                entries |= {(k, k - n): x for n, x in enumerate(column)}
            return (), (), tuple(entries[max(k, j), min(k, j)] for k, j in self.block())

        def turns(structure: Structure) -> Turns:
            tree, first = structure.tree, joints_with(structure, 1)[:, 0]
            rows = (first[:, None] + np.arange(ROWS)).ravel()
            entry = tree.ancestor_start[rows] if self.packed else rows.astype(np.int64) * tree.n + first.repeat(ROWS)
            return np.column_stack([self.fields.memory.base(first + LAST), entry.reshape(-1, ROWS)]), first

        def armatures(model: Model, first: np.ndarray) -> tuple:
            return () if hinges else tuple(model.rows.armature[first + k] for k in range(ROWS))

        loop = Loop(
            step,
            PLACES + ROWS,
            NOTHING if hinges else jax.tree.structure(ROWS * (0.0,)),
            reads=self.fields.at(OWN, p.state),
            outputs=tuple(Lane(self.array, PLACES + k, k - j if self.packed else j) for k, j in self.block()),
        )
        return RowPart(loop, turns, armatures)

    def block(self) -> list[tuple[int, int]]:
        """The entries of a root's rows that are written; for a packed matrix only those on one side."""
        return [(k, j) for k in range(ROWS) for j in range(k + 1 if self.packed else ROWS)]

    def with_limbs(self) -> RowPart:
        """The entries of each row of a limb with the rows of its root."""
        at = [resting(k).transform for k in range(ROWS)]

        def step(_: tuple, __: tuple, reads: tuple) -> tuple:
            slots = list(reads)
            below, F = self.fields.taken((AT,), slots)[AT], self.fields.taken((self.carry.state,), slots)
            found = self.upward(F[self.carry.state], [*at, below], LAST)[::-1]
            return (), (), tuple(found) if self.packed else (*found, *found)

        def turns(structure: Structure) -> Turns:
            tree = structure.tree
            i, j = (x.astype(np.int64) for x in tree.ancestor_pairs)
            above = tree.parent[j]
            end = np.isin(above, joints_with(structure, 1)[:, 0] + LAST)
            row, below, first = i[end], j[end], above[end] - LAST
            entry = row * tree.n + first
            if self.packed:
                entry = tree.ancestor_start[row] + tree.depth[row] - tree.depth[first]
            mirror = [] if self.packed else [(first + k) * tree.n + row for k in range(ROWS)]
            slots = [self.fields.memory.base(x) for x in (below, row)]
            return np.stack([*slots, entry, *mirror], -1), row

        entries = tuple(Lane(self.array, ENTRY, -k if self.packed else k) for k in range(ROWS))
        mirrors = () if self.packed else tuple(Lane(self.array, MIRROR + k) for k in range(ROWS))
        loop = Loop(
            step,
            ENTRY + 1 + len(mirrors),
            NOTHING,
            reads=self.fields.at(BELOW, AT) + self.fields.at(START, self.carry.state),
            outputs=entries + mirrors,
        )
        return RowPart(loop, turns)

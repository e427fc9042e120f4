"""Slots and tables for Newton's matrix of several trees whose bodies touch (joined.py factors it and solves with it).

Rows are eliminated in groups of six: tree after tree, the rows farthest from the base first. A free joint on which a
tree hangs is a group of its own, a *root*. Its six unknowns are its body's acceleration in the world's axes. The matrix
is kept in blocks of six by six, and only those blocks that may have entries.
"""

from typing import Any

import numpy as np

from kinetree.lanes import Memory

from .links import carrying, fill_in
from .memory import ARTICULATED, MOTION, ROW, ZERO3
from .tables import SlotBlocks, table

WIDTH = 6  # rows of a group
# Lists of a step: eliminations that change something, and filled blocks.
WORKS, BLOCKS = "eliminations", "blocks"
# Lists of what pairs of bodies that touch need: all of them, those that hang from roots, and entries of other rows.
PAIRS, ROOTS, ENTRIES = "pairs", "roots", "entries"
NOWHERE = 3  # Spare blocks. They absorb the writes of pairs that have fewer blocks.
# A matrix may have this many groups; above, conjugate gradients solve instead. A heap of balls, µs a step by the matrix
# and by gradients: 30 balls 17 and 36, 60 balls 58 and 89, 100 balls 161 and 134 (on a CPU).
MAX_GROUPS = 64
# From this many rows of larger trees for each lone body on, conjugate gradients are faster, too, because robots touch
# in few points. µs a step by the matrix and by gradients: two humanoids 21 and 10, three 29 and 14, a humanoid with a
# box 7.1 and 4.2; but an arm with six things 4.1 and 4.4, nine boxes 3 and 39 (on a CPU).
LARGE_ROWS_PER_BODY = 20
# More trees with friction make too many turns: two of mujoco_warp's humanoids 13.5 and 12.7, three 25.8 and 20.6, but
# four ragdolls in a pile 27 and 44. Without friction a contact has one direction, not three.
MAX_TREES_WITH_FRICTION = 3


def _cold(**fields: Any) -> Memory:
    memory = Memory(**fields)
    memory.cold = True
    return memory


SIX = (0.0,) * WIDTH
# The stiffness between two bodies that touch, about the reference point of the first one's tree.
JOIN = _cold(stiff=ARTICULATED.inertia, away=ZERO3)
# Of a group: forces, solution, and the LDLᵀ factors of its block on the diagonal.
SOLUTION = _cold(f=SIX, t=SIX, low=(0.0,) * 15, inverse=SIX)
CELL = _cold(k=SIX * WIDTH)  # A block of the matrix, row by row.
TOUCHES = Memory(on=0.0)  # Of two bodies: 1 if they have active contacts.
FILLED = Memory(on=0.0)  # Of a block: 1 if it has entries in this step.
SCREW = Memory(S=MOTION)  # The motion of a row, or one of the six directions of a root.


def prefers_gradients(rows: np.ndarray, dims: list[int]) -> bool:
    """True if conjugate gradients solve faster than the matrix.

    The numbers of rows are those of the trees, `dims` the `condim` of contacts between moving bodies.
    """
    large = rows > WIDTH
    if max(dims) > 1 and len(rows) > MAX_TREES_WITH_FRICTION:
        return False
    return len(rows) < 2 or rows[large].sum() >= LARGE_ROWS_PER_BODY * max(1, int((~large).sum()))


class Joined:
    """First slots of everything that the matrix needs, and the tables of its loops."""

    def __init__(
        self,
        parent: np.ndarray,
        tree: np.ndarray,
        articulated: tuple[np.ndarray, np.ndarray],
        couples: list[tuple[int, int]],
        roots: np.ndarray,
    ):
        """`couples`: rows of bodies that may touch; `tree`: the tree of each row; `articulated`: of `Plan`."""
        self.parent, (self.articulated, self.merges) = parent, articulated
        self._group(tree, roots)
        late = {i: (self.place[i][0], i) for i in range(len(parent))}
        self.couples = sorted({(a, b) if late[a] > late[b] else (b, a) for a, b in couples})
        self._number = {pair: k for k, pair in enumerate(self.couples)}
        self._reach = [set(carrying(parent, {a})) ^ set(carrying(parent, {b})) for a, b in self.couples]
        self._second = [set(carrying(parent, {b})) for _, b in self.couples]
        self._fill()

    @property
    def served(self) -> bool:
        """True if the matrix is small enough."""
        return len(self.groups) <= MAX_GROUPS

    def _group(self, tree: np.ndarray, roots: np.ndarray) -> None:
        self.groups: list[list[int]] = []
        self.roots: dict[int, int] = {}  # from a group that is a root to its first row
        for t in range(int(tree.max()) + 1):
            rows = np.flatnonzero(tree == t)[::-1].tolist()
            root = [int(r) for r in roots if tree[r] == t]
            rows = [i for i in rows if not root or i >= root[0] + WIDTH]
            self.groups += [rows[k : k + WIDTH] for k in range(0, len(rows), WIDTH)]
            if root:
                self.roots[len(self.groups)] = root[0]
                self.groups.append(list(range(root[0], root[0] + WIDTH)))
        self.place = {i: (k, c) for k, rows in enumerate(self.groups) for c, i in enumerate(rows)}
        self.others = [i for i in range(len(tree)) if self.place[i][0] not in self.roots]  # rows outside roots

    def _groups_of(self, rows: Any) -> list[int]:
        return sorted({self.place[i][0] for i in rows})

    def _fill(self) -> None:
        """Find the blocks that may have entries: of rows on one path, of bodies that may touch, and of the fill-in."""
        count = len(self.groups)
        filled = [{k} for k in range(count)]
        every = [self._groups_of(carrying(self.parent, {i})) for i in range(len(self.parent))]
        self._carried = {(j, k) for groups in every for j in groups for k in groups}
        for groups in [*every, *map(self._groups_of, self._reach)]:
            for a, k in enumerate(groups):
                filled[k] |= set(groups[: a + 1])
        self._below = fill_in(filled)
        self._cells = [(j, k) for j in range(count) for k in sorted(filled[j])]

    def place_flags(self, at: int) -> int:
        """Place the flags (bodies that touch, blocks that are filled) and the directions of roots. Returns the end."""
        self._flags, at = at, at + TOUCHES.size * len(self.couples)
        self._filled = {cell: at + k * FILLED.size for k, cell in enumerate(self._cells)}
        at += FILLED.size * len(self._cells)
        self.directions = at + SCREW.size * np.arange(WIDTH)
        return at + SCREW.size * WIDTH

    def place_matrix(self, at: int) -> int:
        """Place all other slots. Returns the end."""
        self._joins, at = at, at + len(self.couples) * JOIN.size
        self.solution = SlotBlocks(at, SOLUTION.size, len(self.groups))
        at = self.solution.end
        self._nowhere, at = at, at + NOWHERE * CELL.size
        self._cell = {cell: at + k * CELL.size for k, cell in enumerate(self._cells)}
        return at + len(self._cells) * CELL.size

    # -- slots --------------------------------------------------------------------------------------------------------

    def join(self, pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of each pair: first slots of its join and flag, and 1 if the join has the two bodies in the other order."""
        swapped = np.array([p not in self._number for p in pairs], bool)
        number = np.array(
            [self._number[(b, a) if s else (a, b)] for (a, b), s in zip(pairs, swapped, strict=True)], np.int64
        )
        return self._joins + number * JOIN.size, self._flags + number * TOUCHES.size, swapped.astype(float)

    def _own(self, rows: Any) -> list[int]:
        """The slot of each row's own number in the solution of its group."""
        return [int(self.solution(self.place[i][0])) + self.place[i][1] for i in rows]

    def _screws(self, group: int, row: Any) -> list[int]:
        """First slots of the six screws of a group. If it has fewer rows, the first screw fills up."""
        if group in self.roots:
            return self.directions.tolist()
        rows = self.groups[group]
        return [int(row(i)) + ROW.at(0, "S").offset for i in (*rows, *rows[:1] * (WIDTH - len(rows)))]

    # -- tables: what is filled, once in a step -----------------------------------------------------------------------

    def every_flag(self) -> np.ndarray:
        """The flags of bodies that touch."""
        return table(self._flags + np.arange(len(self.couples)) * TOUCHES.size)

    def first_filled(self) -> tuple[np.ndarray, np.ndarray]:
        """The flags of all blocks, and 1 for those that are always filled: blocks of rows on one path."""
        return table(list(self._filled.values())), np.array([float(c in self._carried) for c in self._cells])

    def touching(self) -> np.ndarray:
        """Flags: two bodies that touch, and a block that they fill, if it is not always filled."""
        found = []
        for pair, reach in zip(self.couples, self._reach, strict=True):
            groups, flag = self._groups_of(reach), int(self.join([pair])[1][0])
            cells = ((j, k) for a, j in enumerate(groups) for k in groups[:a])
            found += [(flag, self._filled[cell]) for cell in cells if cell not in self._carried]
        return table(*np.array(found, np.int64).reshape(-1, 2).T)

    def eliminations(self, of: str) -> np.ndarray:
        """Each row is an elimination: the pivot k, blocks (i, k) and (j, k), and the block (i, j) that they change.

        `of`: "cells" gives the blocks, "flags" their flags. A turn needs two flags: those of (i, k) and (j, k). Last
        comes 1 if i and j are the same.
        """
        found = []
        for k, below in enumerate(self._below):
            for a, i in enumerate(below):
                for j in below[: a + 1]:
                    cells = (k, k), (i, k), (j, k), (i, j)
                    found.append([*((self._cell if of == "cells" else self._filled)[c] for c in cells), i == j])
        return np.array(found, np.int32).reshape(-1, 5)

    def below(self) -> np.ndarray:
        """Blocks below the diagonal: each with the solutions of its column's and its row's group, and its flag."""
        pairs = [(j, k) for k, below in enumerate(self._below) for j in below]
        solutions = [self.solution([cell[which] for cell in pairs]) for which in (1, 0)]
        return table([self._cell[c] for c in pairs], *solutions, [self._filled[c] for c in pairs])

    # -- tables: the matrix -------------------------------------------------------------------------------------------

    def every_join(self) -> np.ndarray:
        """Joins of all pairs of bodies that may touch, and their flags."""
        return table(*self.join(self.couples)[:2])

    def composed(self) -> np.ndarray:
        """What a parent holds, and what its row holds, for all rows that add their load to their parents."""
        rows = [i for i in range(len(self.parent) - 1, -1, -1) if self.parent[i] >= 0 and self.merges[i] > 0]
        return (
            table(self.articulated[self.parent[rows]], self.articulated[rows]) if rows else np.zeros((0, 2), np.int32)
        )

    def plain(self) -> np.ndarray:
        """Groups that are not roots: the block on the diagonal, and the solution."""
        groups = [k for k in range(len(self.groups)) if k not in self.roots]
        return table([self._cell[k, k] for k in groups], self.solution(groups))

    def rooted(self, row: Any, total: Any) -> np.ndarray:
        """Roots: first row, what its body holds, block on the diagonal, solution, and the part of the sums."""
        first, groups = np.array(list(self.roots.values()), np.int64), list(self.roots)
        articulated = self.articulated[first + WIDTH - 1]
        return table(row(first), articulated, [self._cell[k, k] for k in groups], self.solution(groups), total(first))

    def entries(self, row: Any) -> tuple[np.ndarray, np.ndarray]:
        """Entries of rows with groups on their paths: load, screw, the group's six screws, and a column of the block.

        The second result says which of the six rows are on the path.
        """
        found, carry = [], []
        for i in self.others:
            k, c = self.place[i]
            path = set(carrying(self.parent, {i}))
            for j in self._groups_of(path):
                there = [r in path for r in self.groups[j]]
                screw = row(i) + ROW.at(0, "S").offset
                found.append((self.articulated[i], screw, *self._screws(j, row), self._cell[j, k] + c))
                carry.append(there + [False] * (WIDTH - len(there)))
        return np.array(found, np.int32).reshape(-1, WIDTH + 3), np.array(carry, float).reshape(-1, WIDTH)

    def of_rows(self, row: Any) -> np.ndarray:
        """Rows outside roots: the row, what it holds, its slot on the diagonal, and its number in the solution."""
        places = [self.place[i] for i in self.others]
        slots = [self._cell[k, k] + c * (WIDTH + 1) for k, c in places]
        return table(row(np.array(self.others, np.int64)), self.articulated[self.others], slots, self._own(self.others))

    def between_roots(self) -> np.ndarray:
        """Pairs that hang from roots: join, flag, the two roots' blocks on the diagonal, and the block between them."""
        found = []
        for pair, reach in zip(self.couples, self._reach, strict=True):
            j, k = (next((g for g in self._groups_of(reach & set(carrying(self.parent, {i}))) if g in self.roots), None)
                    for i in pair)  # fmt: skip
            if j is not None or k is not None:
                join, flag, _ = self.join([pair])
                blocks = [self._block(*cell, n) for n, cell in enumerate(((j, j), (k, k), (j, k)))]
                found.append((join[0], flag[0], *blocks))
        return np.array(found, np.int32).reshape(-1, 5)

    def _block(self, j: int | None, k: int | None, which: int) -> int:
        """A block; without one of the groups, a spare block."""
        return self._nowhere + which * CELL.size if j is None or k is None else self._cell[j, k]

    def couplings(self, row: Any) -> tuple[np.ndarray, np.ndarray]:
        """Entries between two groups that move a pair of bodies, unless both groups are roots.

        The join, its flag, the screw of one row, the six screws of the other group, and a column of their block. The
        second result has signs: 1 for a row that moves the second body, −1 for the first body, 0 for neither.
        """
        found, signs = [], []
        for n, pair in enumerate(self.couples):
            join, flag = (int(x[0]) for x in self.join([pair])[:2])
            groups = self._groups_of(self._reach[n])
            for j, k in ((j, k) for a, j in enumerate(groups) for k in groups[: a + 1]):
                if j in self.roots and k in self.roots:
                    continue
                one, two = self._signs(n, j), self._signs(n, k)
                for c, screw in enumerate(self._screws(k, row)):
                    if two[c]:
                        found.append((join, flag, screw, *self._screws(j, row), self._cell[j, k] + c))
                        signs.append((two[c], *one))
        return np.array(found, np.int32).reshape(-1, WIDTH + 4), np.array(signs, float).reshape(-1, WIDTH + 1)

    def _signs(self, number: int, group: int) -> list[float]:
        reach, second = self._reach[number], self._second[number]
        own = [0.0 if i not in reach else 1.0 if i in second else -1.0 for i in self.groups[group]]
        return own + [0.0] * (WIDTH - len(own))

    # -- tables: factors and the solution -----------------------------------------------------------------------------

    def diagonal(self) -> np.ndarray:
        """Blocks on the diagonal, and the solutions of their groups."""
        count = range(len(self.groups))
        return table([self._cell[k, k] for k in count], self.solution(list(count)))

    def answers(self, row: Any, up: Any, total: Any) -> np.ndarray:
        """Rows outside roots: the parent, the row, what it holds, its number in the solution, a part of the sums."""
        rows = np.array(self.others, np.int64)
        return table(up(rows), row(rows), self.articulated[rows], self._own(self.others), total(rows))

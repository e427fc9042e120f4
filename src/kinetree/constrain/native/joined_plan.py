"""Where the matrix of several trees whose bodies touch stands in the memory of a world (joined.py solves with it).

Rows go in groups of three along chains, those far from the base first: the order in which they are eliminated, so that
branches that do not touch fill nothing in. The matrix is kept in blocks of three by three where it may have entries.
"""

from typing import Any

import numpy as np

from kinetree.lanes import Memory

from .links import carrying
from .memory import HELD, ZERO3
from .tables import table

WIDTH = 3  # rows of a group
MAX_GROUPS = 40  # beyond, conjugate gradients are left to find their way
NOTHING_THERE = 5  # four blocks that take what belongs nowhere, and an empty one


def _cold(**fields: Any) -> Memory:
    memory = Memory(**fields)
    memory.cold = True
    return memory


HEAVY = _cold(held=HELD)  # of a row: what it and all after it resist, and the forces on them
JOIN = _cold(stiff=HELD.inertia, away=ZERO3)  # of two bodies that touch
SOLUTION = _cold(t=(0.0,) * WIDTH, factors=(0.0,) * 6)  # of a group
CELL = _cold(k=(0.0,) * WIDTH * WIDTH, filled=0.0)  # of the matrix, row by row; whether there is something in it
TOUCHES = Memory(on=0.0)  # of two bodies: whether they press on each other


class Joined:
    """First slots of all that the matrix needs, and the tables of its loops."""

    def __init__(self, parent: np.ndarray, held: np.ndarray, merges: np.ndarray, couples: list[tuple[int, int]]):
        """`couples`: rows of bodies that may touch; `held`, `merges`: see `Plan`."""
        self.parent, self.held, self.merges = parent, held, merges
        self.couples = sorted(set(couples))
        self._number = {pair: k for k, pair in enumerate(self.couples)}
        self._group(parent)
        self._reach = [set(carrying(parent, {a})) ^ set(carrying(parent, {b})) for a, b in self.couples]
        self._second = [set(carrying(parent, {b})) for _, b in self.couples]
        self._fill()

    @property
    def served(self) -> bool:
        """Whether it is small enough."""
        return len(self.groups) <= MAX_GROUPS

    def _group(self, parent: np.ndarray) -> None:
        children = np.bincount(parent[parent >= 0], minlength=len(parent))
        self.groups: list[list[int]] = []
        for i in range(len(parent) - 1, -1, -1):
            last = self.groups[-1] if self.groups else []
            if last and len(last) < WIDTH and parent[last[-1]] == i and children[i] == 1:
                last.append(i)
            else:
                self.groups.append([i])
        self.place = {i: (k, c) for k, rows in enumerate(self.groups) for c, i in enumerate(rows)}

    def _groups_of(self, rows: Any) -> list[int]:
        return sorted({self.place[i][0] for i in rows})

    def _fill(self) -> None:
        """Which blocks there are: of rows that carry one another, of bodies that may touch, and what fills in."""
        count = len(self.groups)
        filled = [{k} for k in range(count)]
        every = [self._groups_of(carrying(self.parent, {i})) for i in range(len(self.parent))]
        self._carried = {(j, k) for groups in every for j in groups for k in groups}
        for groups in [*every, *map(self._groups_of, self._reach)]:
            for a, k in enumerate(groups):
                filled[k] |= set(groups[: a + 1])
        self._below: list[list[int]] = []
        for k in range(count):
            below = [j for j in range(k + 1, count) if k in filled[j]]
            self._below.append(below)
            for a, j in enumerate(below):
                filled[j] |= set(below[: a + 1])
        self._cells = [(j, k) for j in range(count) for k in sorted(filled[j])]

    def place_flags(self, at: int) -> int:
        """Slots that say which bodies touch."""
        self._flags = at
        return at + TOUCHES.size * len(self.couples)

    def place_matrix(self, at: int) -> int:
        """All other slots."""
        own = sorted(set(self.held.tolist()))
        self._heavy = {slot: at + k * HEAVY.size for k, slot in enumerate(own)}
        at += len(own) * HEAVY.size
        self._joins, at = at, at + len(self.couples) * JOIN.size
        self._solution, at = at, at + len(self.groups) * SOLUTION.size
        self._nowhere, at = at, at + NOTHING_THERE * CELL.size
        self._cell = {cell: at + k * CELL.size for k, cell in enumerate(self._cells)}
        return at + len(self._cells) * CELL.size

    # -- slots --------------------------------------------------------------------------------------------------------

    def heavy(self, rows: Any) -> list[int]:
        """First slots of what rows and all after them resist."""
        return [self._heavy[int(self.held[i])] for i in rows]

    def join(self, pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
        """First slots of bodies that touch, and of what says so."""
        number = np.array([self._number[p] for p in pairs], np.int64)
        return self._joins + number * JOIN.size, self._flags + number * TOUCHES.size

    def solution(self, group: Any) -> Any:
        """First slots of groups."""
        return self._solution + np.asarray(group, np.int64) * SOLUTION.size

    def _t(self, rows: Any) -> list[int]:
        return [int(self.solution(self.place[i][0])) + self.place[i][1] for i in rows]

    # -- tables -------------------------------------------------------------------------------------------------------

    def copies(self) -> np.ndarray:
        """What is held, and where it is copied to."""
        return table([*self._heavy], [*self._heavy.values()])

    def every_join(self) -> np.ndarray:
        """Bodies that may touch, and what says so."""
        return table(*self.join(self.couples))

    def composed(self) -> np.ndarray:
        """Onto what rows lay their load, and their own."""
        rows = [i for i in range(len(self.parent) - 1, -1, -1) if self.parent[i] >= 0 and self.merges[i] > 0]
        return table(self.heavy(self.parent[rows]), self.heavy(rows)) if rows else np.zeros((0, 2), np.int32)

    def cells(self) -> tuple[np.ndarray, np.ndarray]:
        """Blocks, 1 for those of the diagonal, and 1 for those of rows that carry one another; and the empty one."""
        known = [(float(j == k), float((j, k) in self._carried)) for j, k in self._cells]
        empty = self._block(None, None, NOTHING_THERE - 1)
        return table([*self._cell.values(), empty]), np.array([*known, (0.0, 0.0)])

    def entries(self, row: Any) -> tuple[np.ndarray, np.ndarray]:
        """Of a row and a group that carries it: its load, the row, rows of the group, and the column; and which are."""
        found, carry = [], []
        for i in range(len(self.parent)):
            k, c = self.place[i]
            path = set(carrying(self.parent, {i}))
            for j in self._groups_of(path):
                rows = (self.groups[j] * WIDTH)[:WIDTH]
                there = [r < len(self.groups[j]) and rows[r] in path for r in range(WIDTH)]
                found.append((self.heavy([i])[0], row(i), *map(row, rows), self._cell[j, k] + c))
                carry.append(there)
        return table(*np.array(found, np.int64).T), np.array(carry, float)

    def resistances(self, row: Any) -> np.ndarray:
        """Rows, and their places on the diagonal."""
        slots = [self._cell[k, k] + c * (WIDTH + 1) for k, c in (self.place[i] for i in range(len(self.parent)))]
        return table(row(np.arange(len(self.parent))), slots)

    def forces(self, row: Any) -> np.ndarray:
        """Rows, their loads, and where their forces go."""
        rows = range(len(self.parent))
        return table(row(np.arange(len(self.parent))), self.heavy(rows), self._t(rows))

    def answers(self, row: Any, up: Any) -> np.ndarray:
        """Parents, rows, and their solutions."""
        rows = np.arange(len(self.parent))
        return table(up(rows), row(rows), self._t(rows.tolist()))

    def _block(self, j: int | None, k: int | None, which: int) -> int:
        if j is None or k is None or j < k:
            return self._nowhere + which * CELL.size
        return self._cell[j, k]

    def couplings(self, row: Any) -> tuple[np.ndarray, np.ndarray]:
        """Of a couple and two pairs of groups: the join, its flag, the rows of both, four blocks; and signs."""
        found, signs = [], []
        for n, pair in enumerate(self.couples):
            join, flag = (int(x[0]) for x in self.join([pair]))
            halves = _in_pairs(self._groups_of(self._reach[n]))
            for a, one in enumerate(halves):
                for two in halves[: a + 1]:
                    blocks = [self._block(j, k, w) for w, (j, k) in enumerate((j, k) for j in one for k in two)]
                    rows, sign = zip(*(self._signed(n, g, c) for g in (*one, *two) for c in range(WIDTH)), strict=True)
                    found.append((join, flag, *map(row, rows), *blocks))
                    signs.append(sign)
        return table(*np.array(found, np.int64).T), np.array(signs, float)

    def _signed(self, number: int, group: int | None, c: int) -> tuple[int, float]:
        """A row of a group, and how it moves the second body away from the first: 1, −1, or not at all."""
        rows = self.groups[group] if group is not None else []
        if c >= len(rows) or rows[c] not in self._reach[number]:
            return (rows or [0])[0], 0.0
        return rows[c], 1.0 if rows[c] in self._second[number] else -1.0

    def diagonal(self) -> np.ndarray:
        """Blocks of the diagonal, and their groups."""
        count = range(len(self.groups))
        return table([self._cell[k, k] for k in count], self.solution(list(count)))

    def eliminations(self) -> np.ndarray:
        """A pivot, its blocks with two pairs of groups, and the four blocks of these."""
        found = []
        for k, below in enumerate(self._below):
            halves = _in_pairs(below)
            for a, one in enumerate(halves):
                for two in halves[: a + 1]:
                    with_pivot = [self._block(j, k, NOTHING_THERE - 1) for j in (*one, *two)]
                    blocks = [self._block(i, j, w) for w, (i, j) in enumerate((i, j) for i in one for j in two)]
                    found.append((self._cell[k, k], *with_pivot, *blocks))
        return np.array(found, np.int32).reshape(-1, 9)

    def substitutions(self, back: bool) -> np.ndarray:
        """Blocks below the diagonal, the group that is known and the one that asks: forward, or back."""
        pairs = [(k, j) for k, below in enumerate(self._below) for j in below]
        if back:
            pairs = pairs[::-1]
            known, asks = [j for _, j in pairs], [k for k, _ in pairs]
        else:
            known, asks = [k for k, _ in pairs], [j for _, j in pairs]
        slots = [self._cell[j, k] for k, j in pairs]
        return table(slots, self.solution(known), self.solution(asks)) if pairs else np.zeros((0, 3), np.int32)

    def every(self) -> np.ndarray:
        """Groups."""
        return table(self.solution(np.arange(len(self.groups))))


def _in_pairs(groups: list[int]) -> list[tuple[int, int | None]]:
    """Two at a time; the last may be alone."""
    padded: list[int | None] = [*groups, None]
    return [(groups[k], padded[k + 1]) for k in range(0, len(groups), 2)]

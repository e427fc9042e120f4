"""Links: the places of the coupling rows of a model in the memory of a world (delassus.py solves with them).

A link is one row G over several joints or two bodies. Its sweep goes along the rows that carry these. Each end of these
paths has a carrier, which holds the rest of the link's force. Where paths meet, one carrier takes up the others.
"""

from typing import Any, NamedTuple

import numpy as np

from kinetree.lanes import Memory

from .memory import FORCE
from .tables import SlotBlocks, table

WIDTH = 3  # links in a group: a turn of a loop costs more than its computation
# Links of a model that lanes serve. A net of 64 balls has 348, and takes 44 µs a step. If all hang from one body, K is
# dense: 360 take 650 µs, and 180 take 97, where XLA takes 810.
MAX_LINKS = 360
THREE = (0.0,) * WIDTH
GROUP = Memory(stiff=THREE, t=THREE, factors=(0.0,) * 6, acts=0.0, found=THREE)  # `found`: where some are loops
CARRIER = Memory(applied=(FORCE,) * WIDTH)
ENTRY = Memory(v=THREE)
BLOCK = Memory(k=(0.0,) * WIDTH * WIDTH)  # of K, row by row


class LinkTouch(NamedTuple):
    """The rows of a link: those on which its wrenches act, and those whose joints it moves."""

    ends: tuple[int, ...]
    joints: tuple[int, ...] = ()
    rigid: bool = False  # no softness: the row is zero


def carrying(parent: np.ndarray, rows: set[int]) -> list[int]:
    """These rows and all that carry them, children before parents."""
    found: set[int] = set()
    for row in rows:
        while row >= 0 and row not in found:
            found.add(row)
            row = int(parent[row])
    return sorted(found, reverse=True)


def fill_in(filled: list[set[int]]) -> list[list[int]]:
    """The rows below each pivot, for the columns that each row has, to which elimination adds others."""
    every: list[list[int]] = []
    for k in range(len(filled)):
        below = [j for j in range(k + 1, len(filled)) if k in filled[j]]
        for a, j in enumerate(below):
            filled[j] |= set(below[: a + 1])
        every.append(below)
    return every


def in_groups(touches: list[LinkTouch]) -> list[LinkTouch]:
    """The rows of each group of links."""
    groups = [touches[k : k + WIDTH] for k in range(0, len(touches), WIDTH)]

    def every(rows: list[tuple[int, ...]]) -> tuple[int, ...]:
        return tuple(sorted({r for own in rows for r in own}))

    return [LinkTouch(every([t.ends for t in group]), every([t.joints for t in group])) for group in groups]


class Links:
    """First slots of all that belongs to groups of links, and the tables of their loops."""

    def __init__(self, parent: np.ndarray, touches: list[LinkTouch], at: int):
        """From the rows of each link. Links without rows pad the groups."""
        self.count = sum(bool(t.ends or t.joints) for t in touches)
        self._soft = [float(not t.rigid) for t in touches]
        self.groups = in_groups(touches) if self.count <= MAX_LINKS else []  # lanes do not serve more links
        self.group = SlotBlocks(at, GROUP.size, len(self.groups))
        at = self.group.end
        self._sweeps: list[tuple[int, ...]] = []  # group, row, carrier, carrier afterwards
        self._ends: dict[tuple[int, int], int] = {}
        self._v: dict[tuple[int, int], int] = {}
        for k, touch in enumerate(self.groups):
            rows = carrying(parent, {*touch.ends, *touch.joints})
            at = self._plan_sweep(parent, k, touch, rows, at)
            self._v |= {(k, i): at + j * ENTRY.size for j, i in enumerate(rows)}
            at += len(rows) * ENTRY.size
        self._k: dict[tuple[int, int], int] = {}
        self._eliminations: list[tuple[int, int, int]] = []
        self.end = self._plan_matrix(at)

    def __len__(self) -> int:
        return self.count

    def _plan_sweep(self, parent: np.ndarray, k: int, touch: LinkTouch, rows: list[int], at: int) -> int:
        first: dict[int, int] = {}
        for i in rows:
            first.setdefault(int(parent[i]), i)
        carrier: dict[int, int] = {}
        for i in rows:
            if i in touch.ends or i not in first:
                carrier[i] = self._ends[k, i] = at
                at += CARRIER.size
            else:
                carrier[i] = carrier[first[i]]
        self._sweeps += [(k, i, carrier[i], carrier.get(int(parent[i]), carrier[i])) for i in rows]
        return at

    def _plan_matrix(self, at: int) -> int:
        """Blocks of K and of its factors: where supports meet, and where elimination fills in."""
        count = len(self.groups)
        self._support: list[set[int]] = [set() for _ in range(count)]
        for k, i in self._v:
            self._support[k].add(i)
        filled = [{j for j in range(k + 1) if self._support[k] & self._support[j]} | {k} for k in range(count)]
        for k, below in enumerate(fill_in(filled)):
            self._eliminations += [(k, i, j) for a, j in enumerate(below) for i in below[: a + 1]]
        for k, own in enumerate(filled):
            self._k |= {(k, j): at + n * BLOCK.size for n, j in enumerate(sorted(own))}
            at += len(own) * BLOCK.size
        return at

    # -- slots --------------------------------------------------------------------------------------------------------

    def stiffness(self, link: Any) -> Any:
        """Slots of the stiffness of links."""
        link = np.asarray(link, np.int64)
        return self.group(link // WIDTH) + link % WIDTH

    def carrier(self, group: int, row: int) -> int:
        """First slot of the carrier that takes the wrenches of a group on a row."""
        return self._ends[group, row]

    def v(self, link: int, row: int) -> int:
        """Slot of V of a link at a row."""
        return self._v[link // WIDTH, row] + link % WIDTH

    # -- tables -------------------------------------------------------------------------------------------------------

    def every(self) -> np.ndarray:
        """Groups."""
        return table(self.group(np.arange(len(self.groups))))

    def carriers(self) -> np.ndarray:
        """Carriers and their groups."""
        return table([*self._ends.values()], self.group([k for k, _ in self._ends]))

    def entries(self, row: Any, reply: Any) -> np.ndarray:
        """V, their groups, their rows, and the replies of these."""
        rows = [i for _, i in self._v]
        return table([*self._v.values()], self.group([k for k, _ in self._v]), row(rows), reply(rows))

    def sweeps(self, row: Any) -> tuple[np.ndarray, np.ndarray]:
        """Carriers before and after a row, V, rows, groups; and 1 where a carrier is taken up by another."""
        groups, rows, before, after = np.array(self._sweeps, np.int64).reshape(-1, 4).T
        v = [self._v[k, i] for k, i, *_ in self._sweeps]
        return table(before, after, v, row(rows), self.group(groups)), (before != after).astype(float)

    def matrix(self) -> tuple[np.ndarray, np.ndarray]:
        """Blocks of K and the groups of their rows, and the diagonal: 1 for links that are soft."""
        none = [0.0] * WIDTH
        diagonal = [self._soft[WIDTH * k : WIDTH * (k + 1)] if k == j else none for k, j in self._k]
        return table([*self._k.values()], self.group([k for k, _ in self._k])), np.array(diagonal).reshape(-1, WIDTH)

    def products(self, row: Any) -> np.ndarray:
        """Blocks of K; V of its two groups at a row that both have; the row; both groups."""
        found = [
            (to, self._v[k, i], self._v[j, i], i, k, j)
            for (k, j), to in self._k.items()
            for i in sorted(self._support[k] & self._support[j])
        ]
        to, one, two, rows, k, j = np.array(found, np.int64).reshape(-1, 6).T
        return table(to, one, two, row(rows), self.group(k), self.group(j))

    def eliminations(self) -> np.ndarray:
        """K[j, i], K[j, k], K[i, k], K[k, k] and group k, for each pivot k and pair i ≤ j below it."""
        slots = [(self._k[j, i], self._k[j, k], self._k[i, k], self._k[k, k], k) for k, i, j in self._eliminations]
        *four, k = np.array(slots, np.int64).reshape(-1, 5).T
        return table(*four, self.group(k))

    def diagonal(self) -> np.ndarray:
        """K[k, k] and group k."""
        count = range(len(self.groups))
        return table([self._k[k, k] for k in count], self.group(list(count)))

    def substitutions(self, back: bool) -> np.ndarray:
        """K[j, k], the group that is known and the one that asks, for all k < j: forward, or back."""
        pairs = sorted((k, j) for j, k in self._k if k < j)
        if back:
            pairs = sorted(pairs, key=lambda p: p[::-1], reverse=True)
        k, j = np.array(pairs, np.int64).reshape(-1, 2).T
        known, asks = (j, k) if back else (k, j)
        return table([self._k[b, a] for a, b in pairs], self.group(known), self.group(asks))

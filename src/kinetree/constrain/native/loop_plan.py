"""The places of rigid loops in the memory of a world: three rows to a block, each block a group of links."""

from typing import Any

import numpy as np

from kinetree.dynamics.loops.held import classes_of
from kinetree.lanes import Memory
from kinetree.model import Model

from .frame_plan import Moves
from .links import THREE, WIDTH, LinkTouch
from .memory import FORCE

LoopKind = tuple[str, Moves]  # a kind of loop, and which of its two bodies move
NO_LINK = LinkTouch(())  # pads a group

# Wanted values of three rows: accelerations, a motion that closes loops, a change of velocities; their forces, in
# the round before, too; those that close loops at the end of a step; and in derivatives what x lacks of wanted values.
ROWS3 = dict.fromkeys(("wanted", "motion", "change", "force", "before", "closing", "gap"), THREE)
LOOP3 = Memory(**ROWS3, pushes=((FORCE, FORCE),) * WIDTH)  # unit forces on both bodies, about the points of their trees
FOLLOWING3 = Memory(**ROWS3, slope=THREE)  # of joints that follow others


def blocks_of(kind: str) -> int:
    """How many blocks of three rows a loop has."""
    return -(-len(classes_of(kind)) // WIDTH)


class RigidLoops:
    """The rigid loops of a model, by their kinds and by which bodies move."""

    def __init__(self, model: Model):
        loops = model.loops
        self.groups: dict[LoopKind, np.ndarray] = {}
        self.following: list[tuple[int, int]] = []
        self._key: tuple = ()
        if loops is None:
            return
        self._key = loops.kinds, loops.bodies1, loops.bodies2
        both = np.array([loops.bodies1, loops.bodies2], np.int64).reshape(2, -1)
        self.rows = model.structure.rows_of(both)
        kinds = [(k, (bool(a >= 0), bool(b >= 0))) for k, a, b in zip(loops.kinds, *self.rows, strict=True)]
        for kind in dict.fromkeys(kinds):
            self.groups[kind] = np.array([i for i, k in enumerate(kinds) if k == kind], np.int64)
        if loops.joints is not None:
            self.following = list(zip(loops.joints.rows1, loops.joints.rows2, strict=True))

    @property
    def key(self) -> tuple:
        """All that tables depend on."""
        return *self._key, tuple(self.following)

    def __bool__(self) -> bool:
        return bool(self.groups or self.following)

    def touches(self) -> list[LinkTouch]:
        """The rows of each link, in the order of the groups; joints that follow others come last."""
        found: list[LinkTouch] = []
        for (kind, _), members in self.groups.items():
            count = len(classes_of(kind))
            for i in members:
                own = LinkTouch(tuple(int(r) for r in self.rows[:, i] if r >= 0), rigid=True)
                found += [own] * count + [NO_LINK] * (-count % WIDTH)
        found += [LinkTouch((), tuple(r for r in rows if r >= 0), rigid=True) for rows in self.following]
        return found + [NO_LINK] * (-len(self.following) % WIDTH)

    def place(self, at: int, first_link: int) -> int:
        """The end of the blocks that begin here; the first link begins a group."""
        self._first: dict[LoopKind, tuple[int, int]] = {}
        self._link = first_link
        self._blocks: list[int] = []  # first slots, group by group
        for kind, members in self.groups.items():
            count = len(members) * blocks_of(kind[0])
            self._first[kind] = at, first_link // WIDTH + len(self._blocks)
            self._blocks += [at + k * LOOP3.size for k in range(count)]
            at += count * LOOP3.size
        self._following = at, len(self._blocks)
        count = -(-len(self.following) // WIDTH)
        self._blocks += [at + k * FOLLOWING3.size for k in range(count)]
        return at + count * FOLLOWING3.size

    def first(self, kind: LoopKind) -> tuple[np.ndarray, np.ndarray]:
        """First slots of the loops of a kind, and their first groups of links."""
        at, group = self._first[kind]
        count, blocks = np.arange(len(self.groups[kind])), blocks_of(kind[0])
        return at + count * blocks * LOOP3.size, group + count * blocks

    def blocks(self) -> tuple[np.ndarray, np.ndarray]:
        """First slots of all blocks, and their groups of links."""
        every = np.array(self._blocks, np.int64)
        return every, self._link // WIDTH + np.arange(len(every))

    def followers(self) -> np.ndarray:
        """First slots of the blocks of joints that follow others."""
        return np.array(self._blocks[self._following[1] :], np.int64)

    def follower(self, field: str) -> np.ndarray:
        """Slots of a field of the joints that follow others."""
        k = np.arange(len(self.following))
        return self._following[0] + k // WIDTH * FOLLOWING3.size + FOLLOWING3.at(0, field).offset + k % WIDTH

    def follower_links(self) -> np.ndarray:
        """Numbers of their links."""
        return self._link + WIDTH * self._following[1] + np.arange(len(self.following))

    def spread(self, by_row: Any, xp: Any) -> Any:
        """(blocks, 3): numbers of all rows, loop by loop, put where their links are; 0 elsewhere."""
        numbers, k = np.full((len(self._blocks), WIDTH), -1, np.int64), 0
        starts = self._starts()
        for (kind, _), members in self.groups.items():
            count = len(classes_of(kind))
            for i in members:
                own = numbers[k : k + blocks_of(kind)].reshape(-1)
                own[:count] = starts[i] + np.arange(count)
                k += blocks_of(kind)
        numbers[k:].reshape(-1)[: len(self.following)] = starts[-1] + np.arange(len(self.following))
        return xp.where(numbers >= 0, by_row[np.maximum(numbers, 0)], 0.0)

    def _starts(self) -> np.ndarray:
        kinds = self._key[0]
        return np.cumsum([0, *(len(classes_of(k)) for k in kinds)])

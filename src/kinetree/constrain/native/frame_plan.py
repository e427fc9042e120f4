"""The places of connects and welds in the memory of a world."""

from typing import Any

import numpy as np

from kinetree.lanes import Memory
from kinetree.model import Model
from kinetree.model.equalities import WELD
from kinetree.spatial import Mat3

from ..equality_groups import frame_members
from .links import LinkTouch
from .memory import ZERO3, kept_forces

Moves = tuple[bool, bool]  # which of the two bodies move
MAT3 = Mat3(*9 * (0.0,))


def frame_memory(size: int) -> Memory:
    """The two frames, about the points of their trees; the factor of rotations; stiffness and references.

    And w of kinds.py, at both ends of a step.
    """
    own = (0.0,) * size
    turn = {"turn": MAT3} if size == WELD else {}
    return Memory(w=own, w_new=own, D=own, ref=own, arms=(ZERO3, ZERO3), **turn)


def links_of(size: int, moves: Moves) -> int:
    """How many links an equality has. One with the static world has none, as it is part of the tree."""
    return size if all(moves) else 0


class Frames:
    """The equalities of frames of a model, by their size and by which bodies move."""

    def __init__(self, model: Model, equal: Any):
        self.equal = None if equal is None else equal.frames
        self._keeps = model.world is not None and model.world.noslip
        self.groups: list[tuple[int, Moves, np.ndarray]] = []
        if self.equal is None:
            return
        both = np.array([self.equal.bodies1, self.equal.bodies2], np.int64)
        self.rows = model.structure.rows_of(both)
        for members, moves in frame_members(model, self.equal):
            self.groups.append((self.equal.held[members[0]], moves, members))

    @property
    def kinds(self) -> tuple[tuple[int, Moves], ...]:
        """Sizes, and which bodies move."""
        return tuple((size, moves) for size, moves, _ in self.groups)

    @property
    def key(self) -> tuple:
        """All that tables depend on."""
        return () if self.equal is None else (self.equal.held, self.equal.bodies1, self.equal.bodies2)

    def touches(self) -> list[LinkTouch]:
        """The rows of each link, in the order of the groups."""
        return [
            LinkTouch(tuple(int(self.rows[k, e]) for k in (0, 1) if moves[k]))
            for size, moves, members in self.groups
            for e in members
            for _ in range(links_of(size, moves))
        ]

    def place(self, at: int, first_link: int) -> int:
        """The end of the blocks that begin here; a group of links begins with the first one."""
        self._first: dict[tuple[int, Moves], tuple[int, int]] = {}
        for size, moves, members in self.groups:
            self._first[size, moves] = at, first_link
            at += self._size(size) * len(members)
            first_link += links_of(size, moves) * len(members)
        return at

    def _size(self, size: int) -> int:
        return frame_memory(size).size + (kept_forces(size, False) if self._keeps else 0)

    def members(self, size: int, moves: Moves) -> np.ndarray:
        """Numbers of the equalities of a group."""
        return next(m for s, w, m in self.groups if (s, w) == (size, moves))

    def first(self, size: int, moves: Moves) -> tuple[np.ndarray, np.ndarray]:
        """First slots of the frames of a group, and numbers of their first links."""
        at, link = self._first[size, moves]
        count = np.arange(len(self.members(size, moves)))
        return at + count * self._size(size), link + count * size

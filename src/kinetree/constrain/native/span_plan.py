"""The places of points, wraps and straight lines of spatial tendons in the memory of a world."""

from typing import Any, NamedTuple

import numpy as np

from kinetree.dynamics.tendons.paths import Paths
from kinetree.lanes import Memory
from kinetree.model.arguments import is_known
from kinetree.model.tendons import NO_SIDE, NO_WRAP, Tendons

from ..joint_groups import Present
from .memory import ZERO3
from .tables import SlotBlocks, table

SPOT = Memory(position=ZERO3)  # a point, in the world
WAY = Memory(first=ZERO3, second=ZERO3, on=0.0)  # around a shape: where a string comes to it, and leaves it
LINE = Memory(end=ZERO3, pull=ZERO3)  # a point of it, and its direction, times how much it counts


class WrapKind(NamedTuple):
    """A shape that a tendon goes around."""

    cylinder: bool
    sided: bool  # on a side that is given
    passes: bool  # it may pass through the inside


def _may_pass(tendons: Tendons, wrap: int) -> bool:
    """True if a tendon may pass through the inside of a shape: the point on its side may be there."""
    own = tendons.routes.arounds[wrap]
    if own.side == NO_SIDE:
        return False
    if tendons.routes.points[own.side] != own.row or not is_known(tendons):
        return True
    way = np.asarray(tendons.points[own.side] - tendons.shapes.position[wrap])
    return bool(np.sqrt(way @ way) < tendons.shapes.radius[wrap])


class Spans:
    """Tables of spatial tendons: those of dynamics/tendons/paths.py, as slots."""

    def __init__(self, tendons: Tendons, paths: Paths):
        self.routes, self.paths = tendons.routes, paths
        self.span_of_wrap = {s.wrap: k for k, s in enumerate(self.routes.spans) if s.wrap != NO_WRAP}
        self.wraps: dict[WrapKind, list[int]] = {}
        for k, a in enumerate(self.routes.arounds):
            self.wraps.setdefault(WrapKind(a.cylinder, a.side != NO_SIDE, _may_pass(tendons, k)), []).append(k)
        self.wrapped = [bool(w != NO_WRAP) for w in paths.lines.wrap]

    def place(self, at: int) -> int:
        """Where the blocks end that begin here."""
        self._spots, at = at, at + SPOT.size * len(self.routes.points)
        self.way = SlotBlocks(at, WAY.size, len(self.routes.arounds))
        self.line = SlotBlocks(self.way.end, LINE.size, len(self.paths.lines.first))
        return self.line.end

    def spot(self, number: Any) -> Any:
        """First slots of points: those of the routes, then two for each wrap."""
        number = np.asarray(number, np.int64)
        beyond = number - len(self.routes.points)
        way = self.way(beyond // 2) + (beyond % 2) * SPOT.size
        return np.where(beyond < 0, self._spots + number * SPOT.size, way)

    def lines(self, wrapped: bool, string: Any) -> np.ndarray:
        """Both ends, the line, its string, and its wrap; for lines of spans with a wrap, or without."""
        at, own = self.paths.lines, self.members(wrapped)
        wraps = self.way(np.maximum(at.wrap[own], 0)) if wrapped else 0
        return table(self.spot(at.first[own]), self.spot(at.second[own]), self.line(own), string(at.tendon[own]), wraps)

    def bending(self, has: Present) -> np.ndarray:
        """Numbers of lines whose tendons have armature, and that wrap around nothing (tendons.py)."""
        lines = self.paths.lines
        return np.flatnonzero((lines.wrap == NO_WRAP) & np.isin(lines.tendon, has.tendon_armature))

    def members(self, wrapped: bool) -> np.ndarray:
        """Numbers of lines of spans with a wrap, or without."""
        return np.flatnonzero(np.array(self.wrapped, bool) == wrapped)

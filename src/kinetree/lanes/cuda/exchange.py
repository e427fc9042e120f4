"""Two threads for one lane: each works for its own side, and they exchange values (program/fold.py)."""

from collections.abc import Sequence
from typing import Any

from ..program.fold import OWN, Fold, places_of
from ..program.program import Lane, Slots, number_in
from ..program.sequence import Run, Sequenced
from .masks import ValueWriter
from .ptx import Assembly, global_thread


def threads_of_lane(assembly: Assembly) -> int:
    """How many threads a kernel has for a lane: 2 if its text has an exchange, as folded programs have."""
    return 2 if "shfl.sync.idx" in assembly.text else 1


class PairWriter(ValueWriter):
    """Values, numbers and columns that differ between the two threads of a lane. Without a fold there is one thread."""

    def __init__(self, sequenced: Sequenced, jaxprs: list[Any], dtype: Any, stored: set[int] | None):
        super().__init__(sequenced, jaxprs, dtype, stored)
        self.fold: Fold | None = sequenced.fold
        self.second = ""  # True if this is the second thread of its lane
        self._here, self._pair = "", ""  # number of this thread in its warp, and a mask of the two

    def begin_threads(self) -> None:
        """Find the lane of this thread, and its side."""
        to = self.to
        self.lane, thread = global_thread(to)
        if self.fold is None:
            return
        self.lane = to.op(f"lshr i64 {self.lane}, 1")
        self._here = to.op(f"and i32 {to.op(f'trunc i64 {thread} to i32')}, 31")
        self.second = to.op(f"trunc i32 {self._here} to i1")
        self._pair = to.op(f"shl i32 3, {to.op(f'and i32 {self._here}, 30')}")

    # -- which side ---------------------------------------------------------------------------------------------------

    def side(self, run: Run, place: Slots) -> int:
        """The side of the slots that a run names. It must be the same for all its turns."""
        sides = self.sides(run, place)
        assert len(set(sides)) == 1
        return sides[0]

    def sides(self, run: Run, place: Slots) -> list[int]:
        """The same, for each turn of a run."""
        if self.fold is None:
            return [OWN] * len(run.turns)
        j = places_of(self.program.loops[run.loop]).index(place)
        return self.fold.sides[run.loop][list(run.turns), j].tolist()

    def both(self, k: int, turn: int) -> tuple[int, int]:
        """The turns of the program that the two threads do."""
        if self.fold is None:
            return turn, turn
        first, second = self.fold.turns[k][turn].tolist()
        return first, second

    def both_columns(self, k: int, turn: int, x: Lane) -> tuple[int, int]:
        """The columns of a lane array that the two threads mean."""
        first, second = (number_in(x, self.known.tables[k][t]) for t in self.both(k, turn))
        return first, second

    # -- between threads ----------------------------------------------------------------------------------------------

    def either(self, kind: str, first: Any, second: Any) -> str:
        """The one of two values that belongs to this thread."""
        same = str(first) == str(second)
        return str(first) if same else self.to.op(f"select i1 {self.second}, {kind} {second}, {kind} {first}")

    def place_in(self, own: str, count: int) -> str:
        """A place in a list that has the numbers of the first thread, then those of the second."""
        return self.to.op(f"add i32 {own}, {self.either('i32', 0, count)}")

    def across(self, values: Sequence[str], side: int | str) -> list[str]:
        """Values of the thread that has this side. `side` is a constant, or a number found at run time."""
        if side == OWN:
            return list(values)
        to = self.to
        first = to.op(f"and i32 {self._here}, 30")
        source = to.op(f"or i32 {first}, {side}") if isinstance(side, int) else self._source(first, side)
        return [self._from(value, source) for value in values]

    def _source(self, first: str, side: str) -> str:
        to = self.to
        own = to.op(f"icmp eq i32 {side}, {OWN}")
        return to.op(f"select i1 {own}, i32 {self._here}, i32 {to.op(f'or i32 {first}, {side}')}")

    def _from(self, value: str, source: str) -> str:
        """A value of another thread, by shuffles of 32 bits."""
        if self.literal(value):
            return value
        to, count = self.to, self.size // 4
        to.declare("i32 @llvm.nvvm.shfl.sync.idx.i32(i32, i32, i32, i32)")
        parts, found = to.op(f"bitcast {to.real} {value} to <{count} x i32>"), "poison"
        for j in range(count):
            part = to.op(f"extractelement <{count} x i32> {parts}, i32 {j}")
            given = f"i32 {self._pair}, i32 {part}, i32 {source}, i32 31"
            part = to.op(f"call i32 @llvm.nvvm.shfl.sync.idx.i32({given})")
            found = to.op(f"insertelement <{count} x i32> {found}, i32 {part}, i32 {j}")
        return to.op(f"bitcast <{count} x i32> {found} to {to.real}")

    def owned(self, new: str, old: str, side: int | str) -> str:
        """The new value if this thread has that side or both have it; else the old value."""
        to = self.to
        if side == OWN:
            return new
        here = to.op(f"and i32 {self._here}, 1")
        mine = to.op(f"icmp eq i32 {here}, {side}")
        if isinstance(side, str):
            mine = to.op(f"or i1 {mine}, {to.op(f'icmp eq i32 {side}, {OWN}')}")
        return to.op(f"select i1 {mine}, {to.real} {new}, {to.real} {old}")

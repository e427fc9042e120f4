"""The turns of a run that a lane does, one after the other: all of them, the bits of a mask, or those on a list."""

from dataclasses import dataclass
from typing import Any

from ..llvm.text import Text


@dataclass(frozen=True)
class CountedTurns:
    """All turns of a run, or none."""

    count: str
    kind: str = "i32"  # of the numbers that say where a lane is

    def first(self, to: Text) -> list[str]:
        """The numbers before the first turn. There is a turn if `count` is not 0."""
        return ["0"]

    def number(self, to: Text, at: list[str]) -> str:
        """The number of the turn within the run."""
        return at[0]

    def next(self, to: Text, at: list[str]) -> tuple[list[str], str]:
        """The numbers of the next turn, and whether there is one."""
        more = to.op(f"add i32 {at[0]}, 1")
        return [more], to.op(f"icmp slt i32 {more}, {self.count}")


@dataclass(frozen=True)
class MaskedTurns(CountedTurns):
    """The turns whose bits are set; `count` is the mask."""

    def first(self, to: Text) -> list[str]:
        """The whole mask."""
        return [self.count]

    def number(self, to: Text, at: list[str]) -> str:
        """The number of the lowest bit."""
        to.declare(f"{self.kind} @llvm.cttz.{self.kind}({self.kind}, i1)")
        bit = to.op(f"call {self.kind} @llvm.cttz.{self.kind}({self.kind} {at[0]}, i1 true)")
        return bit if self.kind == "i32" else to.op(f"trunc i64 {bit} to i32")

    def next(self, to: Text, at: list[str]) -> tuple[list[str], str]:
        """The mask without that bit."""
        left = to.op(f"and {self.kind} {at[0]}, {to.op(f'sub {self.kind} {at[0]}, 1')}")
        return [left], to.op(f"icmp ne {self.kind} {left}, 0")


@dataclass(frozen=True)
class ListedTurns(CountedTurns):
    """The turns on a list, from the last to the first. If there is an `end`, numbers count from the end of the run."""

    numbers: str = ""
    end: int = 0  # how many turns the run has

    def number(self, to: Text, at: list[str]) -> str:
        """From the list."""
        if not self.end:
            return self._entry(to, at[0])
        last = to.op(f"sub i32 {self.count}, 1")
        return to.op(f"sub i32 {self.end - 1}, {self._entry(to, to.op(f'sub i32 {last}, {at[0]}'))}")

    def _entry(self, to: Text, place: str) -> str:
        return to.op(f"load i32, ptr {to.op(f'getelementptr i32, ptr {self.numbers}, i32 {place}')}")


@dataclass(frozen=True)
class StretchedTurns(ListedTurns):
    """Stretches of turns, whose numbers are on a list. `begins` has the first turn of each stretch, and the end."""

    begins: Any = None  # a function: from the number of a stretch to its first turn

    def first(self, to: Text) -> list[str]:
        """A place on the list, and a turn."""
        return ["0", self.begins(self._entry(to, "0"))]

    def number(self, to: Text, at: list[str]) -> str:
        """The second number."""
        return at[1]

    def next(self, to: Text, at: list[str]) -> tuple[list[str], str]:
        """The next turn, or the first of the next stretch."""
        turn = to.op(f"add i32 {at[1]}, 1")
        after = self.begins(to.op(f"add i32 {self._entry(to, at[0])}, 1"))
        ended = to.op(f"icmp eq i32 {turn}, {after}")
        place = to.op(f"add i32 {at[0]}, {to.op(f'zext i1 {ended} to i32')}")
        more = to.op(f"icmp slt i32 {place}, {self.count}")
        there = self.begins(self._entry(to, to.op(f"select i1 {more}, i32 {place}, i32 0")))
        return [place, to.op(f"select i1 {ended}, i32 {there}, i32 {turn}")], more

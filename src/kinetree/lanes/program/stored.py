"""Which writes of a written-out text must be stored: those to slots that are later read from memory."""

from collections.abc import Callable
from typing import Any

NONE: frozenset[int] = frozenset()


class Events:
    """Reads and writes of slots in memory, in order. They tell which of the numbered writes are read."""

    def __init__(self) -> None:
        self.writes = 0
        self._now: list[Any] = []

    def write(self, slot: int, certain: bool) -> int:
        """Note a write; return its number. A write that is not certain may be left out at run time."""
        self._now.append((slot, self.writes, certain))
        self.writes += 1
        return self.writes - 1

    def read(self, slot: int) -> None:
        """Note a read of a slot."""
        self._now.append((slot, None, True))

    def cycle(self, within: Callable[[], None]) -> None:
        """Note the events of a repeat."""
        before, self._now = self._now, []
        within()
        self._now = [*before, self._now]

    def needed(self) -> set[int]:
        """The numbers of writes that are read."""
        found: set[int] = set()
        _follow(self._now, {}, found)
        return found


def _follow(events: list[Any], reaching: dict[int, frozenset[int]], found: set[int]) -> dict[int, frozenset[int]]:
    """For each slot, the writes that may have made its value, after some events."""
    for event in events:
        if isinstance(event, list):  # a repeat: done never, once, or more often
            for _ in range(2):
                after = _follow(event, dict(reaching), found)
                reaching = {i: reaching.get(i, NONE) | after.get(i, NONE) for i in reaching.keys() | after.keys()}
            continue
        slot, number, certain = event
        if number is None:
            found |= reaching.get(slot, NONE)
        else:
            reaching[slot] = frozenset((number,)) | (NONE if certain else reaching.get(slot, NONE))
    return reaching

"""What of a text that is written out must be stored: the writes to slots in memory that somebody reads there."""

from collections.abc import Callable
from typing import Any

NONE: frozenset[int] = frozenset()


class Events:
    """What happens to slots in memory, in order: which of the numbered writes does somebody read?"""

    def __init__(self) -> None:
        self.writes = 0
        self._now: list[Any] = []

    def write(self, slot: int, certain: bool) -> int:
        """The number of a write; one that is not certain may be left out at run time."""
        self._now.append((slot, self.writes, certain))
        self.writes += 1
        return self.writes - 1

    def read(self, slot: int) -> None:
        """Somebody looks a slot up."""
        self._now.append((slot, None, True))

    def cycle(self, within: Callable[[], None]) -> None:
        """What happens within a repeat."""
        before, self._now = self._now, []
        within()
        self._now = [*before, self._now]

    def needed(self) -> set[int]:
        """The numbers of writes that are read."""
        found: set[int] = set()
        _follow(self._now, {}, found)
        return found


def _follow(events: list[Any], reaching: dict[int, frozenset[int]], found: set[int]) -> dict[int, frozenset[int]]:
    """The writes that may have made what slots hold, after some events."""
    for event in events:
        if isinstance(event, list):  # It is done no time, once, or again.
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

"""The pairs of shapes of a plan: as arrays, and by the loops that collide them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from kinetree.model.world import Pair


class PairFacts(NamedTuple):
    """Pairs as arrays (pairs,)."""

    first: np.ndarray
    second: np.ndarray
    moving: np.ndarray  # as in `Pair`
    condim: np.ndarray

    @staticmethod
    def of(pairs: Sequence[Pair]) -> "PairFacts":
        """Those of some pairs."""
        return PairFacts(*(np.array([p[k] for p in pairs], np.int64) for k in range(4)))


class PairLoop(NamedTuple):
    """Pairs of shapes that one loop collides: they agree in both kinds, and in which of the two moves."""

    kinds: tuple[str, str]
    moving: int
    pairs: tuple[int, ...]


def loops_of_pairs(pairs: Sequence[Pair], kinds: Callable[[Pair], tuple[str, str]]) -> list[PairLoop]:
    """The loops that collide some pairs; `kinds` tells those of the two shapes of a pair."""
    groups: dict[tuple[tuple[str, str], int], list[int]] = {}
    for number, pair in enumerate(pairs):
        groups.setdefault((kinds(pair), pair.moving), []).append(number)
    return [PairLoop(kinds, moving, tuple(members)) for (kinds, moving), members in groups.items()]

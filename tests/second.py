"""Tests of which a few are enough at each run; the others are second opinions, for `-m thorough`."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import pytest


def second(*values: Any) -> Any:
    """A set of parameters that only the thorough run takes."""
    return pytest.param(*values, marks=pytest.mark.thorough)


def few(names: Any, values: Iterable[Any], chosen: Sequence[Any], **more: Any) -> Any:
    """A test for each of the values; each run takes those that are chosen."""
    values = list(values)
    assert all(c in values for c in chosen), "what is chosen is among the values"
    several = not isinstance(names, str)
    others = {k: second(*v) if several else second(v) for k, v in enumerate(values) if v not in chosen}
    return pytest.mark.parametrize(names, [others.get(k, v) for k, v in enumerate(values)], **more)


def in_turn(names: Any, first: Iterable[Any], others: Sequence[Any], turn: int = 0, **more: Any) -> Any:
    """A test for each combination; each run takes every one of the first once, with the others in turn."""
    pairs = product(enumerate(first, turn), enumerate(others))
    values = [(x, y) if k % len(others) == j else second(x, y) for (k, x), (j, y) in pairs]
    return pytest.mark.parametrize(names, values, **more)

"""A loop of the native body, the table of its turns for a plan, and its constants for a model."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from kinetree._arrays import library
from kinetree.lanes import Body, Loop, Repeat
from kinetree.model import Model

from .plan import Plan
from .tables import table

__all__ = ["Again", "Known", "Part", "Parts", "body_of", "flat", "no_constants", "once", "stacked", "table"]


class Known(NamedTuple):
    """Values that constants depend on, beside the model."""

    dtype: Any
    h: Any  # the time step


class WithPool(NamedTuple):
    """Constants of a loop that looks up more than its turns name: a tree of arrays (turns,), and all other numbers."""

    values: Any
    pool: Any


def no_constants(model: Model, plan: Plan, known: Known) -> tuple:
    """For steps that need none."""
    return ()


class Part(NamedTuple):
    """A loop, with the functions that bind it to a model."""

    loop: Loop
    table: Callable[[Plan], np.ndarray]  # (turns, columns)
    constants: Callable[[Model, Plan, Known], Any] = no_constants  # a tree of arrays (turns,)


class Again(NamedTuple):
    """Parts that each lane repeats while a slot is not 0; `uniform` if all do so equally often."""

    parts: "Parts"
    going: int
    most: int
    uniform: bool = False


Parts = Sequence[Part | Again]


def body_of(parts: Parts) -> Body:
    """The loops of parts, in the form of a program."""

    def one(part: Part | Again) -> Loop | Repeat:
        if isinstance(part, Again):
            return Repeat(body_of(part.parts), part.going, part.most, part.uniform)
        return part.loop

    return tuple(map(one, parts))


def flat(parts: Parts) -> list[Part]:
    """All parts, in the order of their loops."""
    found: list[Part] = []
    for part in parts:
        if isinstance(part, Again):
            found += flat(part.parts)
        else:
            found.append(part)
    return found


def once(plan: Plan) -> np.ndarray:
    """One turn, without columns."""
    return np.zeros((1, 0), np.int32)


def stacked(turns: int, values: Any, dtype: Any) -> Any:
    """Constants (turns, count) from a tree of arrays (turns,), or of single numbers; the rows of a pool follow."""
    if isinstance(values, WithPool):
        rows = stacked(turns, values.values, dtype)
        more = np.zeros(-len(values.pool) % rows.shape[1], dtype)
        xp = library(values.pool, rows)
        pool = xp.concatenate([xp.asarray(values.pool, dtype), more])
        return xp.concatenate([rows, pool.reshape(-1, rows.shape[1])])
    leaves = jax.tree.leaves(values)
    xp = library(leaves)
    if not leaves:
        return np.zeros((turns, 0), dtype)
    return xp.stack([xp.broadcast_to(xp.asarray(x, dtype), (turns,)) for x in leaves], -1)

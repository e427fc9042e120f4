"""A loop of the native body, the table of its turns for a plan, and its constants for a model."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from kinetree._arrays import library
from kinetree.lanes import NOTHING, Body, Lane, Loop, Repeat, Slots
from kinetree.model import Model

from .plan import Plan
from .tables import table as table


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


def _columns(*places: Slots | Lane | None) -> int:
    """How many columns a table needs to name these places."""
    return 1 + max((p.column for p in places if p is not None and p.column is not None), default=-1)


def fill(turns: Callable[[Any], np.ndarray], *slots: Slots, values: tuple | None = None, **options: Any) -> Part:
    """Sets slots to known values, or to zero. `options` are those of a `Loop`."""
    made = tuple(jax.tree.unflatten(s.tree, [0.0] * s.count) for s in slots) if values is None else values
    columns = options.pop("columns", _columns(*slots, options.get("when")))
    return Part(Loop(lambda *_: (made, (), ()), columns, NOTHING, writes=slots, **options), turns)


def copy(turns: Callable[[Any], np.ndarray], **places: Any) -> Part:
    """Puts what it reads, or gets as inputs, into slots, adds it to slots, or puts it out.

    `places` are `reads` or `inputs`; `writes`, `adds` or `outputs`; and options of a `Loop`.
    """
    to = [name in places for name in ("writes", "adds", "outputs")]

    def step(_: tuple, inputs: tuple, reads: tuple) -> tuple:
        return tuple((*inputs, *reads) if chosen else () for chosen in to)

    named = [p for x in ("reads", "inputs", "writes", "adds", "outputs") for p in places.get(x, ())]
    columns = places.pop("columns", _columns(*named, places.get("when")))
    return Part(Loop(step, columns, NOTHING, **places), turns)


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

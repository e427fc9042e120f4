"""A loop of the native body, the table of its turns for a plan, and its constants for a model."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.tree_util import PyTreeDef

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


class Added(NamedTuple):
    """Slots to which turns add, where others are written."""

    slots: Slots


def added(*slots: Slots) -> tuple[Added, ...]:
    """Slots to which turns add."""
    return tuple(map(Added, slots))


def part(
    turns: Callable[[Any], np.ndarray],
    compute: Callable[..., tuple],
    seen: Sequence[Slots | Lane],
    made: Sequence[Slots | Added | Lane],
    known: tuple[Any, Callable[..., Any]] | None = None,
    *,
    columns: int | None = None,
    **options: Any,
) -> Part:
    """A loop that computes what it makes from what it sees.

    Arguments:
        turns: its table for a plan.
        compute: one turn: from the constants, if there are any, and all that is seen to all that is made.
        seen: inputs, then slots that are read.
        made: slots that are written, then those that are added to, then outputs.
        known: an example of the constants of a turn (or its structure), and the function that gives them for a model.
        columns: how many the table has, if more than these places name.
        options: of a `Loop`.
    """
    written, changed = sum(isinstance(x, Slots) for x in made), sum(not isinstance(x, Lane) for x in made)
    example, *constants = known or (NOTHING,)
    own = example if isinstance(example, PyTreeDef) else jax.tree.structure(example)
    first = known is not None

    def step(constants: Any, inputs: tuple, reads: tuple) -> tuple:
        found = compute(*((constants,) if first else ()), *inputs, *reads)
        return found[:written], found[written:changed], found[changed:]

    places = {
        "inputs": tuple(x for x in seen if isinstance(x, Lane)),
        "reads": tuple(x for x in seen if isinstance(x, Slots)),
        "writes": tuple(x for x in made if isinstance(x, Slots)),
        "adds": tuple(x.slots for x in made if isinstance(x, Added)),
        "outputs": tuple(x for x in made if isinstance(x, Lane)),
    }
    named = [p.column for group in places.values() for p in group] + [getattr(options.get("when"), "column", None)]
    width = 1 + max((c for c in named if c is not None), default=-1) if columns is None else columns
    return Part(Loop(step, width, own, **places, **options), turns, *constants)


def fill(turns: Callable[[Any], np.ndarray], *slots: Slots, values: tuple | None = None, **options: Any) -> Part:
    """Sets slots to known values, or to zero. `options` are those of `part`."""
    made = tuple(jax.tree.unflatten(s.tree, [0.0] * s.count) for s in slots) if values is None else values
    return part(turns, lambda: made, (), slots, **options)


def copy(turns: Callable[[Any], np.ndarray], seen: Sequence[Slots | Lane], made: Sequence[Any], **options: Any) -> Part:
    """Puts what it sees where it is made, one after the other; several times, if there are more places."""
    times = len(made) // len(seen)
    return part(turns, lambda *given: given * times, seen, made, **options)


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

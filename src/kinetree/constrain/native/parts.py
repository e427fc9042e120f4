"""A loop of the native body, the table of its turns for a plan, and its constants for a model."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.lanes import Body, Braid, Loop, Repeat
from kinetree.model import Model

from .plan import Plan
from .tables import table

__all__ = ["Again", "Known", "Part", "Parts", "body_of", "flat", "no_constants", "once", "stacked", "table"]


class Known(NamedTuple):
    """What constants depend on beside the model."""

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
    """A loop with what binds it to a model."""

    loop: Loop | Braid
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
    """The loops of parts, as a program wants them."""

    def one(part: Part | Again) -> Loop | Braid | Repeat:
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
        library = np if isinstance(values.pool, np.ndarray) and isinstance(rows, np.ndarray) else jnp
        pool = library.concatenate([library.asarray(values.pool, dtype), more])
        return library.concatenate([rows, pool.reshape(-1, rows.shape[1])])
    leaves = jax.tree.leaves(values)
    library = jnp if any(isinstance(x, jax.Array) for x in leaves) else np
    if not leaves:
        return np.zeros((turns, 0), dtype)
    return library.stack([library.broadcast_to(library.asarray(x, dtype), (turns,)) for x in leaves], -1)


def listed(part: Part, name: Any) -> Part:
    """The part, whose turns that act were listed under a name of the plan's."""
    return _on_list(part, name, part.loop, listed=part.loop.columns)


def listing(part: Part, name: Any) -> Part:
    """Makes the list of the turns of a part that act."""
    assert isinstance(part.loop, Loop)
    loop = Loop(lambda *_: ((), (), ()), part.loop.columns, jax.tree.structure(()), when=part.loop.when)
    return _on_list(part._replace(constants=no_constants), name, loop, lists=part.loop.columns)


def _on_list(part: Part, name: Any, loop: Any, **column: int) -> Part:
    def whole(plan: Plan) -> np.ndarray:
        own = part.table(plan)
        return np.concatenate([own, np.full((len(own), 1), plan.list_of(name), np.int32)], 1)

    return Part(dataclasses.replace(loop, columns=loop.columns + 1, **column), whole, part.constants)


class Strand(NamedTuple):
    """A loop of a braid, and the rows of the tree that its turns belong to."""

    part: Part
    rows: Callable[[Plan], np.ndarray]


def braided(carried: Any, strands: Sequence[Strand], outward: bool) -> Part:
    """Strands along the tree: row after row, from the bases on or towards them; at a row in the order of the strands.

    `carried` is an example of what goes from turn to turn.
    """

    def order(plan: Plan) -> np.ndarray:
        """Of the turns of all strands, one strand after the other."""
        rows = [np.asarray(s.rows(plan), np.int64) for s in strands]
        member = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
        place = plan.place[np.concatenate(rows)]
        return np.lexsort((np.arange(len(place)), member, place if outward else -place))

    def whole(plan: Plan) -> np.ndarray:
        tables = [s.part.table(plan) for s in strands]
        wide = np.zeros((sum(map(len, tables)), loop.columns), np.int32)
        first = 0
        for k, own in enumerate(tables):
            wide[first : first + len(own), 0] = k
            wide[first : first + len(own), 1 : 1 + own.shape[1]] = own
            first += len(own)
        return wide[order(plan)]

    def constants(model: Model, plan: Plan, known: Known) -> tuple:
        count = loop.constants.num_leaves
        blocks = []
        for s in strands:
            own = stacked(len(s.part.table(plan)), s.part.constants(model, plan, known), known.dtype)
            library = jnp if isinstance(own, jax.Array) else np
            blocks.append(library.pad(own, ((0, 0), (0, count - own.shape[1]))))
        library = jnp if any(isinstance(b, jax.Array) for b in blocks) else np
        every = library.concatenate(blocks)[order(plan)]
        return tuple(every[:, k] for k in range(count))

    loops = tuple(s.part.loop for s in strands)
    assert all(isinstance(x, Loop) for x in loops)
    loop = Braid(tuple(x for x in loops if isinstance(x, Loop)), jax.tree.structure(carried))
    return Part(loop, whole, constants)

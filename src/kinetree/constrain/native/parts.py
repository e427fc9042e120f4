"""A loop of the native body, the table of its turns for a plan, and its constants for a model."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.lanes import Body, Braid, Loop, Repeat
from kinetree.lanes.target import facts
from kinetree.model import Model

from .plan import Plan


class Known(NamedTuple):
    """What constants depend on beside the model."""

    dtype: Any
    h: Any  # the time step


def no_constants(model: Model, plan: Plan, known: Known) -> tuple:
    """For steps that need none."""
    return ()


class Part(NamedTuple):
    """A loop with what binds it to a model."""

    loop: Loop
    table: Callable[[Plan], np.ndarray]  # (turns, columns)
    constants: Callable[[Model, Plan, Known], Any] = no_constants  # a tree of arrays (turns,)


class Braided(NamedTuple):
    """Parts whose turns may be done in another order: pairs of the number of a part, and of its turn.

    The order keeps what follows each other close in memory, which is for devices whose lanes wait for memory. Others
    do one part after the other. What is added to a slot is added in the same order, except to sums over all rows.
    """

    parts: list[Part]
    order: Callable[[Plan], list[tuple[int, int]]]

    def table(self, plan: Plan) -> np.ndarray:
        """Rows of the number of a part, a first turn, and how many turns."""
        if not facts().weaves:
            return np.array([(k, 0, len(p.table(plan))) for k, p in enumerate(self.parts)], np.int32)
        runs: list[list[int]] = []
        for which, turn in self.order(plan):
            if runs and runs[-1][0] == which and runs[-1][1] + runs[-1][2] == turn:
                runs[-1][2] += 1
            else:
                runs.append([which, turn, 1])
        return np.array(runs, np.int32).reshape(-1, 3)


class Again(NamedTuple):
    """Parts that each lane repeats while a slot is not 0; `uniform` if all do so equally often."""

    parts: "Parts"
    going: int
    most: int
    uniform: bool = False


Parts = Sequence[Part | Braided | Again]


def body_of(parts: Parts) -> Body:
    """The loops of parts, as a program wants them."""

    def one(part: Part | Braided | Again) -> Loop | Braid | Repeat:
        if isinstance(part, Again):
            return Repeat(body_of(part.parts), part.going, part.most, part.uniform)
        return _braid(part) if isinstance(part, Braided) else part.loop

    return tuple(map(one, parts))


def _braid(part: Braided) -> Braid:
    return Braid(tuple(p.loop for p in part.parts))


def flat(parts: Parts) -> list[Part]:
    """All parts, in the order of their loops; before those of a braid its order."""
    found: list[Part] = []
    for part in parts:
        if isinstance(part, Again):
            found += flat(part.parts)
        elif isinstance(part, Braided):
            found += [Part(_braid(part).order, part.table), *part.parts]
        else:
            found.append(part)
    return found


def table(*columns: Any) -> np.ndarray:
    """Columns side by side."""
    wide = np.broadcast_arrays(*(np.atleast_1d(np.asarray(c, np.int64)) for c in columns))
    return np.ascontiguousarray(np.stack(wide, -1).astype(np.int32))


def once(plan: Plan) -> np.ndarray:
    """One turn, without columns."""
    return np.zeros((1, 0), np.int32)


def stacked(turns: int, values: Any, dtype: Any) -> Any:
    """Constants (turns, count) from a tree of arrays (turns,), or of single numbers."""
    leaves = jax.tree.leaves(values)
    library = jnp if any(isinstance(x, jax.Array) for x in leaves) else np
    if not leaves:
        return np.zeros((turns, 0), dtype)
    return library.stack([library.broadcast_to(library.asarray(x, dtype), (turns,)) for x in leaves], -1)

"""Constants that differ from lane to lane: the same program, with the constants of some loops as lane arrays.

So models with the same tree but different numbers, such as worlds with different masses, run side by side. A program
that is written out keeps the constants that all lanes share.
"""

import dataclasses
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .program import NOTHING, Body, Lane, Loop, Program, Repeat, Straight


@lru_cache
def with_own_constants(program: Program, own: tuple[bool, ...]) -> Program:
    """The program with the constants of some loops, those in `own`, in lane arrays after its inputs.

    Each of these loops has one such array: turn after turn, (lanes, turns · constants). Pools stay shared.
    """
    numbers = iter(range(len(own)))
    arrays = iter(range(program.n_inputs, program.n_inputs + sum(own)))

    def changed(loop: Loop) -> Loop:
        return _own(loop, next(arrays)) if own[next(numbers)] else loop

    def mapped(body: Body) -> Body:
        parts: list[Any] = []
        for part in body:
            if isinstance(part, Repeat):
                parts.append(dataclasses.replace(part, body=mapped(part.body)))
            else:
                parts.append(changed(part))
        return tuple(parts)

    name = f"{program.name}_own{''.join(str(int(x)) for x in own)}"
    inputs = program.n_inputs + sum(own)
    whole = Program(name, mapped(program.body), inputs, program.n_outputs, program.reversible)
    known = program.straight
    if known is None:
        return whole
    known = _own_straight(known, program, own)
    return dataclasses.replace(whole, name=f"{name}_{known.digest}", straight=known)


def _own_straight(known: Straight, program: Program, own: tuple[bool, ...]) -> Straight:
    counts = [loop.constants.num_leaves for loop in program.loops]
    tables = tuple(own_table(t, n) if mine else t for t, n, mine in zip(known.tables, counts, own, strict=True))
    wide = tuple(len(t) * n for t, n, mine in zip(known.tables, counts, own, strict=True) if mine)
    widths = *known.widths[: program.n_inputs], *wide, *known.widths[program.n_inputs :]
    constants = known.constants
    if constants is not None:
        constants = tuple(None if mine else x for x, mine in zip(constants, own, strict=True))
    return dataclasses.replace(known, tables=tables, widths=widths, constants=constants, by_columns=sum(own))


def _own(loop: Loop, array: int) -> Loop:
    count, given = loop.constants.num_leaves, len(loop.inputs)

    def step(known: Any, inputs: tuple, reads: tuple) -> tuple:
        own = jax.tree.unflatten(loop.constants, inputs[given:])
        return loop.step((own, known[1]) if loop.pool else own, inputs[:given], reads)

    found = tuple(Lane(array, loop.columns, k) for k in range(count))
    return dataclasses.replace(
        loop, step=step, columns=loop.columns + 1, constants=NOTHING, inputs=(*loop.inputs, *found)
    )


def own_table(table: Any, count: int) -> Any:
    """The table of such a loop. Its last column is the first constant of each turn."""
    library: Any = np if isinstance(table, np.ndarray) else jnp
    turns = library.arange(table.shape[0], dtype=table.dtype)[:, None]
    return library.concatenate([table, count * turns], 1)

"""The XLA body of the lane machine: runs everywhere, under every JAX transformation. The reference for the native
ones.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from kinetree._varying import scan, while_loop

from .program import Body, Lane, Loop, Program, Repeat, Slots, flattened


def _unflatten(slots: Slots, values: Any) -> Any:
    return jax.tree.unflatten(slots.tree, list(values))


def _both(mask: Any, other: Any) -> Any:
    return other if mask is None else mask & other


def _turn(loop: Loop, pool: Any, inputs: tuple, mask: Any, carry: tuple, turn: tuple) -> tuple[tuple, None]:
    """One turn, for the lanes in `mask`; None means all."""
    memory, outputs = carry
    row, constants = turn
    lanes = memory.shape[1]

    def first(place: Slots | Lane) -> Any:
        return jnp.asarray(place.offset, row.dtype) + (0 if place.column is None else row[place.column])

    def numbers(slots: Slots) -> Any:
        return first(slots) + jnp.arange(slots.count, dtype=row.dtype)

    def read(slots: Slots) -> Any:
        # a gather, though the slots are consecutive: with a slice XLA would copy the whole memory at every turn
        return memory.at[numbers(slots)].get(mode="promise_in_bounds")

    if loop.when is not None:
        mask = _both(mask, read(loop.when)[0] != 0)
    given = tuple(lax.dynamic_index_in_dim(inputs[x.array], first(x), 0, keepdims=False) for x in loop.inputs)
    # every scalar a step sees has the shape of the lanes, whether it is lane data or a constant
    known = jax.tree.unflatten(
        loop.constants, [jnp.broadcast_to(c, (lanes,)) for c in constants[: loop.constants.num_leaves]]
    )
    seen = tuple(_unflatten(s, read(s)) for s in loop.reads)
    if loop.pool:  # a step that each lane does by itself
        writes, adds, results = jax.vmap(lambda c, *x: loop.step((c, pool), *x))(known, given, seen)
    else:
        writes, adds, results = loop.step(known, given, seen)

    def block(values: Any) -> Any:
        return jnp.stack([jnp.broadcast_to(v, (lanes,)).astype(memory.dtype) for v in jax.tree.leaves(values)])

    changed = [block(value) for value in writes]
    changed += [block(value) + read(slots) for slots, value in zip(loop.adds, adds, strict=True)]
    if changed:  # all in one scatter, for the same reason
        where = jnp.concatenate([numbers(slots) for slots in (*loop.writes, *loop.adds)])
        values = jnp.concatenate(changed)
        if mask is not None:
            values = jnp.where(mask, values, memory.at[where].get(mode="promise_in_bounds"))
        memory = memory.at[where].set(values, mode="promise_in_bounds", unique_indices=True)
    outputs = list(outputs)
    for x, value in zip(loop.outputs, results, strict=True):
        value = jnp.broadcast_to(value, (1, lanes)).astype(memory.dtype)
        if mask is not None:
            value = jnp.where(mask, value, lax.dynamic_slice_in_dim(outputs[x.array], first(x), 1, 0))
        outputs[x.array] = lax.dynamic_update_slice_in_dim(outputs[x.array], value, first(x), 0)
    return (memory, tuple(outputs)), None


def _all_turns(body: Body, tables: list, constants: list, inputs: tuple, mask: Any, carry: tuple) -> tuple:
    """Loops and repeats in order, for the lanes in `mask`. Removes their tables and constants from the lists."""
    for part in body:
        if isinstance(part, Repeat):
            count = len(list(flattened(part.body)))
            own_tables, own_constants = ([given.pop(0) for _ in range(count)] for given in (tables, constants))
            carry = _repeat(part, own_tables, own_constants, inputs, mask, carry)
            continue
        table, values = tables.pop(0), constants.pop(0)
        if table.shape[0]:
            turn = partial(_turn, part, values.reshape(-1), inputs, mask)
            carry, _ = scan(turn, carry, (table, values[: table.shape[0]]))
    return carry


def _repeat(part: Repeat, tables: list, constants: list, inputs: tuple, mask: Any, carry: tuple) -> tuple:
    def going(carry: tuple) -> Any:
        return _both(mask, carry[0][part.going] != 0)

    def again(state: tuple) -> Any:
        times, carry = state
        return (times < part.most) & going(carry).any()

    def once(state: tuple) -> tuple:
        times, carry = state
        inside = mask if part.uniform else going(carry)
        return times + 1, _all_turns(part.body, list(tables), list(constants), inputs, inside, carry)

    return while_loop(again, once, (jnp.int32(0), carry))[1]


@partial(jax.jit, static_argnums=(0, 1, 2))
def run(
    program: Program, slots: int, output_widths: tuple[int, ...], tables: tuple, constants: tuple, inputs: tuple
) -> tuple:
    """Outputs (lanes, width) of a program on inputs (lanes, width).

    For each loop there is a table, (turns, columns) of int32, and an array of constants, (turns, count).
    """
    dtype = jnp.result_type(*inputs)
    lanes = inputs[0].shape[0]
    by_column = tuple(x.T for x in inputs)
    carry = (jnp.zeros((slots, lanes), dtype), tuple(jnp.zeros((w, lanes), dtype) for w in output_widths))
    if not len(tables) == len(constants) == len(program.loops):
        raise ValueError(f"{program.name} has {len(program.loops)} loops, and as many tables and constants it takes")
    known = [jnp.asarray(t) for t in tables], [jnp.asarray(c, dtype) for c in constants]
    return tuple(x.T for x in _all_turns(program.body, *known, by_column, None, carry)[1])

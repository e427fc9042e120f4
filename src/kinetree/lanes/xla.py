"""The XLA body of the lane machine: runs everywhere, under every JAX transformation. The reference for the native
ones.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .program import Loop, Program, Slots


def _unflatten(slots: Slots, values: Any) -> Any:
    return jax.tree.unflatten(slots.tree, list(values))


def _turn(loop: Loop, inputs: tuple, carry: tuple, turn: tuple) -> tuple[tuple, None]:
    memory, outputs = carry
    row, constants = turn
    lanes = memory.shape[1]

    def numbers(slots: Slots) -> Any:
        return row[slots.column] + slots.offset + jnp.arange(slots.count, dtype=row.dtype)

    def read(slots: Slots) -> Any:
        # a gather, though the slots are consecutive: with a slice XLA would copy the whole memory at every turn
        return memory.at[numbers(slots)].get(mode="promise_in_bounds")

    given = tuple(
        lax.dynamic_index_in_dim(inputs[x.array], row[x.column] + x.offset, 0, keepdims=False) for x in loop.inputs
    )
    # every scalar a step sees has the shape of the lanes, whether it is lane data or a constant
    known = jax.tree.unflatten(loop.constants, [jnp.broadcast_to(c, (lanes,)) for c in constants])
    writes, adds, results = loop.step(known, given, tuple(_unflatten(s, read(s)) for s in loop.reads))

    def block(values: Any) -> Any:
        return jnp.stack([jnp.broadcast_to(v, (lanes,)).astype(memory.dtype) for v in jax.tree.leaves(values)])

    changed = [block(value) for value in writes]
    changed += [block(value) + read(slots) for slots, value in zip(loop.adds, adds, strict=True)]
    if changed:  # all in one scatter, for the same reason
        where = jnp.concatenate([numbers(slots) for slots in (*loop.writes, *loop.adds)])
        memory = memory.at[where].set(jnp.concatenate(changed), mode="promise_in_bounds", unique_indices=True)
    outputs = list(outputs)
    for x, value in zip(loop.outputs, results, strict=True):
        value = jnp.broadcast_to(value, (1, lanes)).astype(memory.dtype)
        outputs[x.array] = lax.dynamic_update_slice_in_dim(outputs[x.array], value, row[x.column] + x.offset, 0)
    return (memory, tuple(outputs)), None


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
    for loop, table, values in zip(program.loops, tables, constants, strict=True):
        step = partial(_turn, loop, by_column)
        if table.shape[0]:
            carry, _ = lax.scan(step, carry, (jnp.asarray(table), jnp.asarray(values, dtype)))
    return tuple(x.T for x in carry[1])

"""Work on the few lanes that need it: they are put side by side in blocks, and the other lanes are skipped."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from kinetree.tree import pick

MIN_BLOCK = 32  # lanes of a block; smaller blocks take as long, because the turns of loops take the time
MAX_BLOCKS = 8  # blocks, done one after the other, where all lanes are wanted


def compacted(function: Callable[..., Any], wanted: Any, *lanes: Any) -> Any:
    """`function` of every lane that is wanted, mapped; zeros in the others.

    Arguments:
        function: of one lane; it returns a tree of arrays.
        wanted: (n,), of bool.
        lanes: trees of arrays (n, ...).
    """
    n = wanted.shape[0]
    block = max(MIN_BLOCK, -(-n // MAX_BLOCKS))
    count = jnp.sum(wanted, dtype=jnp.int32)
    number = jnp.arange(n, dtype=jnp.int32)
    place = jnp.where(wanted, jnp.cumsum(wanted, dtype=jnp.int32) - 1, n + block)
    order = jnp.full(n + block, n, jnp.int32).at[place].set(number, mode="drop")  # n means no point: it is not written
    like = jax.eval_shape(jax.vmap(function), *lanes)
    empty = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), like)

    def turn(state: tuple[Any, Any]) -> tuple[Any, Any]:
        start, found = state
        at = jax.lax.dynamic_slice(order, (start,), (block,))
        read = jnp.minimum(at, n - 1)
        made = jax.vmap(function)(*pick(lanes, read))
        return start + block, jax.tree.map(lambda x, y: x.at[at].set(y, mode="drop"), found, made)

    start = jnp.zeros((), jnp.int32)
    return jax.lax.while_loop(lambda s: s[0] < count, turn, (start, empty))[1]

"""Loops whose reverse-mode derivative needs little memory: `jax.lax.scan` in chunks that are computed twice.

Reverse mode keeps the input of every turn of a loop. A loop of n turns in chunks of √n keeps the start of each chunk
and, while it goes back through one chunk, the starts of its turns: 2 √n in place of n, for one more forward run.
Without derivatives it is a plain loop with the same bits.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from kinetree._varying import scan

MIN_CHUNKED_TURNS = 16  # Below, a plain loop keeps so little that chunks save nothing.


def chunk_length(turns: int) -> int:
    """Turns to a chunk: within a factor of two of √turns, where the last chunk has the fewest turns to spare."""
    if turns < MIN_CHUNKED_TURNS:
        return turns
    root = math.isqrt(turns)
    return min(range((root + 1) // 2, 2 * root + 1), key=lambda size: (-turns % size, abs(size - root)))


def bounded_scan(body: Callable[[Any, Any], tuple[Any, Any]], start: Any, xs: Any, turns: int) -> tuple[Any, Any]:
    """The same as `jax.scan(body, start, xs, turns)`, with about 2 √turns states kept for reverse mode.

    Arguments:
        body: (carry, x) -> (carry, y). What it keeps within a turn is its own: wrap it in `jax.checkpoint` if it is
            large.
        start: the first carry.
        xs: a pytree of (turns, ...) arrays.
        turns: how many.

    Returns:
        The last carry, and all y, (turns, ...).
    """
    size = chunk_length(turns)
    if size == turns:
        return scan(body, start, xs, turns)
    chunks = -(-turns // size)
    spare = chunks * size - turns

    def turn(carry: Any, numbered: Any) -> tuple[Any, Any]:
        number, x = numbered
        if not spare:
            return body(carry, x)
        empty = jax.tree.map(lambda y: jnp.zeros(y.shape, y.dtype), jax.eval_shape(body, carry, x)[1])
        return jax.lax.cond(number < turns, body, lambda carry, _: (carry, empty), carry, x)

    def chunked(x: Any) -> Any:
        filled = jnp.concatenate([x, jnp.broadcast_to(x[-1:], (spare, *x.shape[1:]))]) if spare else x
        return filled.reshape(chunks, size, *x.shape[1:])

    def chunk(carry: Any, xs: Any) -> tuple[Any, Any]:
        return scan(turn, carry, xs, size)

    numbered = jnp.arange(chunks * size).reshape(chunks, size), jax.tree.map(chunked, xs)
    end, ys = scan(jax.checkpoint(chunk, prevent_cse=False), start, numbered, chunks)
    return end, jax.tree.map(lambda y: y.reshape(chunks * size, *y.shape[2:])[:turns], ys)

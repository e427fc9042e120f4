"""Functions to write steps that search: loops of a single lane, and memory that is indexed at run time.

Such steps run in all bodies of the lane machine (llvm/alone.py); XLA maps them over lanes. After `put`, use only the
array that it returns, never the old one: native code changes it in place.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from .record import while_loop

__all__ = ["counted", "get", "once", "put", "room", "while_loop", "whole"]

T = TypeVar("T")
ROW = 4  # numbers that are read together


def room(count: int, like: Any) -> Any:
    """An array of at least two zeros, of the type of a number."""
    return lax.broadcast(jnp.zeros((), jnp.result_type(like)), (count,))


def get(array: Any, index: Any) -> Any:
    """One number of an array; the index must be in it."""
    return lax.dynamic_slice(array, (index,), (1,), allow_negative_indices=False).reshape(())


def row(array: Any, index: Any) -> tuple[Any, ...]:
    """Four numbers of an array that stand side by side, from an index on: hardly dearer than one. All must be in it."""
    four = lax.dynamic_slice(array, (index,), (ROW,), allow_negative_indices=False)
    return tuple(lax.slice_in_dim(four, k, k + 1).reshape(()) for k in range(ROW))


def put(array: Any, index: Any, value: Any) -> Any:
    """The array with one number changed."""
    value = jnp.asarray(value, array.dtype).reshape((1,))
    return lax.dynamic_update_slice(array, value, (index,), allow_negative_indices=False)


def whole(x: Any) -> Any:
    """A real that holds an integer, as an integer."""
    return x.astype(jnp.int32)


def counted(count: Any, body: Callable[[Any, T], T], state: T) -> T:
    """Repeat `state = body(k, state)` for k = 0, 1, ..., times − 1."""
    start = jnp.zeros_like(count)
    return while_loop(lambda s: s[0] < count, lambda s: (s[0] + 1, body(s[0], s[1])), (start, state))[1]


def once(flag: Any, function: Callable[[T], T], state: T) -> T:
    """`function(state)` if a flag is set, else the state. It is skipped if no lane of the block needs it."""

    def body(s: tuple[Any, T]) -> tuple[Any, T]:
        made = jax.tree.map(lambda x, y: jnp.asarray(x, y.dtype), function(s[1]), s[1])
        return jnp.zeros_like(flag), made

    return while_loop(lambda s: s[0], body, (flag, jax.tree.map(jnp.asarray, state)))[1]

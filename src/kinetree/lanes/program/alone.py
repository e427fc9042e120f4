"""How a step is written that a lane does by itself: loops of its own, and memory with places found at run time.

Such steps run in all bodies of the lane machine (llvm/alone.py), and in XLA mapped over lanes. An array that was put
into must not be looked at again, only what `put` returns: native bodies change it in place.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

T = TypeVar("T")


def room(count: int, like: Any) -> Any:
    """An array of zeros, at least two, of the type of a number."""
    return lax.broadcast(jnp.zeros((), jnp.result_type(like)), (count,))


def get(array: Any, index: Any) -> Any:
    """One number of an array; the index must be in it."""
    return lax.dynamic_slice(array, (index,), (1,), allow_negative_indices=False).reshape(())


def put(array: Any, index: Any, value: Any) -> Any:
    """The array with one number changed."""
    value = jnp.asarray(value, array.dtype).reshape((1,))
    return lax.dynamic_update_slice(array, value, (index,), allow_negative_indices=False)


def whole(x: Any) -> Any:
    """A number that stands for an integer, as one."""
    return x.astype(jnp.int32)


def counted(count: Any, body: Callable[[Any, T], T], state: T) -> T:
    """Repeat `state = body(k, state)` for k = 0, 1, ..., times − 1."""
    start = jnp.zeros_like(count)
    return lax.while_loop(lambda s: s[0] < count, lambda s: (s[0] + 1, body(s[0], s[1])), (start, state))[1]


def once(flag: Any, function: Callable[[T], T], state: T) -> T:
    """`function(state)` where a flag is set, the state as it is elsewhere. It is skipped where no lane needs it."""

    def body(s: tuple[Any, T]) -> tuple[Any, T]:
        made = jax.tree.map(lambda x, y: jnp.asarray(x, y.dtype), function(s[1]), s[1])
        return jnp.zeros_like(flag), made

    return lax.while_loop(lambda s: s[0], body, (flag, jax.tree.map(jnp.asarray, state)))[1]

"""Adam (Kingma and Ba 2015), on any pytree."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from kinetree._types import Float, Number, Pytree

FIRST, SECOND, LEAST = 0.9, 0.999, 1e-8  # decay of both moments, and the number added to the divisor
LARGEST_SLOPE = 1.0  # norm of a gradient beyond which it is made shorter


class Adam(NamedTuple):
    """Moments of the gradients so far."""

    count: Float[jax.Array, ""]
    first: Pytree
    second: Pytree


def adam_start(x: Pytree) -> Adam:
    """Before the first gradient."""
    zero = jax.tree.map(jnp.zeros_like, x)
    return Adam(jnp.zeros(()), zero, zero)


def adam_step(
    x: Pytree, adam: Adam, slope: Pytree, rate: Number, largest: float = LARGEST_SLOPE
) -> tuple[Pytree, Adam]:
    """x one step down the slope, and the moments after it."""
    size = jnp.sqrt(sum((g**2).sum() for g in jax.tree.leaves(slope)))
    slope = jax.tree.map(lambda g: g * jnp.minimum(1.0, largest / (size + 1e-12)), slope)
    count = adam.count + 1
    first = jax.tree.map(lambda m, g: FIRST * m + (1 - FIRST) * g, adam.first, slope)
    second = jax.tree.map(lambda v, g: SECOND * v + (1 - SECOND) * g**2, adam.second, slope)
    a, b = 1 - FIRST**count, 1 - SECOND**count
    new = jax.tree.map(lambda p, m, v: p - rate * (m / a) / (jnp.sqrt(v / b) + LEAST), x, first, second)
    return new, Adam(count, first, second)

"""Derivatives of a function of one vector against central differences, in both modes."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def slopes_agree(f: Callable[[Any], Any], x: Any, close: float, together: float) -> None:
    """Along three random directions; `close` to differences, both modes `together`, relative to the largest one."""
    value, slope, h = jax.jit(f), np.asarray(jax.jit(jax.jacrev(f))(x)), 1e-5
    for way in np.random.default_rng(0).standard_normal((3, len(x))):
        differences = (value(x + h * way) - value(x - h * way)) / (2 * h)
        largest = np.abs(differences).max()
        np.testing.assert_allclose(slope @ way, differences, atol=close * largest)
        np.testing.assert_allclose(jax.jvp(f, (x,), (jnp.asarray(way),))[1], slope @ way, atol=together * largest)

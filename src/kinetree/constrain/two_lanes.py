"""Programs of XLA whose bits do not depend on how many states there are."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.model import Model

from .problem import MAX_ROWS


def two_lanes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compute a single state twice: XLA writes other code for one lane, with other rounding, than for many."""

    @wraps(function)
    def widened(*args: Any, **options: Any) -> Any:
        lanes = len(next(a for a in args if isinstance(a, jax.Array | np.ndarray)))
        huge = any(isinstance(a, Model) and a.nv > MAX_ROWS for a in args)  # whose walks are native, one by one
        if lanes != 1 or huge:
            return function(*args, **options)
        twice = (jnp.repeat(a, 2, 0) if isinstance(a, jax.Array | np.ndarray) and a.ndim else a for a in args)
        return jax.tree.map(lambda x: x[:1], function(*twice, **options))

    return widened

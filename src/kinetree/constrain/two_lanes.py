"""Programs of XLA whose bits do not depend on how many states there are."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.model import Model

from .problem import MAX_ROWS, has_crowd


def two_lanes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compute a single state twice: for one lane XLA makes other code, with other rounding, than for many lanes."""

    @wraps(function)
    def widened(*args: Any, **options: Any) -> Any:
        lanes = len(next(a for a in args if isinstance(a, jax.Array | np.ndarray)))
        models = [a for a in args if isinstance(a, Model)]
        crowd = any(map(has_crowd, models))
        if crowd and lanes != 1:
            return _one_by_one(function, *args, **options)
        huge = any(m.nv > MAX_ROWS for m in models)  # native walks do their states one by one
        if lanes != 1 or huge or crowd:
            return function(*args, **options)
        twice = (jnp.repeat(a, 2, 0) if isinstance(a, jax.Array | np.ndarray) and a.ndim else a for a in args)
        return jax.tree.map(lambda x: x[:1], function(*twice, **options))

    return widened


def _one_by_one(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """One state after the other, because in each state different shapes of a crowd meet."""
    batched = [k for k, a in enumerate(args) if isinstance(a, jax.Array | np.ndarray) and a.ndim]

    def one(state: tuple) -> Any:
        own = dict(zip(batched, state, strict=True))
        alone = (own[k][None] if k in own else a for k, a in enumerate(args))
        return jax.tree.map(lambda x: x[0], function(*alone, **options))

    return jax.lax.map(one, tuple(args[k] for k in batched))

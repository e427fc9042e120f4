"""The first checks of every public function of a model."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

MAX_STEPS = 2**24  # steps in one call; native programs count them down in float32


def require_model(model: Any) -> None:
    """Refuse a value that is not a model, such as the path of a file."""
    if not hasattr(model, "structure"):
        raise TypeError(f"model must be a kinetree.Model, such as kinetree.load makes, not a {type(model).__name__}")


def is_number(value: Any) -> bool:
    """True if a value is one real number, of Python, NumPy or JAX. Traced numbers count."""
    try:
        found = value if isinstance(value, jax.Array) else np.asarray(value)
    except ValueError:  # rows that differ in length
        return False
    return (
        found.ndim == 0
        and isinstance(found.dtype, np.dtype)
        and jnp.issubdtype(found.dtype, jnp.number)
        and found.dtype.kind != "c"
    )


def require_seconds(name: str, length: Any) -> None:
    """Refuse a value that is not a positive, finite number. Of a traced value only the type can be checked."""
    traced = isinstance(length, Tracer)
    if not (is_number(length) and (traced or (length > 0 and math.isfinite(length)))):
        raise ValueError(f"{name} must be a positive number of seconds, not {length!r}")


def require_function(name: str, function: Any, arguments: str) -> None:
    """Refuse a value that can not be called."""
    if not callable(function):
        raise TypeError(f"{name} must be a function of {arguments}, not a {type(function).__name__}")


def require_steps(name: str, count: Any) -> None:
    """Refuse a value that is not a number of steps, or is too large to be counted."""
    if not (isinstance(count, int | np.integer) and count >= 0):
        raise ValueError(f"{name} must be a number of steps, not {count!r}")
    if count > MAX_STEPS:
        raise ValueError(
            f"{name} must be at most {MAX_STEPS} in one call, not {count!r}; call again with the new state"
        )

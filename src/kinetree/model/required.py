"""The first checks of every public function of a model."""

import math
import os
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


def is_whole(value: Any) -> bool:
    """True if a value is a whole number of Python or NumPy."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


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


def require_flag(name: str, value: Any) -> None:
    """Refuse a value that is neither True nor False: words such as "no" would count as True."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, not {value!r}")


def require_path(name: str, path: Any) -> None:
    """Refuse a value that is not the path of a file."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{name} must be the path of a file, not a {type(path).__name__}")


def is_random_key(value: Any) -> bool:
    """True if a value is one key of `jax.random`, of the new type or of two numbers. Traced keys count."""
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        return value.ndim == 0
    return isinstance(value, jax.Array | np.ndarray) and value.dtype == np.uint32 and value.ndim == 1


def require_function(name: str, function: Any, arguments: str) -> None:
    """Refuse a value that can not be called."""
    if not callable(function):
        raise TypeError(f"{name} must be a function of {arguments}, not a {type(function).__name__}")


def require_steps(name: str, count: Any) -> None:
    """Refuse a value that is not a number of steps, or is too large to be counted."""
    if not (is_whole(count) and count >= 0):
        raise ValueError(f"{name} must be a number of steps, not {count!r}")
    if count > MAX_STEPS:
        raise ValueError(
            f"{name} must be at most {MAX_STEPS} in one call, not {count!r}; call again with the new state"
        )


def sizes_of(batch: Any) -> tuple[int, ...]:
    """Sizes of leading axes, from one or several. They are Python's numbers: small ones of NumPy overflow."""
    axes = tuple(batch) if isinstance(batch, tuple | list) else (batch,)
    if not all(is_whole(size) and size >= 0 for size in axes):
        raise ValueError(f"batch must be sizes of leading axes, such as (64,), not {batch!r}")
    return tuple(map(int, axes))

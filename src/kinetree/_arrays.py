"""Arrays that may be NumPy's or JAX's: which library computes with them, and their shapes and types."""

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

T = TypeVar("T")


def library(*values: Any) -> Any:
    """JAX's where one of the arrays in these trees is JAX's own, traced or not; else NumPy's."""
    return jnp if any(isinstance(x, jax.Array) for x in jax.tree.leaves(values)) else np


def as_array(name: str, value: Any, form: str = "") -> Any:
    """A JAX array as it is, and everything else as NumPy's."""
    if isinstance(value, jax.Array):
        return value
    try:
        found = np.asarray(value)
        return (
            found if found.dtype.isnative else found.astype(found.dtype.newbyteorder("="))
        )  # JAX knows no other order
    except ValueError:
        raise ValueError(f"{name} must be an array{form}: rows of this list differ in length") from None
    except Exception as error:  # of the value's own conversion, such as that of a tensor on another device
        raise TypeError(
            f"{name} must be an array{form}: NumPy can not read this {type(value).__name__}: {error}"
        ) from error


def require_real(name: str, value: Any) -> None:
    """Refuse an array that holds no real numbers, or numbers of more than 64 bits."""
    kind = value.dtype
    known = isinstance(kind, np.dtype)  # those of JAX's random keys are types of its own
    if not known or (kind.kind not in "fiub" and not jnp.issubdtype(kind, jnp.floating)):
        raise TypeError(f"{name} must hold real numbers, not {kind}")
    if kind.kind == "f" and kind.itemsize > 8:
        raise TypeError(f"{name} has type {kind}; computations are in float64 or float32: give {name}.astype(float)")


def flattened(x: Any) -> Any:
    """(batch, all other numbers). `reshape(len(x), -1)` can not tell how many those are where a batch is empty."""
    return x.reshape(len(x), math.prod(x.shape[1:]))


def as_dtype(given: Any) -> np.dtype:
    """A type of real numbers, given in any of the ways that NumPy knows."""
    try:
        found = np.dtype(given)
    except Exception:  # of many kinds
        found = np.dtype(object)
    if found.kind != "f" or found.itemsize > 8:
        raise ValueError(f"dtype must be a type of real numbers, such as float, not {given!r}")
    return found


def dtype_of(x: Any) -> np.dtype:
    """The type of an array, or of the array that a list would make; float64 if it has no real numbers."""
    try:
        found = x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype
    except Exception:  # `as_array` will say why
        return np.dtype(float)
    return found if isinstance(found, np.dtype) and jnp.issubdtype(found, jnp.floating) else np.dtype(float)


def in_bits_of(dtype: Any) -> AbstractContextManager[Any]:
    """A context in which JAX computes in 64 bits, if the type has 64 bits."""
    narrow = dtype == np.float64 and not jax.config.jax_enable_x64  # type: ignore[attr-defined]
    return jax.enable_x64(True) if narrow else nullcontext()


def any_rank() -> AbstractContextManager[Any]:
    """A context in which arrays with fewer axes broadcast, whatever users told JAX to do with their own."""
    allowed = jax.config.jax_numpy_rank_promotion == "allow"  # type: ignore[attr-defined]
    return nullcontext() if allowed else jax.numpy_rank_promotion("allow")


def there(x: T | None) -> T:
    """What a caller knows to be there."""
    assert x is not None
    return x

"""A model as a pytree: its arrays are leaves, its structure and coupling are static."""

import dataclasses
from typing import Any

import jax
import numpy as np

from .model import Model

STATIC = tuple(f.name for f in dataclasses.fields(Model) if f.metadata.get("static"))
ARRAYS = tuple(f.name for f in dataclasses.fields(Model) if f.name not in STATIC)


def _children(model: Model) -> tuple[Any, ...]:
    """The arrays of a model for JAX, in its present mode.

    JAX (0.10 to 0.12) remembers the type that it gave to a NumPy array while a compiled function holds the array, and
    uses this type again in the other x64 mode, where it is wrong. Models that are made from one another share arrays.
    So JAX gets the arrays themselves only in 64-bit mode; in 32-bit mode each model gives it views of them.
    """
    if jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        return tuple(getattr(model, name) for name in ARRAYS)
    views = model.__dict__.get("_views")
    if views is None:
        arrays = tuple(getattr(model, name) for name in ARRAYS)
        views = jax.tree.map(lambda x: x.view() if isinstance(x, np.ndarray) else x, arrays)
        model.__dict__["_views"] = views
    return views


def _statics(model: Model) -> tuple[Any, ...]:
    return tuple(getattr(model, name) for name in STATIC)


jax.tree_util.register_pytree_with_keys(
    Model,
    lambda model: (
        tuple(zip(map(jax.tree_util.GetAttrKey, ARRAYS), _children(model), strict=True)),
        _statics(model),
    ),
    lambda statics, arrays: Model(**dict(zip(ARRAYS, arrays, strict=True)), **dict(zip(STATIC, statics, strict=True))),
    lambda model: (_children(model), _statics(model)),
)

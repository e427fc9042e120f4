"""A model as JAX sees it: a pytree whose arrays are leaves and whose structure and coupling are static."""

import dataclasses
from typing import Any

import jax
import numpy as np

from .model import Model

STATIC = tuple(f.name for f in dataclasses.fields(Model) if f.metadata.get("static"))
ARRAYS = tuple(f.name for f in dataclasses.fields(Model) if f.name not in STATIC)


def _children(model: Model) -> tuple[Any, ...]:
    """The arrays of a model, as JAX may see them in its present mode.

    JAX (0.10 to 0.12) remembers the type that it gave to a NumPy array, for as long as some compiled function holds the
    array, and gives it again in the other x64 mode, where it is wrong. So the mode that comes second is shown views of
    its own.
    """
    views = model.__dict__.setdefault("_views", {})
    mode = bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]
    if mode not in views:
        arrays = tuple(getattr(model, name) for name in ARRAYS)
        if views:
            arrays = jax.tree.map(lambda x: x.view() if isinstance(x, np.ndarray) else x, arrays)
        views[mode] = arrays
    return views[mode]


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

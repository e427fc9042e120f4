"""Models with traced numbers: native programs can be bound to some of them, with traced constants.

Facts that decide which program runs must be known: the tree, and which shapes may meet. If a number is unknown, the
program includes all terms that the number might switch on. They have no effect if it is zero or infinite at run time.
"""

from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from kinetree.model import Model
from kinetree.model.arguments import is_known, is_traced

KEPT = "_in_numpy"  # where a model keeps the copy below, beside its fields


def in_numpy(model: Model) -> Model:
    """The model with JAX arrays as NumPy arrays, made once; those that are traced stay."""
    if is_known(model) or all(isinstance(x, np.ndarray | Tracer) for x in jax.tree.leaves(model)):
        return model
    kept = model.__dict__
    if KEPT not in kept:
        kept[KEPT] = jax.tree.map(lambda x: x if is_traced(x) else np.asarray(x), model)
        kept[KEPT].__dict__["specialized"] = model.specialized
    return kept[KEPT]


def binding_parts(model: Model) -> dict[str, Any]:
    """The parts of a model whose numbers native programs must know. Plans keep them."""
    world = model.world
    if world is None:
        return {}
    meshes = {} if world.scene is None else {"meshes": world.scene.shapes.hulls}
    return {"tendons": world.tendons, "equalities": world.equalities} | meshes


def not_bound(model: Model) -> str:
    """The reason why native programs need the values of traced numbers of a model; empty if they do not."""
    traced = [name for name, part in binding_parts(model).items() if not is_known(part)]
    return f"numbers of {traced[0]} are traced" if traced else ""


def forgotten(tree: Any) -> Any:
    """A model without traced numbers, which must not outlive their trace."""
    return jax.tree.map(lambda x: None if is_traced(x) else x, tree)

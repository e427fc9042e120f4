"""Models that get programs of their own: their tree and their numbers written into the compiled code."""

import dataclasses

import jax
import numpy as np

from .arguments import is_traced
from .model import Model
from .required import require_model

MAX_SPECIALIZED_ROWS = 150  # rows; compiling larger robots takes minutes


def specialize(model: Model) -> Model:
    """The same model, with lane programs compiled for it alone: rows written out, constants baked in.

    Faster for large batches of a small robot, most of all on a GPU; the first call of each function takes up to a few
    seconds. Use it in Python or closed over in `jit`: a model that is an argument of `jit`, or that `replace` or
    `jax.tree.map` has made, has numbers that were not known to the compiler and is an ordinary one again.
    """
    require_model(model)
    rows = model.structure.tree.n
    if rows > MAX_SPECIALIZED_ROWS:
        raise ValueError(f"a model of {rows} rows is too large to specialize: at most {MAX_SPECIALIZED_ROWS}")
    if is_traced(model):
        raise ValueError("a model can only be specialized outside jit, grad and vmap, where its numbers are known")
    new = dataclasses.replace(jax.tree.map(np.asarray, model))
    new.__dict__["specialized"] = True  # beside the fields, so that no copy with other numbers has it
    return new

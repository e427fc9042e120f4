"""How a primitive runs outside `jit`: compiled for its parameters, then called."""

from functools import lru_cache, partial
from typing import Any

import jax
from jax.extend.core import Primitive

from . import tuning


def define_eager(primitive: Primitive) -> None:
    """Let a primitive run on plain arrays.

    Under `jax.disable_jit` too: there `jit` would call the primitive again, without end. A lane program is one
    operation to JAX, and operations are always compiled.
    """

    @lru_cache(maxsize=tuning.EAGER_MAX_CALLS)
    def compiled(**params: Any) -> Any:
        return jax.jit(partial(primitive.bind, **params))

    def run(*arguments: Any, **params: Any) -> Any:
        with jax.disable_jit(False):
            return compiled(**params)(*arguments)

    primitive.def_impl(run)

"""Operators of values that JAX traces, as the functions of `jax.lax`: JAX sends `a * b` through a `jit` of its own.

That is two thirds of what it takes to trace a product. The equations are the same (tests/test_quick_operators.py).
"""

import numpy as np
from jax import core, lax

OPERATORS = {"add": lax.add, "sub": lax.sub, "mul": lax.mul, "truediv": lax.div, "lt": lax.lt, "gt": lax.gt}
FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


def install() -> None:
    """From here on, in this process; versions of JAX that keep operators elsewhere are left alone."""
    for name, function in OPERATORS.items():
        if hasattr(core.ShapedArray, f"_{name}"):
            _quicken(f"_{name}", function)


def _quicken(name, function):
    """Two real arrays of one type that are traced, and nothing else: all else goes JAX's own way."""
    own_way = getattr(core.ShapedArray, name)

    def operator(a, b):
        x, y = getattr(a, "aval", None), getattr(b, "aval", None)
        plain = type(a).__name__ == type(b).__name__ == "DynamicJaxprTracer" and x == y and x.dtype in FLOATS
        return function(a, b) if plain else own_way(a, b)

    setattr(core.ShapedArray, name, staticmethod(operator))

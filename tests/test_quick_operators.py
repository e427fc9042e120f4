"""The operators that tests trace with make the equations of JAX's own."""

import operator

import jax
import jax.numpy as jnp
import pytest

from tests.quick_operators import OPERATORS

OWN = {
    "add": jnp.add,
    "sub": jnp.subtract,
    "mul": jnp.multiply,
    "truediv": jnp.divide,
    "lt": jnp.less,
    "gt": jnp.greater,
}
A, B = jnp.arange(1.0, 4.0), jnp.asarray(2.0, jnp.float32)
PAIRS = {
    "arrays": (A, A),
    "float32": (B, B),
    "shapes": (A, A[:1]),
    "whole numbers": (jnp.arange(3), jnp.arange(3)),
    "Python's numbers": (1.0, 2.0),
    "an array and Python's number": (A, 2.0),
}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("name", OPERATORS)
def test_equations_are_the_same(name, pair):
    ours, own = (jax.make_jaxpr(f)(*PAIRS[pair]) for f in (getattr(operator, name), OWN[name]))
    assert str(ours) == str(own)
    assert ours.out_avals == own.out_avals


def test_types_are_mixed_as_strictly():
    with pytest.raises(ValueError, match="promotion"):
        jax.make_jaxpr(operator.mul)(A, B)

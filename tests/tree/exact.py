"""Operators without rounding, on whole numbers modulo a prime: a schedule is right or it is wrong."""

import jax.numpy as jnp
import numpy as np

from kinetree.tree import InwardRecursion, OutwardRecursion

PRIME = 97


def product(a, b):
    return jnp.einsum("...ij,...jk->...ik", a, b) % PRIME


def times(a, v):
    return jnp.einsum("...ij,...j->...i", a, v) % PRIME


def adjugate(a):
    """The inverse where the determinant is 1."""
    p, q, r, s = a[..., 0, 0], a[..., 0, 1], a[..., 1, 0], a[..., 1, 1]
    return jnp.stack([jnp.stack([s, -q], -1), jnp.stack([-r, p], -1)], -2) % PRIME


def eye(a):
    return jnp.broadcast_to(jnp.eye(2, dtype=a.dtype), a.shape)


TURNS = OutwardRecursion(  # a group that does not commute
    step=lambda row, state: product(state, row),
    element=lambda row: row,
    combine=product,
    act=lambda e, state: product(state, e),
    identity=eye,
    inverse=adjugate,
    name="turns",
)
FLOWS = InwardRecursion(  # A (own + what the children bring): does not commute, and A need not have an inverse
    step=lambda row, state: times(row[0], row[1] + state),
    element=lambda row, state: (row[0], times(row[0], row[1] + state)),
    combine=lambda inner, outer: (product(inner[0], outer[0]), (inner[1] + times(inner[0], outer[1])) % PRIME),
    act=lambda e, state: (e[1] + times(e[0], state)) % PRIME,
    identity=lambda e: (eye(e[0]), jnp.zeros_like(e[1])),
    name="flows",
)


def turns(rng, n):
    """Rows for TURNS: products of two shears, of determinant 1."""
    a, b = rng.integers(PRIME, size=(2, n))
    one = np.ones(n, int)
    return jnp.asarray(np.stack([np.stack([one, a], -1), np.stack([b, (1 + a * b) % PRIME], -1)], -2))

"""A function of all pairs: entry (i, j) of a dense matrix from what is known of i and what is known of j.

In JAX's words a map over two broadcast axes, and that is its body on platforms that have no other. XLA reads both
operands again for every entry; the native bodies keep those of a column in registers while they go down the rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive

from ..eager import define_eager
from ..target import Target, lower


class Case(NamedTuple):
    """Where `holds(i, j)`, of whole numbers, an entry is `value(i, j)`, of real ones.

    `side`: it holds only below the diagonal (BELOW, i > j), above it (ABOVE), or on it (ON).
    """

    holds: Callable[[Any, Any], Any]
    value: Callable[[Any, Any], Any]
    side: int


BELOW, ON, ABOVE = -1, 0, 1


@dataclass(frozen=True, eq=False)
class Pairs:
    """An entry is the value of the first case that holds, else zero. Compared by identity: make each one once."""

    name: str
    cases: tuple[Case, ...]
    reals: Any  # treedefs of what is known of one member
    wholes: Any


def each_pair(pairs: Pairs, reals: Any, wholes: Any) -> Any:
    """The matrix, (n, n), of members whose leaves are (n,), by XLA."""

    def sides(x: Any) -> tuple[Any, Any]:
        return jax.tree.map(lambda x: x[:, None], x), jax.tree.map(lambda x: x[None, :], x)

    entry: Any = None
    for case in reversed(pairs.cases):
        value = case.value(*sides(reals))
        entry = jnp.where(case.holds(*sides(wholes)), value, jnp.zeros_like(value) if entry is None else entry)
    return entry


def by_xla(*arrays: Any, pairs: Pairs) -> list:
    """The body for any platform, on the leaves."""
    count = pairs.reals.num_leaves
    reals, wholes = jax.tree.unflatten(pairs.reals, arrays[:count]), jax.tree.unflatten(pairs.wholes, arrays[count:])
    return [each_pair(pairs, reals, wholes)]


def _natively(target: Target, *arrays: Any, pairs: Pairs) -> list | None:
    return target.pairs(pairs, arrays)


PAIRS = Primitive("kinetree_pairs")
PAIRS.multiple_results = True
PAIRS.def_abstract_eval(lambda *arrays, pairs: [ShapedArray((arrays[0].shape[0],) * 2, arrays[0].dtype)])
lower(PAIRS, by_xla, _natively)
define_eager(PAIRS)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def all_pairs(pairs: Pairs, reals: Any, wholes: Any) -> Any:
    """The matrix of all pairs, native where possible; batches go matrix by matrix, derivatives by XLA."""
    arrays = [jnp.asarray(x) for x in jax.tree.leaves(reals)] + [
        jnp.asarray(x, jnp.int32) for x in jax.tree.leaves(wholes)
    ]
    return jax.custom_batching.sequential_vmap(lambda *arrays: PAIRS.bind(*arrays, pairs=pairs)[0])(*arrays)


@all_pairs.defjvp
def _derivative(pairs: Pairs, primals: tuple, tangents: tuple) -> tuple:
    return jax.jvp(lambda reals: each_pair(pairs, reals, primals[1]), primals[:1], tangents[:1])

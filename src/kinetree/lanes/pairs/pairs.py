"""A function of all pairs: entry (i, j) of a dense matrix from what is known of i and what is known of j.

In JAX's words a map over two broadcast axes, and that is its body on platforms that have no other. XLA reads both
operands again for every entry; the native bodies, on_cpu.py and on_cuda.py, keep those of
a column in registers while they go down the rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import mlir

from ..eager import define_eager
from ..kept.notice import warn_not_native


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


def _on(target: str) -> Callable:
    def body(*arrays: Any, pairs: Pairs) -> list:
        try:
            if target == "cpu":
                from .on_cpu import on_cpu as native
            else:
                from .on_cuda import on_cuda as native
        except (ImportError, OSError) as error:  # llvmlite is missing
            warn_not_native(pairs.name, error)
            return by_xla(*arrays, pairs=pairs)
        return native(pairs, arrays) or by_xla(*arrays, pairs=pairs)

    return body


PAIRS = Primitive("kinetree_pairs")
PAIRS.multiple_results = True
PAIRS.def_abstract_eval(lambda *arrays, pairs: [ShapedArray((arrays[0].shape[0],) * 2, arrays[0].dtype)])
mlir.register_lowering(PAIRS, mlir.lower_fun(by_xla, multiple_results=True))
for _platform in ("cpu", "cuda"):
    mlir.register_lowering(PAIRS, mlir.lower_fun(_on(_platform), multiple_results=True), platform=_platform)
define_eager(PAIRS)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def all_pairs(pairs: Pairs, reals: Any, wholes: Any) -> Any:
    """The same, natively where it can be, batches matrix by matrix; with derivatives by XLA."""
    arrays = [jnp.asarray(x) for x in jax.tree.leaves(reals)] + [
        jnp.asarray(x, jnp.int32) for x in jax.tree.leaves(wholes)
    ]
    return jax.custom_batching.sequential_vmap(lambda *arrays: PAIRS.bind(*arrays, pairs=pairs)[0])(*arrays)


@all_pairs.defjvp
def _derivative(pairs: Pairs, primals: tuple, tangents: tuple) -> tuple:
    return jax.jvp(lambda reals: each_pair(pairs, reals, primals[1]), primals[:1], tangents[:1])

"""Similar leaves as one array, so that XLA compiles one gather or scatter for all of them.

Spatial quantities have many components. If each is gathered separately, gathers are most of the program that XLA
compiles, and on a CPU every scatter becomes a loop.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .picked import pick

Stacked = list[Any]  # Of each shape and type one array, (leaves, ...).


def _kinds(tree: Any) -> list[list[int]]:
    """The numbers of the leaves of each shape and type."""
    kinds: dict[Any, list[int]] = {}
    for k, x in enumerate(jax.tree.leaves(tree)):
        kinds.setdefault((jnp.shape(x), jnp.result_type(x)), []).append(k)
    return list(kinds.values())


def stack(tree: Any) -> Stacked:
    """All leaves of a tree, those of one shape and type as one array."""
    leaves = jax.tree.leaves(tree)
    return [jnp.stack([leaves[k] for k in kind]) for kind in _kinds(tree)]


def unstack(stacked: Stacked, like: Any) -> Any:
    """The tree that was stacked; leaves of `like` are of one kind where those of the tree are."""
    leaves, structure = jax.tree.flatten(like)
    for x, kind in zip(stacked, _kinds(like), strict=True):
        for place, k in enumerate(kind):
            leaves[k] = x[place]
    return jax.tree.unflatten(structure, leaves)


def take(tree: Any, index: Any) -> Any:
    """Rows of every leaf, by numbers that are within bounds; negative ones, which count from the end, in NumPy only."""
    if all(isinstance(x, np.ndarray) for x in (index, *jax.tree.leaves(tree))):
        return pick(tree, index)
    return unstack(pick(stack(tree), index, axis=1), tree)

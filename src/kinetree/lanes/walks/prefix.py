"""Prefixes over lanes: the combination of all lanes before a lane in its run, by walks over walks.

Groups of neighbours are reduced, one lane to a group. The totals of the groups get prefixes in the same way. A second
walk takes the prefix of each group through the group. Every level is a walk, so on a GPU the longest chain is a few
dozen combinations.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import tuning
from ..program.program import NOTHING
from .walk import Walk, take_walk

tree_map = jax.tree.map


class Prefix(NamedTuple):
    """The two walks of an operator. `identity` makes its neutral element, with components like a given array."""

    reduce: Walk
    walk: Walk
    identity: Callable[[Any], Any]


def prefix_walks(name: str, combine: Callable, identity: Callable[[Any], Any], element: Any) -> Prefix:
    """The walks for `combine(before, after)` of elements with this structure."""
    state = jax.tree.structure((jax.tree.unflatten(element, [0.0] * element.num_leaves), 0.0))

    def extend(before: Any, lane: Any, exists: Any) -> Any:
        (total, begun), (e, first) = before, lane
        alone = tree_map(lambda a, b: jnp.where(first > 0, a, b), e, combine(total, e))
        return tree_map(lambda a, b: jnp.where(exists, a, b), (alone, jnp.maximum(begun, first)), before)

    def reduce(before: Any, _: Any, lane: Any, exists: Any) -> tuple:
        return extend(before, lane, exists), ()

    def walk(before: Any, _: Any, lane: Any, exists: Any) -> tuple:
        return extend(before, lane, exists), before[0]

    return Prefix(
        Walk(f"{name}_reduce", reduce, state, NOTHING, state, NOTHING),
        Walk(f"{name}_prefix", walk, state, NOTHING, state, element, scattered=True),
        identity,
    )


def _groups(lanes: int) -> np.ndarray:
    """Groups of neighbours, (turns, groups); −1 beyond the last lane."""
    groups = -(-lanes // tuning.PREFIX_GROUP)
    index = np.arange(groups) * tuning.PREFIX_GROUP + np.arange(min(tuning.PREFIX_GROUP, lanes))[:, None]
    return np.where(index < lanes, index, -1).astype(np.int32)


def exclusive_prefixes(op: Prefix, e: Any, first: Any, reverse: bool = False) -> Any:
    """For each lane, the combination of the lanes before it, back to the last lane whose `first` is 1.0 (else 0.0).

    In reverse, of the lanes after it; `first` then marks the lanes where runs begin from that side.
    """
    index = _groups(first.shape[0])
    if reverse:
        index = np.where(index >= 0, first.shape[0] - 1 - index, -1).astype(np.int32)
    none = jnp.zeros(index.shape[1], first.dtype)
    start = op.identity(none)
    if index.shape[1] > 1:
        (totals, begun), _ = take_walk(op.reduce, index, (start, none), (), (e, first))
        start = exclusive_prefixes(op, totals, begun)
    return take_walk(op.walk, index, (start, none), (), (e, first), rows=first.shape[0])[1]

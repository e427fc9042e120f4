"""Scans of Lynghus 2026 §7, to compare: all prefix products of an array of elements, under an associative operator.

`combine(a, b)` pairs off two stacks of elements and returns the stack of products. `one` is the neutral element,
without axis 0.
    native          lax.associative_scan                     work O(n)          span O(log n)
    blocked         two walks of each block, a block a lane  2n combines        span O(block log n / log block)
    work_efficient  Blelloch's up-sweep and down-sweep       3n combines        span O(log n)
    mapped          cumulative sums, component by component  addition only      span O(log n)
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from kinetree.tree import Tree, pick
from kinetree.tree.euler import along_tour, prefix_products

BLOCK = 64  # elements
Combine = Callable[[Any, Any], Any]
tree_map = jax.tree.map


def _work_efficient(combine: Combine, elements: Any, one: Any) -> Any:
    """Up-sweep to a tree of pair products, down-sweep of the product before each. Odd levels are padded by one."""
    levels, stack = [], elements
    while (size := len(jax.tree.leaves(stack)[0])) > 1:
        if size % 2:
            stack = tree_map(lambda x, e: jnp.concatenate([x, e[None]]), stack, one)
        levels.append((size, stack))
        stack = combine(*(tree_map(lambda x, k=k: x[k::2], stack) for k in (0, 1)))
    before = tree_map(lambda e: e[None], one)
    for size, stack in reversed(levels):
        after_left = combine(before, tree_map(lambda x: x[0::2], stack))
        both = tree_map(lambda a, b: jnp.stack([a, b], 1).reshape(-1, *a.shape[1:]), before, after_left)
        before = tree_map(lambda x, size=size: x[:size], both)
    return combine(before, elements)


METHODS: dict[str, Callable[[Combine, Any, Any], Any]] = {
    "native": lambda combine, x, one: lax.associative_scan(combine, x),
    "blocked": lambda combine, x, one: prefix_products(combine, x, one, BLOCK),
    "work_efficient": _work_efficient,
    "mapped": lambda combine, x, one: tree_map(lax.cumsum, x),
}


def tour_products(tree: Tree, combine: Combine, inverse: Callable[[Any], Any], one: Any, x: Any, method: str) -> Any:
    """For each row the product of the elements from its root to it, by a scan over the Euler tour."""
    tour = along_tour(tree, inverse, x)
    one = tree_map(lambda e, y: jnp.asarray(e, y.dtype), one, tour)
    return pick(METHODS[method](combine, tour, one), tree.lp)

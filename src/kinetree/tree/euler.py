"""rootfix and leaffix by one scan over the Euler tour of the tree, with inverses.

It is the method with which this project began (Lynghus 2026 §3 and §4.6, after Blelloch, Vector Models for
Data-Parallel Computing, 1990). rootfix needs a group, which need not commute: a subtree that was walked through cancels
from the inside out. leaffix needs a commutative group. Sums over the whole tree that are subtracted again cancel, in
float32 badly.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .operator import OutwardRecursion, Row, State, require
from .picked import pick
from .scans import Combine, add, scan
from .topology import Tree

tree_map = jax.tree.map


def _one(elements: Any) -> Any:
    return tree_map(lambda x: jnp.zeros(x.shape[1:], x.dtype), elements)


def negative(x: Any) -> Any:
    """The inverse for addition, component by component."""
    return tree_map(jnp.negative, x)


def tour_products(
    tree: Tree, op: Combine, inverse: Callable[[Any], Any], identity: Any, elements: Any, **options: Any
) -> Any:
    """For each row the product of the elements from its root to it: x on entering a row, its inverse on leaving it.

    `options` are those of `scan`; `exclusive` gives the products to the parents.
    """
    step = np.empty(2 * tree.n, np.int64)
    step[tree.lp], step[tree.rp] = np.arange(tree.n), tree.n + np.arange(tree.n)
    tour = tree_map(lambda x, y: jnp.concatenate([x, y])[step], elements, inverse(elements))
    return pick(scan(op, tour, identity, **options), tree.lp)


def rootfix_elements(tree: Tree, op: OutwardRecursion, elements: Any, *, exclusive: bool = False) -> Any:
    """The product of the elements from the base to each row."""
    require(op.composes, op, "euler", "element, combine, act and identity")
    require(op.inverse is not None, op, "euler", "an inverse")
    block = max(16, int(tree.n**0.5))
    known: Any = op
    one = known.identity(_one(elements))
    return tour_products(tree, known.combine, known.inverse, one, elements, exclusive=exclusive, block=block)


def rootfix_euler(tree: Tree, op: OutwardRecursion, rows: Row, base: State) -> State:
    """`rootfix` under the schedule `euler`."""
    require(op.composes, op, "euler", "element, combine, act and identity")
    product = rootfix_elements(tree, op, op.element(rows))  # type: ignore[misc]
    return op.act(product, tree_map(lambda b: b[None], base))  # type: ignore[misc]


def leaffix_sum(tree: Tree, data: Any, *, exclusive: bool = False) -> Any:
    """The sum of data over each subtree, component by component. A subtree is an interval of the preorder."""
    zero = _one(data)
    prefix = scan(add, tree_map(lambda x: jnp.asarray(x)[tree.preorder], data), zero, method="mapped")
    # Row k of `prefix` is now the sum over the first k rows of the preorder.
    prefix = tree_map(lambda e, x: jnp.concatenate([jnp.asarray(e, x.dtype)[None], x]), zero, prefix)
    first = tree.preorder_index
    return add(negative(pick(prefix, first + exclusive)), pick(prefix, first + tree.subtree_size))

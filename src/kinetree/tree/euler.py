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
from jax import lax

from kinetree._varying import scan

from .operator import Element, OutwardRecursion, require
from .picked import pick
from .topology import Tree

Combine = Callable[[Element, Element], Element]

tree_map = jax.tree.map


def prefix_products(combine: Combine, elements: Element, one: Element, block: int, exclusive: bool = False) -> Element:
    """All prefix products x0 * ... * xi of n elements along axis 0, or if `exclusive` x0 * ... * x(i-1).

    The operator is associative, and pairs off two stacks of elements; `one` is its neutral element, without axis 0.
    Each block is reduced, the products of blocks are scanned in the same way, and each block is walked again from its
    start. A step of a loop advances all blocks by one element: blocks are lanes. The recursion keeps the program at
    three copies of `combine` for each factor `block` in n; `block` is at least 2.
    """
    n = len(jax.tree.leaves(elements)[0])
    count = -(-n // block) if n > block else 1
    steps = block if n > block else n
    padded = tree_map(
        lambda x, e: jnp.concatenate([x, jnp.broadcast_to(e, (count * steps - n, *e.shape))]), elements, one
    )
    lanes = tree_map(lambda x: x.reshape(count, steps, *x.shape[1:]).swapaxes(0, 1), padded)
    start = tree_map(lambda e: jnp.broadcast_to(e, (count, *e.shape)), one)
    if count > 1:
        totals, _ = scan(lambda before, x: (combine(before, x), None), start, lanes)
        start = prefix_products(combine, totals, one, block, True)

    def step(before: Element, x: Element) -> tuple[Element, Element]:
        after = combine(before, x)
        return after, before if exclusive else after

    found = scan(step, start, lanes)[1]
    return tree_map(lambda x: x.swapaxes(0, 1).reshape(-1, *x.shape[2:])[:n], found)


def along_tour(tree: Tree, inverse: Callable[[Element], Element], elements: Element) -> Element:
    """Elements of rows along the 2n steps of the tour: x on entering a row, its inverse on leaving it."""
    step = np.empty(2 * tree.n, np.int64)
    step[tree.lp], step[tree.rp] = np.arange(tree.n), tree.n + np.arange(tree.n)
    return tree_map(lambda x, y: jnp.concatenate([x, y])[step], elements, inverse(elements))


def rootfix_elements(tree: Tree, op: OutwardRecursion, elements: Element) -> Element:
    """The product of the elements from the base to each row."""
    require(op.composes, op, "euler", "element, combine, act and identity")
    require(op.inverse is not None, op, "euler", "an inverse")
    known: Any = op
    tour = along_tour(tree, known.inverse, elements)
    one = known.identity(tree_map(lambda x: jnp.zeros(x.shape[1:], x.dtype), elements))
    one = tree_map(lambda e, x: jnp.asarray(e, x.dtype), one, tour)
    return pick(prefix_products(known.combine, tour, one, max(16, int(tree.n**0.5))), tree.lp)


def leaffix_sum(tree: Tree, data: Any) -> Any:
    """The sum of data over each subtree, component by component. A subtree is an interval of the preorder."""
    first = tree.preorder_index

    def summed(x: Any) -> Any:
        in_order = jnp.asarray(x)[tree.preorder]
        before = jnp.concatenate([jnp.zeros_like(in_order[:1]), lax.cumsum(in_order)])
        return pick(before, first + tree.subtree_size) - pick(before, first)

    return tree_map(summed, data)

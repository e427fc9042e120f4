"""rootfix and leaffix by the vector tree: one scan over the Euler tour, with inverses.

It is the method with which this project began (Lynghus 2026 §3, after Blelloch). Its limits: rootfix needs a group,
leaffix a commutative one, and sums over the whole tree that are subtracted again cancel, in float32 badly.
"""

from typing import Any

import jax
import jax.numpy as jnp

from .operator import InwardRecursion, OutwardRecursion, Row, State, require
from .scans import add
from .topology import Tree
from .vector_tree import VectorTree

tree_map = jax.tree.map


def _one(elements: Any) -> Any:
    return tree_map(lambda x: jnp.zeros(x.shape[1:], x.dtype), elements)


def rootfix_elements(tree: Tree, op: OutwardRecursion, elements: Any, *, exclusive: bool = False) -> Any:
    """The product of the elements from the base to each row."""
    require(op.composes, op, "euler", "element, combine, act and identity")
    require(op.inverse is not None, op, "euler", "an inverse")
    tour = VectorTree(tree.lp, tree.rp)
    block = max(16, int(tree.n**0.5))
    return tour.rootfix(op.combine, op.inverse, op.identity(_one(elements)), elements, exclusive=exclusive, block=block)  # type: ignore[misc,arg-type]


def rootfix_euler(tree: Tree, op: OutwardRecursion, rows: Row, base: State, *, exclusive: bool = False) -> State:
    """`rootfix` under the schedule `euler`."""
    require(op.composes, op, "euler", "element, combine, act and identity")
    product = rootfix_elements(tree, op, op.element(rows), exclusive=exclusive)  # type: ignore[misc]
    return op.act(product, tree_map(lambda b: b[None], base))  # type: ignore[misc]


def leaffix_sum(tree: Tree, data: Any, *, exclusive: bool = False) -> Any:
    """The sum of data over each subtree, component by component."""
    tour = VectorTree(tree.lp, tree.rp)
    negate = lambda x: tree_map(jnp.negative, x)  # noqa: E731
    return tour.leaffix(add, negate, _one(data), data, exclusive=exclusive, method="mapped")


def leaffix_euler(tree: Tree, op: InwardRecursion, rows: Row, like: State, *, exclusive: bool = False) -> State:
    """`leaffix` under the schedule `euler`."""
    require(op.commutes and op.own is not None, op, "euler", "to commute (a plain sum over the subtree of own(row))")
    return leaffix_sum(tree, op.own(rows), exclusive=exclusive)  # type: ignore[misc]

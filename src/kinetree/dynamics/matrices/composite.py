"""The mass matrix as a function of pairs of rows, from its factors (algorithms/crba.py)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from kinetree.lanes.pairs.pairs import ABOVE, BELOW, ON, Case, Pairs
from kinetree.tree import Tree

from ..algorithms.crba import FACTORS


class Interval(NamedTuple):
    """A row's place in the Euler tour: its subtree begins and ends with it."""

    begin: Any
    end: Any


def intervals(tree: Tree) -> Interval:
    """The interval of each row."""
    return Interval(*(jnp.asarray(x) for x in (tree.lp, tree.rp)))


def _supports(j: Interval, i: Interval) -> Any:
    """Whether j is an ancestor of i, or i itself."""
    return (j.begin <= i.begin) & (i.begin <= j.end)


ENTRIES = Pairs(
    "crba_entries",
    (
        Case(lambda i, j: i.begin == j.begin, lambda i, j: i.diagonal, ON),
        Case(lambda i, j: _supports(j, i), lambda i, j: j.axis.dot(i.force), BELOW),  # parents come before children
        Case(_supports, lambda i, j: i.axis.dot(j.force), ABOVE),
    ),
    jax.tree.structure(FACTORS.outputs["factors"]),
    jax.tree.structure(Interval(0, 0)),
)  # of H

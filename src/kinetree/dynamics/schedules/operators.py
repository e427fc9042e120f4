"""Passes as operators of tree/: what its executor walks over layouts and Euler tours."""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree import tree as trees
from kinetree.dynamics.recursion import Pass, Row, Stretch

tree_map = jax.tree.map
OWN = "own"  # What an inward pass starts with at each row.


def _shaped(stretch: Stretch) -> Any:
    """The empty stretch, with components like those of a given one."""

    def identity(e: Any) -> Any:
        none = stretch.identity(jnp.zeros((), jax.tree.leaves(e)[0].dtype))
        return tree_map(lambda x, y: jnp.broadcast_to(x, jnp.shape(y)), none, e)

    return identity


def outward_operator(p: Pass) -> trees.Outward:
    """An outward pass as an operator on rows."""
    s = p.stretch
    return trees.Outward(
        step=lambda row, state: p.visit(row, state)[0],
        finds=p.visit,
        element=s.element if s else None,
        combine=s.combine if s else None,
        act=s.act if s else None,
        identity=_shaped(s) if s else None,
        inverse=s.inverse if s else None,
        extend=s.extend if s else None,
        name=p.state,
    )


def inward_operator(p: Pass) -> trees.Inward:
    """An inward pass as an operator on rows, whose field `own` is what they start with."""
    s = p.stretch

    def whole(row: Row, received: Any) -> Any:
        return tree_map(jnp.add, row.own, received)

    def ballast(rows: Row, branches: Any) -> Any:
        last, mean = (Row(inertia=tree_map(f, rows.inertia)) for f in (lambda x: x[-1], lambda x: x.mean(0)))
        return s.ballast(last, mean)  # type: ignore[misc,union-attr]

    return trees.Inward(
        step=lambda row, received: p.visit(row, whole(row, received))[0],
        finds=lambda row, received: p.visit(row, whole(row, received)),
        element=(lambda row, branches: s.element(row, whole(row, branches))) if s else None,
        combine=s.combine if s else None,
        act=s.act if s else None,
        identity=_shaped(s) if s else None,
        extend=(lambda row, branches, e: s.extend(row, whole(row, branches), e)) if s and s.extend else None,  # type: ignore[misc]
        ballast=ballast if s and s.ballast else None,
        lend=s.lend if s else None,
        name=p.state,
    )

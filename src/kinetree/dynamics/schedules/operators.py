"""Passes as operators of tree/, whose executor runs them over layouts and Euler tours."""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree import tree as trees
from kinetree.dynamics.recursion import Pass, Row, Stretch

tree_map = jax.tree.map
OWN = "own"  # the field with a row's own share of an inward pass


def _shaped(stretch: Stretch) -> Any:
    """The empty stretch, with components like those of a given one."""

    def identity(e: Any) -> Any:
        none = stretch.identity(jnp.zeros((), jax.tree.leaves(e)[0].dtype))
        return tree_map(lambda x, y: jnp.broadcast_to(x, jnp.shape(y)), none, e)

    return identity


def _of_stretch(s: Stretch | None, *names: str) -> dict[str, Any]:
    """The functions of a stretch, as arguments of an operator; empty if there is no stretch."""
    return {} if s is None else {n: getattr(s, n) for n in ("combine", "act", *names)} | {"identity": _shaped(s)}


def outward_operator(p: Pass) -> trees.OutwardRecursion:
    """An outward pass as an operator on rows."""
    known = _of_stretch(p.stretch, "element", "inverse", "extend")
    return trees.OutwardRecursion(step=lambda row, state: p.visit(row, state)[0], finds=p.visit, name=p.state, **known)


def inward_operator(p: Pass) -> trees.InwardRecursion:
    """An inward pass as an operator on rows; their field `own` is their own share."""
    s = p.stretch

    def whole(row: Row, received: Any) -> Any:
        return tree_map(jnp.add, row.own, received)

    def ballast(rows: Row, branches: Any) -> Any:
        last, mean = (Row(inertia=tree_map(f, rows.inertia)) for f in (lambda x: x[-1], lambda x: x.mean(0)))
        return s.ballast(last, mean)  # type: ignore[misc,union-attr]

    known = _of_stretch(s, "lend")
    if s is not None:
        known["element"] = lambda row, branches: s.element(row, whole(row, branches))
        extend = s.extend
        known["extend"] = extend and (lambda row, branches, e: extend(row, whole(row, branches), e))
        known["ballast"] = s.ballast and ballast
    return trees.InwardRecursion(
        step=lambda row, received: p.visit(row, whole(row, received))[0],
        finds=lambda row, received: p.visit(row, whole(row, received)),
        name=p.state,
        **known,
    )

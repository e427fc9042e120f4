"""The exchange between the devices of one tree: an element of each cluster's spine, once for each pass.

A cluster (tree/clusters.py) acts on its input as a single row does, so the clusters are a small tree. Every device
receives the elements of all clusters, walks that small tree by itself, and keeps the results for its own clusters. If
the clusters are a chain and native code can apply the elements, it walks them in one launch. Else XLA walks them level
by level.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from kinetree.lanes.walks.walk import Walk, take_walk
from kinetree.tree import InwardRecursion, OutwardRecursion, Tree, leaffix, rootfix

from ..schedules.stage_passes import SharedPorts

tree_map, structure = jax.tree.map, jax.tree.structure


def _along(name: str, order: np.ndarray, step: Callable, elements: Any, start: Any) -> Any:
    """The state that enters each cluster of a chain, leaves (clusters,), in this order of visits."""

    def turn(state: Any, _: Any, element: Any, exists: Any) -> tuple:
        return step(element, state), state

    walk = Walk(name, turn, structure(start), structure(()), structure(elements), structure(start), scattered=True)
    index = order.astype(np.int32)[:, None]
    return take_walk(walk, index, tree_map(lambda x: x.reshape(1), start), (), elements, rows=len(order))[1]


def ports_between(
    axis: str, tree: Tree, native: bool, slot: np.ndarray, exist: Any, first: Any, last: Any, carries: Any
) -> SharedPorts:
    """The ports of the device that runs this, among those along a mesh axis.

    Arguments:
        axis: of the mesh.
        tree: the tree of all clusters.
        native: whether native code can act with the elements.
        slot: the place of each cluster: device · clusters of a device + number there.
        exist, first, last, carries: (clusters of a device,), see `SharedPorts`.
    """
    own = exist.shape[0]

    def everywhere(values: Any) -> Any:
        """Leaves (clusters of a device,) as (clusters,), in one message."""
        leaves, treedef = jax.tree.flatten(values)
        together = lax.all_gather(jnp.stack(leaves), axis)  # (devices, fields, clusters of a device)
        flat = jnp.moveaxis(together, 1, 0).reshape(len(leaves), -1)
        return jax.tree.unflatten(treedef, list(flat.at[:, slot].get(mode="promise_in_bounds")))

    def here(states: Any) -> Any:
        """Leaves (clusters,) as (clusters of a device,); zero if there is no cluster."""
        leaves, treedef = jax.tree.flatten(states)
        whole = jnp.zeros((len(leaves), lax.axis_size(axis) * own), leaves[0].dtype).at[:, slot].set(jnp.stack(leaves))
        mine = lax.dynamic_slice_in_dim(whole, lax.axis_index(axis) * own, own, 1)
        return jax.tree.unflatten(treedef, list(mine))

    order = np.arange(tree.n)
    in_a_row = native and (tree.parent == order - 1).all()

    def enter(act: Callable, spines: Any, base: Any) -> Any:
        elements = everywhere(spines)
        if in_a_row:
            return here(_along("enter", order, act, elements, base))
        return here(rootfix(tree, OutwardRecursion(step=act), elements, base, schedule="levels", exclusive=True))

    def receive(act: Callable, spines: Any, passed: Any) -> Any:
        def step(row: Any, state: Any) -> Any:
            return tree_map(jnp.add, act(row[0], state), row[1])

        elements, like = everywhere((spines, passed)), tree_map(lambda x: x[0], passed)
        if in_a_row:
            return here(_along("receive", order[::-1], step, elements, tree_map(jnp.zeros_like, like)))
        return here(leaffix(tree, InwardRecursion(step=step), elements, like, schedule="levels", exclusive=True))

    return SharedPorts(exist, first, last, carries, enter, receive)

"""What passes between the devices that hold one tree: an element of each cluster's spine, once for each pass.

A cluster (tree/clusters.py) acts on what enters it as a single row does, so the clusters are a small tree. Every device
receives the elements of all of them, walks that small tree by itself, and keeps what concerns its own.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from kinetree.tree import Inward, Outward, Tree, leaffix, rootfix

from ..schedules.stage_passes import Ports

tree_map = jax.tree.map


def ports_between(axis: str, tree: Tree, slot: np.ndarray, exist: Any, first: Any, last: Any, carries: Any) -> Ports:
    """The ports of the device that runs this, among those along a mesh axis.

    Arguments:
        axis: of the mesh.
        tree: the tree of all clusters.
        slot: where each cluster is: device · clusters of a device + number there.
        exist, first, last, carries: (clusters of a device,), see `Ports`.
    """
    own = exist.shape[0]

    def everywhere(values: Any) -> Any:
        """Leaves (clusters of a device,) as (clusters,), in one message."""
        leaves, treedef = jax.tree.flatten(values)
        together = lax.all_gather(jnp.stack(leaves), axis)  # (devices, fields, clusters of a device)
        flat = jnp.moveaxis(together, 1, 0).reshape(len(leaves), -1)
        return jax.tree.unflatten(treedef, list(flat.at[:, slot].get(mode="promise_in_bounds")))

    def here(states: Any) -> Any:
        """Leaves (clusters,) as (clusters of a device,); zero where there is none."""
        leaves, treedef = jax.tree.flatten(states)
        whole = jnp.zeros((len(leaves), lax.axis_size(axis) * own), leaves[0].dtype).at[:, slot].set(jnp.stack(leaves))
        mine = lax.dynamic_slice_in_dim(whole, lax.axis_index(axis) * own, own, 1)
        return jax.tree.unflatten(treedef, list(mine))

    def enter(act: Callable, spines: Any, base: Any) -> Any:
        op = Outward(step=act)
        return here(rootfix(tree, op, everywhere(spines), base, schedule="levels", exclusive=True))

    def receive(act: Callable, spines: Any, passed: Any) -> Any:
        op = Inward(step=lambda row, state: tree_map(jnp.add, act(row[0], state), row[1]))
        like = tree_map(lambda x: x[0], passed)
        return here(leaffix(tree, op, everywhere((spines, passed)), like, schedule="levels", exclusive=True))

    return Ports(exist, first, last, carries, enter, receive)

"""The tree with constraints in it, and mimic joints: (Gᵀ A G) x = Gᵀ (b + Jᵀg), solved densely.

With x_all = G x, mimic joints fill in the matrix, so there is no elimination along the tree. A times a vector is still
two sweeps; all columns of A G go side by side.
"""

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.dynamics.matrices.dense import solve_spd
from kinetree.model import Coupling
from kinetree.spatial import Scalar
from kinetree.tree import Layout, restore

from .sweeps import Answer, Loaded, motion, transposed


def _times(laid: Layout, rows: Loaded, x: Scalar) -> Scalar:
    """A x, by position."""
    force = rows.own.body.inertia @ motion(laid, rows.link, x).a
    return transposed(laid, rows.link, force) + rows.resistance * x


def solve_coupled(laid: Layout, coupling: Coupling, rows: Loaded, old: Scalar) -> Answer:
    """x of every position, as `sweeps.solve` has it."""
    if rows.link.n is not None:
        raise ValueError("a model with mimic joints can not have limits on ball joints")
    position_of = np.asarray(laid.position_of)
    n, batch = len(position_of), old.shape[-1]
    G = np.zeros((n, coupling.nv))
    G[np.arange(n), coupling.source_v] = coupling.ratio_v
    placed = np.zeros((laid.positions, coupling.nv))
    placed[position_of] = G
    reduce, widen = jnp.asarray(G, old.dtype), jnp.asarray(placed, old.dtype)

    side_by_side = jax.tree.map(lambda x: x[:, None], rows)
    unit = jnp.broadcast_to(widen[:, :, None], (*placed.shape, batch))
    columns = restore(laid, _times(laid, side_by_side, unit))  # (rows, columns, batch)
    matrix = jnp.einsum("vk,vlb->bkl", reduce, columns)
    force = rows.force - transposed(laid, rows.link, rows.own.body.bias)
    right = jnp.einsum("vk,vb->bk", reduce, restore(laid, force))
    x = jnp.einsum("pk,bk->pb", widen, solve_spd(matrix, right[..., None])[..., 0])
    dx = x - old
    new, change = motion(laid, rows.link, x), motion(laid, rows.link, dx)
    return Answer(new, change, x, dx, dx * _times(laid, rows, dx), x * _times(laid, rows, x))

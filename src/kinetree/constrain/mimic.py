"""The tree with constraints in it, and mimic joints: (Gᵀ A G) x = Gᵀ (b + Jᵀg), solved densely.

With x_all = G x, mimic joints fill in the matrix, so it can not be eliminated along the tree. A times a vector is still
two sweeps; all columns of A G are computed side by side.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.dynamics.matrices.dense import solve_spd
from kinetree.model import Coupling
from kinetree.spatial import Force, Scalar
from kinetree.tree import Layout, restore

from .sweeps import Answer, Loaded, Reply, motion, times, transposed


class MimicInverse(NamedTuple):
    """G (Gᵀ A G)⁻¹ Gᵀ, with the methods of `sweeps.TreeInverse`."""

    laid: Layout
    rows: Loaded
    matrix: Any  # (batch, columns, columns)
    reduce: Any  # G, (rows, columns)
    widen: Any  # G by position

    @property
    def joint(self) -> Scalar:
        """The forces of the rows, on the joints."""
        return self.rows.force - transposed(self.laid, self.rows.link, self.rows.own.body.bias)

    def _solved(self, force: Scalar) -> Scalar:
        right = jnp.einsum("vk,vb->bk", self.reduce, restore(self.laid, force))
        return jnp.einsum("pk,bk->pb", self.widen, solve_spd(self.matrix, right[..., None])[..., 0])

    def answer(self, joint: Scalar, old: Scalar) -> Answer:
        """x of every position under these forces; Δx is measured from `old`."""
        x = self._solved(joint)
        dx = x - old
        new, change = (motion(self.laid, self.rows.link, y) for y in (x, dx))
        shares = (y * times(self.laid, self.rows, y) for y in (dx, x))
        return Answer(new, change, x, dx, *shares)

    def first(self, old: Scalar, force: Scalar, bias: Force) -> Answer:
        """The answer to the rows' own forces and these."""
        return self.answer(self.joint + force - transposed(self.laid, self.rows.link, bias), old)

    def reply(self, force: Scalar, bias: Force, share: Scalar | float = 0.0) -> Reply:
        """The reply to these forces and a share of the rows' own."""
        force = force - transposed(self.laid, self.rows.link, bias) + share * self.joint
        x = self._solved(force)
        return Reply(motion(self.laid, self.rows.link, x), x, x * force)


def mimic_inverse(laid: Layout, coupling: Coupling, rows: Loaded) -> MimicInverse:
    """The matrix of all columns side by side."""
    if rows.link.n is not None:
        raise ValueError("a model with mimic joints can not have limits on ball joints")
    position_of = np.asarray(laid.position_of)
    n, batch, dtype = len(position_of), rows.force.shape[-1], rows.force.dtype
    G = np.zeros((n, coupling.nv))
    G[np.arange(n), coupling.source_v] = coupling.ratio_v
    placed = np.zeros((laid.positions, coupling.nv))
    placed[position_of] = G
    reduce, widen = jnp.asarray(G, dtype), jnp.asarray(placed, dtype)
    side_by_side = jax.tree.map(lambda x: x[:, None], rows)
    unit = jnp.broadcast_to(widen[:, :, None], (*placed.shape, batch))
    columns = restore(laid, times(laid, side_by_side, unit))  # (rows, columns, batch)
    return MimicInverse(laid, rows, jnp.einsum("vk,vlb->bkl", reduce, columns), reduce, widen)

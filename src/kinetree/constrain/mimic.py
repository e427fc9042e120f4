"""The tree with constraints in it, and mimic joints: (Gᵀ A G) x = Gᵀ (b + Jᵀg), solved densely.

With x_all = G x, mimic joints fill in the matrix, so it can not be eliminated along the tree. A times a vector is still
two sweeps; all columns of A G are computed side by side.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.dynamics.matrices.dense import solve_spd
from kinetree.dynamics.schedules.whole import Recursions
from kinetree.model import Coupling
from kinetree.spatial import Force, Motion, Scalar
from kinetree.tree import restore

from .groups import Load
from .sweeps import TreeInverse, times


@dataclass(frozen=True)
class MimicInverse(TreeInverse):
    """G (Gᵀ A G)⁻¹ Gᵀ."""

    matrix: Any = None  # (batch, columns, columns)
    reduce: Any = None  # G, (rows, columns)
    widen: Any = None  # G by position

    def kept(self) -> "MimicInverse":
        """The matrix is kept already."""
        return self

    def solved(self, force: Scalar, bias: Force) -> tuple[Scalar, Motion]:
        """x and the rows' motion under these forces alone."""
        on_joints = restore(self.laid, force - self.laid.transposed(bias))
        right = jnp.einsum("vk,vb->bk", self.reduce, on_joints)
        x = jnp.einsum("pk,bk->pb", self.widen, solve_spd(self.matrix, right[..., None])[..., 0])
        return x, self.laid.velocities(x)


def mimic_inverse(laid: Recursions, coupling: Coupling, load: Load) -> MimicInverse:
    """The matrix of all columns side by side."""
    rows, dtype = len(coupling.source_v), load.force.dtype
    G = np.zeros((rows, coupling.nv))
    G[np.arange(rows), coupling.source_v] = coupling.ratio_v
    reduce = jnp.asarray(G, dtype)
    widen = jnp.zeros((laid.positions, coupling.nv), dtype).at[laid.position_of].set(reduce)

    def column(unit: Any) -> Any:
        """A G for one column of G, by position: (rows, batch)."""
        return restore(laid, times(laid, load, jnp.broadcast_to(unit[:, None], load.force.shape)))

    columns = jax.vmap(column, 1, 1)(widen)  # (rows, columns, batch)
    return MimicInverse(laid, load, None, jnp.einsum("vk,vlb->bkl", reduce, columns), reduce, widen)

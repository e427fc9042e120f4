"""The tree with rigid loops: A x = f + Gᵀλ with G x = g, by the factors of A and a small matrix G A⁻¹ Gᵀ.

Newton's method and conjugate gradients need A⁻¹ of forces. This is A⁻¹ within the motions that the loops leave free, an
affine map: x = A⁻¹ f + A⁻¹ Gᵀ (G A⁻¹ Gᵀ)⁺ (g − G A⁻¹ f).
"""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import register_dataclass

from kinetree.dynamics.loops.rows import LoopRows, row_layout, wanted
from kinetree.dynamics.matrices.semidefinite import SemidefiniteFactors, factor, scale_of, solve_factored
from kinetree.model import Loops
from kinetree.spatial import Force, Scalar
from kinetree.tree import Layout

from .sweeps import Answer, Reply, TreeInverse


@register_dataclass
@dataclass(frozen=True)
class Rigid:
    """Rows of loops, by position."""

    G: Scalar  # (positions, m, batch)
    ref: Scalar  # (m, batch): the wanted G x
    classes: tuple[int, ...] = field(metadata={"static": True})

    def of(self, x: Scalar) -> Scalar:
        """G x, (m, batch)."""
        return jnp.einsum("pmb,pb->mb", self.G, x)

    def put(self, force: Scalar) -> Scalar:
        """Gᵀ force, by position."""
        return jnp.einsum("pmb,mb->pb", self.G, force)

    def asking(self, ref: Scalar) -> "Rigid":
        """These rows with another `ref`."""
        return replace(self, ref=ref)


class RigidInverse(NamedTuple):
    """A⁻¹ with loops, with the methods of `sweeps.TreeInverse`."""

    inner: TreeInverse
    rows: Rigid
    answers: Scalar  # A⁻¹ Gᵀ, (positions, m, batch)
    K: Any  # G A⁻¹ Gᵀ, (batch, m, m)
    factors: SemidefiniteFactors

    def kept(self) -> "RigidInverse":
        """The factors are kept already."""
        return self

    def force(self, x: Scalar, ref: Scalar) -> Scalar:
        """λ that makes G x equal to `ref`, (m, batch)."""
        first = self._solved(ref - self.rows.of(x))
        return first + self._solved(ref - self.rows.of(x + self.moved(first)))

    def moved(self, force: Scalar) -> Scalar:
        """A⁻¹ Gᵀ force, by position."""
        return jnp.einsum("pmb,mb->pb", self.answers, force)

    def _solved(self, right: Scalar) -> Scalar:
        return solve_factored(self.K, self.factors, right.T).T

    def answer(self, old: Scalar) -> Answer:
        """x of every position under the load; Δx is measured from `old`."""
        zero = jnp.zeros_like(old)
        return self.first(old, zero, Force.zero_like(zero))

    def first(self, old: Scalar, force: Scalar, bias: Force) -> Answer:
        """The answer to the load and these forces."""
        multipliers = self.force(self.inner.reply(force, bias, 1.0).x, self.rows.ref)
        return self.inner.first(old, force + self.rows.put(multipliers), bias)._replace(multipliers=multipliers)

    def bordered(self, force: Scalar, gap: Scalar) -> tuple[Scalar, Scalar]:
        """x and λ of A x − Gᵀ λ = force, G x = gap."""
        x = self.inner.reply(force, Force.zero_like(force)).x
        multipliers = self.force(x, gap)
        return x + self.moved(multipliers), multipliers

    def reply(self, force: Scalar, bias: Force, share: Scalar | float = 0.0) -> Reply:
        """The answer to these forces and a share of the load; the `ref` of the loops is scaled by the same share."""
        found = self.inner.reply(force, bias, share)
        x = found.x + self.moved(self.force(found.x, share * self.rows.ref))
        return Reply(self.inner.laid.velocities(x), x, found.squared)


def rigid_inverse(inner: TreeInverse, rows: Rigid) -> RigidInverse:
    """All answers side by side, and the factors of the small matrix."""
    inner, bias = inner.kept(), Force.zero_like(jnp.zeros(rows.G.shape[::2], rows.G.dtype))
    answers = jax.vmap(lambda force: inner.reply(force, bias).x, 1, 1)(rows.G)
    K = jnp.einsum("pmb,pkb->bmk", rows.G, answers)
    K = 0.5 * (K + jnp.swapaxes(K, 1, 2))
    return RigidInverse(inner, rows, answers, K, factor(K, scale_of(K, np.array(rows.classes))))


def rigid_rows(laid: Layout, loops: Loops, rows: LoopRows) -> Rigid:
    """Rows of a state, by position."""
    by_row = jnp.transpose(rows.G, (2, 1, 0))
    G = jnp.zeros((laid.positions, *by_row.shape[1:]), by_row.dtype).at[laid.position_of].set(by_row)  # zero elsewhere
    return Rigid(G, wanted(loops, rows).T, tuple(row_layout(loops).classes.tolist()))

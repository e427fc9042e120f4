"""H = LᵀDL on the ancestor pairs: the factorization that keeps the sparsity of a tree.

L is unit lower triangular with nonzeros only where H has them, at (row, ancestor). Elimination from the last row to the
first changes only ancestors of the current row, so there is no fill-in, and the cost is O(n · depth²) (Featherstone,
slides "Sparse Factorization" and "Exploiting Sparsity"; RBDA §6.5). Three ways give the same result:
    lanes        in place, triple by triple, states side by side (ltdl_lanes.py); `sequential` is the same by XLA
    levels       all rows of a level at once, Schur complements passed inward (ltdl_levels.py)
    dense        for deep trees, where there is little sparsity to keep: Cholesky of H with rows and columns reversed
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._types import AnyArray, Array, Float
from kinetree._unknown import require_word
from kinetree.model import Model
from kinetree.model.arguments import evaluate, is_traced
from kinetree.model.memory import require_matrices
from kinetree.model.required import require_model
from kinetree.tree import Layout, Tree, layout

from ..inverse_dynamics import bias_force
from ..positive import without_singular
from ..schedules import tuning
from ..schedules.choose import IN_ORDER, choose_factorization, fills_lanes, note
from . import ltdl_lanes as lanes
from .crba import crba
from .dense import cholesky, solve_positive
from .ltdl_levels import factor_rows, factorize_levels, l_solve_levels, lt_solve_levels
from .packed import PackedMatrix, lower_times, lower_transpose_times, pack

SCHEDULES = ("lanes", "sequential", "levels", "dense")


def _chosen(tree: Tree, batch: int, asked: str) -> str:
    if asked != "auto":
        return asked
    choice = choose_factorization(tree, batch, lanes.triples(tree))
    note("factorization", choice)
    return choice.schedule


def _walks_pairs(tree: Tree, batch: int) -> bool:
    return tree.n_ancestor_pairs <= tuning.FACTORS_MAX_TURNS and fills_lanes(batch)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class LTDL:
    """The factors of H = LᵀDL: `values`, (..., pairs), has D at the pairs (i, i) and L at (i, ancestor)."""

    values: Float[AnyArray, "... pairs"]
    tree: Tree = field(metadata={"static": True})

    def _map(self, function: Any, b: Any = None) -> Any:
        given = {"values": (self.values, (self.tree.n_ancestor_pairs,))}
        return evaluate(function, **given, **({} if b is None else {"b": (b, (self.tree.n,))}))

    def _solve(self, program: Any, b: Any, *, lt: bool, d: bool, l: bool) -> Any:
        def compute(values: Any, b: Any) -> Any:
            if _walks_pairs(self.tree, len(b)):
                return program(self.tree, values, b)
            return _solve_levels(layout(self.tree, "levels"), self.tree, values, b, lt, d, l)

        return self._map(compute, b)

    def solve(self, b: Float[Array, "... nv"]) -> Float[Array, "... nv"]:
        """H⁻¹ b, for b (..., nv)."""
        return self._solve(lanes.SOLVE, b, lt=True, d=True, l=True)

    def solve_lt(self, b: Float[Array, "... nv"]) -> Float[Array, "... nv"]:
        """L⁻ᵀ b."""
        return self._solve(lanes.SOLVE_LT, b, lt=True, d=False, l=False)

    def solve_l(self, b: Float[Array, "... nv"]) -> Float[Array, "... nv"]:
        """L⁻¹ b."""
        return self._solve(lanes.SOLVE_L, b, lt=False, d=False, l=True)

    def times_l(self, x: Float[Array, "... nv"]) -> Float[Array, "... nv"]:
        """L x."""
        pairs = self.tree.ancestor_pairs
        return self._map(lambda values, b: lower_times(_unit(values, pairs), b, pairs), x)

    def times_lt(self, x: Float[Array, "... nv"]) -> Float[Array, "... nv"]:
        """Lᵀ x."""
        pairs = self.tree.ancestor_pairs
        return self._map(lambda values, b: lower_transpose_times(_unit(values, pairs), b, pairs), x)

    @property
    def D(self) -> Float[AnyArray, "... nv"]:
        """The diagonal, (..., nv); all positive where H is positive definite."""
        return self.values[..., self.tree.ancestor_start[:-1]]

    @property
    def L(self) -> Float[AnyArray, "... nv nv"]:
        """Dense, (..., nv, nv), unit lower triangular."""
        i, j = pairs = self.tree.ancestor_pairs
        n = self.tree.n

        def dense(values: Any) -> Any:
            require_matrices("the factor L", values, n, n, copies=1, instead="solve_l, solve_lt, times_l and times_lt")
            return jnp.zeros((len(values), n, n), values.dtype).at[:, i, j].set(_unit(values, pairs))

        return self._map(dense)

    def log_determinant(self) -> Float[AnyArray, "..."]:
        """log det H = Σ log D."""
        return self._map(lambda values: jnp.log(values[:, self.tree.ancestor_start[:-1]]).sum(-1))

    def determinant(self) -> Float[AnyArray, "..."]:
        """det H = Π D; overflows where its logarithm does not."""
        return self._map(lambda values: values[:, self.tree.ancestor_start[:-1]].prod(-1))


def _unit(values: Any, pairs: Any) -> Any:
    i, j = pairs
    return jnp.where(i == j, jnp.ones((), values.dtype), values)


@partial(jax.jit, static_argnames=("tree", "lt", "d", "l"))
def _solve_levels(laid: Layout, tree: Tree, values: Any, b: Any, lt: bool, d: bool, l: bool) -> Any:
    rows = factor_rows(tree, values)
    b = lt_solve_levels(laid, rows, b) if lt else b
    b = b / values[:, tree.ancestor_start[:-1]] if d else b
    return l_solve_levels(laid, rows, b) if l else b


_factorize_levels = jax.jit(factorize_levels, static_argnames="tree")


@jax.jit
def _factorize_dense(H: Any, pairs: Any) -> Any:
    """With both orders reversed LᵀDL is the ordinary G Gᵀ: L = G / √D, upside down.

    The pairs are an operand: XLA takes seconds to fold the millions of constants of a large tree.
    """
    G = cholesky(H[:, ::-1, ::-1])
    root = jnp.diagonal(G, axis1=1, axis2=2)
    L = jnp.swapaxes(G / root[:, None, :], 1, 2)[:, ::-1, ::-1]
    i, j = pairs
    return jnp.where(i == j, (root * root)[:, ::-1][:, i], L[:, i, j])


def factorize_packed(tree: Tree, H: Any, schedule: str) -> Any:
    """Packed LᵀDL of packed H, (batch, pairs)."""
    if schedule in IN_ORDER:
        return lanes.FACTORIZE(tree, H, schedule=schedule)
    if schedule == "levels":
        return _factorize_levels(layout(tree, "levels"), tree, H)
    return _factorize_dense(PackedMatrix(H, tree).dense(), tree.ancestor_pairs)


def factorize(model: Model, H: Float[AnyArray, "... nv nv"] | PackedMatrix, *, schedule: str = "auto") -> LTDL:
    """Factors of a mass matrix, H = LᵀDL, without fill-in.

    Arguments:
        model: the mechanism; its tree defines where H is zero. Entries there are not read.
        H: (..., nv, nv), or the `PackedMatrix` of `mass_matrix(packed=True)`.
        schedule: "auto", "lanes", "sequential", "levels" or "dense".

    Returns:
        LTDL, with `.solve(b)`, `.L`, `.D`, products and solves with L and Lᵀ, and the determinant.

    Raises:
        ValueError: if H is not positive definite (not under tracing).

    Reference: Featherstone 2008 §6.5, table 6.3.
    """
    require_model(model)
    require_word("schedule", schedule, ("auto", *SCHEDULES))
    if model.coupling is not None:
        raise ValueError(
            "mimic joints fill in the mass matrix: factorize it as a dense matrix, or use `forward_dynamics`"
        )
    tree = model.tree
    packed = isinstance(H, PackedMatrix)

    def compute(H: Any) -> Any:
        H = H if packed else pack(tree, H)
        chosen = _chosen(tree, len(H), schedule)
        return factorize_packed(tree, H, chosen) if tree.n else H

    given = (H.values, (tree.n_ancestor_pairs,)) if packed else (H, (tree.n, tree.n))
    factors = LTDL(evaluate(compute, H=given), tree)
    if not is_traced(factors.D) and not np.all(np.asarray(factors.D) > 0):
        row = int(np.argwhere(~(np.asarray(factors.D) > 0))[-1, -1])
        body = int(np.searchsorted(model.structure.v_start, row, side="right")) - 1
        raise ValueError(
            f"H is not positive definite in this precision: its pivot at row {row}, of joint "
            f"{model.joint_names[body]!r}, is not positive"
        )
    return factors


def forward_dynamics_crba(model: Model, q: Any, qd: Any, tau: Any, f_ext: Any, *, schedule: str = "auto") -> Any:
    """Accelerations, (batch, nv): H by CRBA, its LᵀDL, q̈ = H⁻¹ (τ − C). `schedule` is that of the factorization."""
    tree = model.tree
    b = tau - bias_force(model, q, qd, f_ext)
    chosen = _chosen(tree, q.shape[0], schedule)
    if chosen == "dense":
        return without_singular(model, q, solve_positive(crba(model, q), b))
    factors = LTDL(factorize_packed(tree, crba(model, q, packed=True), chosen), tree)
    return without_singular(model, q, factors.solve(b))

"""The constraint force algorithm (Fijany, Sharf and D'Eleuterio 1995) as in Yang, Wu and Pan 2017, Algorithms 1 and 2.

The force through a joint has a known part along its motions, and a part that does no work: F = S (SᵀS)⁻¹ τδ + W Fc with
Wᵀ S = 0 (eq. 14). The accelerations of neighbours differ by a motion of their joint, Wᵀ (V̇ᵢ − Ad V̇ᵢ₋₁) = 0. This is a
block tridiagonal system for the constraint forces (eq. 15), with Ψ = J⁻¹ of each body
    Dᵢ = Wᵢᵀ (Ψᵢ + Xᵢ Ψᵢ₋₁ Xᵢᵀ) Wᵢ          Uᵢ = −Wᵢᵀ Ψᵢ Xᵢ₊₁ᵀ Wᵢ₊₁
which odd-even elimination makes diagonal in ceil(log2 n) steps (eq. 19). τδ = τ − bias, by inverse dynamics. Serial
chains only; joints may have several degrees of freedom; every body needs an inertia, and joints can have no armature.

Relative error in float64 against 80-bit, 2-norm, chains of skew 0.3 and taper 1, random states (qd of size 1):
    n        16       64       256      1024     4096     16384
    error    7.7e-11  4.1e-10  7.9e-08  4.8e-07  9.7e-06  2.0e-04      (aba: 4e-16 to 2.6e-13)
The error grows about as n²: from n = 256 on it is more than float32's rounding, and beyond n = 16 384 the method is
unusable.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._varying import fori_loop
from kinetree.model import Model
from kinetree.model.arguments import is_traced
from kinetree.tree import Layout, layout

from ..inverse_dynamics import bias_force
from ..matrices.dense import orthonormal_basis, solve_spd, times, transpose
from .jointed_bodies import JointedBodies, by_dof, joint_tree, jointed_bodies, require_inertias


class Tridiagonal(NamedTuple):
    """Diagonal blocks, blocks above it (the last one zero), right-hand sides: (n, batch, ...)."""

    D: Any
    U: Any
    R: Any


def _solve(D: Any, *right: Any) -> tuple[Any, ...]:
    """D⁻¹ times each."""
    columns = [r if r.ndim == D.ndim else r[..., None] for r in right]
    solved = jnp.split(solve_spd(D, jnp.concatenate(columns, -1)), np.cumsum([c.shape[-1] for c in columns])[:-1], -1)
    return tuple(s if r.ndim == D.ndim else s[..., 0] for r, s in zip(right, solved, strict=True))


def odd_even_elimination(system: Tridiagonal) -> Any:
    """The solution, (n, batch, 6), by Algorithm 2: step j eliminates the coupling of rows 2^(j−1) apart."""
    n = system.D.shape[0]
    place = jnp.arange(n)

    def step(j: Any, s: Tridiagonal) -> Tridiagonal:
        reach = jnp.left_shift(1, j)

        def shifted(x: Any, by: Any) -> Any:  # zero beyond the ends
            inside = ((place + by >= 0) & (place + by < n)).reshape(-1, *(1,) * (x.ndim - 1))
            return jnp.where(inside, x[(place + by) % n], jnp.zeros_like(x))

        right_U, right_R = _solve(s.D, s.U, s.R)  # D⁻¹ U and D⁻¹ R of each row, for the row `reach` after
        left_U, left_R = _solve(s.D, transpose(shifted(s.U, -reach)), s.R)  # D⁻¹ U₋ᵀ and D⁻¹ R, for the row before
        # E = U D₊⁻¹ and K = U₋ᵀ D₋⁻¹ of eq. 19, never formed alone
        Et, before = shifted(left_U, reach), shifted(s.U, -reach)
        D = s.D - s.U @ Et - transpose(before) @ shifted(right_U, -reach)
        R = s.R - times(s.U, shifted(left_R, reach)) - times(transpose(before), shifted(right_R, -reach))
        return Tridiagonal(0.5 * (D + transpose(D)), -(s.U @ shifted(right_U, reach)), R)

    done = fori_loop(0, (n - 1).bit_length(), step, system)
    return _solve(done.D, done.R)[0]


def _constraints(bodies: JointedBodies) -> tuple[Any, Any, Any]:
    """W (6, 6) of every joint, zero in unused columns; which columns are used; and SᵀS, made regular."""
    moves = (bodies.P != 0).any(-2)
    Q = orthonormal_basis(bodies.P)
    used = jnp.arange(6) >= moves.sum(-1)[..., None]
    W = Q * used[..., None, :].astype(Q.dtype)
    square = transpose(bodies.P) @ bodies.P
    gram = square + (~moves)[..., None].astype(Q.dtype) * jnp.eye(square.shape[-1], dtype=Q.dtype)
    return W, used, gram


def _before(x: Any) -> Any:
    """The values of the next body inward; zero for the base."""
    return jnp.concatenate([jnp.zeros_like(x[:1]), x[:-1]])


def _after(x: Any) -> Any:
    return jnp.concatenate([x[1:], jnp.zeros_like(x[:1])])


@jax.jit
def _cfa(laid: Layout, model: Model, q: Any, tau: Any) -> Any:
    bodies = jointed_bodies(laid, model, q, jnp.zeros_like(tau), tau, None)
    one = jnp.broadcast_to(jnp.eye(6, dtype=q.dtype), bodies.I.shape)
    psi = solve_spd(bodies.I, one)
    W, used, gram = _constraints(bodies)
    X, Xt = bodies.X, transpose(bodies.X)
    coupling = psi + X @ _before(psi) @ Xt
    across = -(psi @ _after(Xt))  # of joint i with joint i + 1
    known = times(bodies.P, solve_spd(gram, bodies.tau[..., None])[..., 0])

    def differences(f: Any) -> Any:
        """V̇ᵢ − Xᵢ V̇ᵢ₋₁ of forces through the joints, eq. 10."""
        return times(coupling, f) + times(across, _after(f)) + times(transpose(_before(across)), _before(f))

    D = transpose(W) @ coupling @ W + one * (~used)[..., None].astype(q.dtype)
    system = Tridiagonal(D, transpose(W) @ across @ _after(W), -times(transpose(W), differences(known)))
    f = known + times(W, odd_even_elimination(system))
    along = times(transpose(bodies.P), differences(f))
    return by_dof(model.structure, solve_spd(gram, along[..., None])[..., 0])


def forward_dynamics_cfa(model: Model, q: Any, qd: Any, tau: Any, f_ext: Any) -> Any:
    """Accelerations, (batch, nv)."""
    tree = joint_tree(model.structure).tree
    if (tree.parent != np.arange(tree.n) - 1).any():
        raise ValueError("method 'cfa' serves serial chains only, and this tree branches: choose 'aba' or 'dca'")
    if not is_traced(model.rows.armature) and np.any(model.rows.armature):
        raise ValueError("method 'cfa' can not serve joints with armature: choose 'aba'")
    require_inertias(model, "cfa")
    laid = layout(model.tree, "paths")
    return _cfa(laid, model, q, tau - bias_force(model, q, qd, f_ext))

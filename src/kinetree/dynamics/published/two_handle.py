"""Two-handle equations: subsystems of a chain, how two are joined, and how a joined one is separated.

Critchley, Anderson and Binani 2007, eq. 15 – 42; in eq. 32, 34 – 36 and 38 – 42 as printed some superscripts of the
child are the parent's, corrected here. A subsystem has a handle at each end:
    A1 = Φ11 f1 + Φ12 f2 + b1          A2 = Φ21 f1 + Φ22 f2 + b2                                       (15, 16)
Handle 1 is the frame of its innermost body. Handle 2 is at the next joint, in the coordinates of the body beyond, so
that joining needs no transforms. f1 and f2 act on the subsystem. Joint forces τ and armature, which are part of F in
the paper, are written out: Pᵀ f = τ − armature u̇. Arrays have any leading axes.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

from ..matrices.dense import solve_spd, times, transpose


class Subsystem(NamedTuple):
    """Φ and b of eq. 15 and 16."""

    phi11: Any
    phi12: Any
    phi21: Any
    phi22: Any
    b1: Any
    b2: Any


class JointMotion(NamedTuple):
    """A joint: its motions P (6, k), force and armature (k,)."""

    P: Any
    tau: Any
    armature: Any


class Junction(NamedTuple):
    """The values of a joint that are kept for the separation."""

    inverse: Any  # Φ⁻¹ of eq. 24
    K: Any  # Φ⁻¹ P
    D: Any  # Pᵀ Φ⁻¹ P + armature, and its inverse times τ and Kᵀ:
    D_tau: Any
    D_K: Any

    @property
    def W(self) -> Any:
        """Eq. 27; negative semidefinite."""
        return self.K @ self.D_K - self.inverse

    def rate(self, difference: Any) -> Any:
        """u̇ of eq. 23, from {...} there: acceleration of the child's handle minus the parent's, with a free joint."""
        return self.D_tau + times(self.D_K, difference)

    def force(self, difference: Any) -> Any:
        """f1 of the child, eq. 25."""
        return times(self.K, self.rate(difference)) - times(self.inverse, difference)


def junction(phi: Any, joint: JointMotion) -> Junction:
    """The junction of a joint between handles whose sum of Φ is `phi` (eq. 24)."""
    identity = jnp.broadcast_to(jnp.eye(6, dtype=phi.dtype), phi.shape)
    inverse = solve_spd(phi, identity)
    inverse = 0.5 * (inverse + transpose(inverse))
    K = inverse @ joint.P
    D = transpose(joint.P) @ K + joint.armature[..., None] * jnp.eye(K.shape[-1], dtype=phi.dtype)
    solved = solve_spd(D, jnp.concatenate([joint.tau[..., None], transpose(K)], -1))
    return Junction(inverse, K, D, solved[..., 0], solved[..., 1:])


class JoinedPair(NamedTuple):
    """The values that the separation of a joined subsystem needs."""

    at: Junction
    child12: Any
    parent21: Any
    gap: Any  # b1 of the child minus b2 of the parent


def join(parent: Subsystem, child: Subsystem, joint: JointMotion) -> tuple[Subsystem, JoinedPair]:
    """Eq. 31 – 36."""
    at = junction(child.phi11 + parent.phi22, joint)
    W, gap = at.W, child.b1 - parent.b2
    d = times(W, gap) + times(at.K, at.D_tau)  # (28), with τ
    WC, WP = W @ child.phi12, W @ parent.phi21
    whole = Subsystem(
        parent.phi11 + parent.phi12 @ WP,  # (31)
        -(parent.phi12 @ WC),  # (32)
        -(child.phi21 @ WP),  # (35)
        child.phi22 + child.phi21 @ WC,  # (34)
        parent.b1 - times(parent.phi12, d),  # (33)
        child.b2 + times(child.phi21, d),  # (36)
    )
    return whole, JoinedPair(at, child.phi12, parent.phi21, gap)


def separate(joined: JoinedPair, f1: Any, f2: Any) -> tuple[Any, Any]:
    """u̇ of the joint and f1 of the child (eq. 23, 26), from the forces at the handles of the whole."""
    difference = joined.gap + times(joined.child12, f2) - times(joined.parent21, f1)
    return joined.at.rate(difference), joined.at.force(difference)

"""The terms of the closed forms: the part of a moving body, and of all bodies that it carries, in the derivatives.

After Singh, Russo and Wensing, "Efficient Analytical Derivatives of Rigid-Body Dynamics using Spatial Vector Algebra"
(2022), with everything in coordinates that do not move. Joint j moves in its parent p(j) with axes S, so its body has
v = v_p + S qd and a = a_p + S qdd + ψ̇ qd. With the composites I, B, f over all that j carries and
    ψ̇ = v_p × S      ψ̈ = a_p × S + v_p × ψ̇      Ṡ = v × S
and a joint i that carries j (columns of S one by one; ψ̇ + Ṡ is 2 ψ̇ where the joint is a single screw),
    ∂τ_i/∂q_j  = S_i · (2 B ψ̇_j + I ψ̈_j + S_j ×* f)        ∂τ_j/∂q_i  = 2 Bᵀ S_j · ψ̇_i + I S_j · ψ̈_i
    ∂τ_i/∂qd_j = S_i · (2 B S_j + I (ψ̇ + Ṡ)_j)             ∂τ_j/∂qd_i = 2 Bᵀ S_j · S_i + I S_j · (ψ̇ + Ṡ)_i
    H_ij = H_ji = I S_j · S_i
The axes of one joint turn together with its body, so for two axes of one joint the term S_j ×* f is left out.

Forces on bodies are constant in the world while the bodies move. Their composite g is not part of f. They add −S_i ·
(S_j ×* g) to ∂τ_j/∂q_i; for two axes of one joint also S_i · (S_j ×* g) to ∂τ_i/∂q_j.

B is defined by 2 B = v ×* I − I v × + (I v) ×̄*. With J, h, m of the body and v = (ω, u) it is B = [[ω× J − ½ tr J ω× +
(u · h) 1 − u hᵀ, 0], [−p×, 0]],    p = m u − h × ω.
"""

from typing import Any, NamedTuple

from kinetree.spatial import Force, Inertia, Mat3, Motion, Scalar, Vec3


class VelocityProduct(NamedTuple):
    """B: its upper left block, and the momentum p of its lower one."""

    T: Mat3
    p: Vec3

    @staticmethod
    def of(I: Inertia, v: Motion) -> "VelocityProduct":
        """B of a body that moves. 45m 36a."""
        omega, u = v
        J, h = I.I, I.h
        half = -0.5 * (J.xx + J.yy + J.zz)
        columns = (Vec3(J.xx, J.xy, J.xz), Vec3(J.xy, J.yy, J.yz), Vec3(J.xz, J.yz, J.zz))
        x, y, z = (omega.cross(c) - u * k for c, k in zip(columns, h, strict=True))
        d, (a, b, c) = u.dot(h), omega * half
        T = Mat3(x.x + d, y.x - c, z.x + b, x.y + c, y.y + d, z.y - a, x.z - b, y.z + a, z.z + d)
        return VelocityProduct(T, u * I.mass - h.cross(omega))

    def twice(self, m: Motion) -> Force:
        """2 B m."""
        return Force(self.T @ m.angular, m.angular.cross(self.p)) * 2.0

    def transposed_twice(self, S: Motion) -> Vec3:
        """2 Bᵀ S, whose lower half is zero."""
        return (self.T.t_mul(S.angular) + self.p.cross(S.linear)) * 2.0


class Axes(NamedTuple):
    """The terms of a row that carries others, for pairs."""

    S: Motion
    turning: Vec3  # The angular part of ψ̇.
    second: Motion  # ψ̈
    both: Motion  # ψ̇ + Ṡ


class RowTerms(NamedTuple):
    """The terms of a row for pairs with the rows that carry it, and for its own diagonal."""

    by_q: Force
    by_qd: Force
    back: Vec3  # 2 Bᵀ S
    momentum: Force  # I S


class Entries(NamedTuple):
    """Entries of the matrices for rows i and j: of τ_i by j, of τ_j by i, and H_ij."""

    by_q: Scalar
    back_q: Scalar
    by_qd: Scalar
    back_qd: Scalar
    H: Scalar


def row_terms(
    S: Motion, rate: Motion, second: Motion, both: Motion, carried: tuple[Inertia, VelocityProduct, Force]
) -> RowTerms:
    """The terms of a row with these axes and these composites I, B, f."""
    I, B, f = carried
    by_q = B.twice(rate) + I @ second + S.cross_force(f)
    return RowTerms(by_q, B.twice(S) + I @ both, B.transposed_twice(S), I @ S)


def pair_entries(i: Axes, j: RowTerms, pulled: Any = None) -> Entries:
    """The entries of a row j and a row i that carries it; `pulled` is S_j ×* g, if forces act on bodies."""
    back_q = j.back.dot(i.turning) + i.second.dot(j.momentum)
    if pulled is not None:
        back_q = back_q - i.S.dot(pulled)
    back_qd = j.back.dot(i.S.angular) + i.both.dot(j.momentum)
    return Entries(i.S.dot(j.by_q), back_q, i.S.dot(j.by_qd), back_qd, i.S.dot(j.momentum))

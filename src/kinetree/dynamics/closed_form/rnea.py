"""Derivatives of inverse dynamics in closed form, as a lane program: ∂τ/∂q, ∂τ/∂qd and H, all at once, in O(n · depth).

After Singh, Russo and Wensing, "Efficient Analytical Derivatives of Rigid-Body Dynamics using Spatial Vector Algebra"
(2022), with everything in base coordinates. For a row j and a row i that carries it, with composites I, B, f over the
subtree of j, ψ̇ = v_parent × S and ψ̈ = a_parent × S + v_parent × ψ̇,
    ∂τ_i/∂q_j  = S_i · (2 B ψ̇_j + I ψ̈_j + S_j ×* f)        ∂τ_j/∂q_i  = 2 Bᵀ S_j · ψ̇_i + I S_j · ψ̈_i
    ∂τ_i/∂qd_j = S_i · 2 (B S_j + I ψ̇_j)                    ∂τ_j/∂qd_i = 2 Bᵀ S_j · S_i + 2 I S_j · ψ̇_i
    H_ij = H_ji = I S_j · S_i
One loop outward, one inward, one over the pairs, where a derivative costs a dot product or two. B is that of
2 B = v ×* I − I v × + (I v) ×̄*, of which, with J, h, m of the body and v = (ω, u), nothing is left but
    B = [[ω× J − ½ tr J ω× + (u · h) 1 − u hᵀ, 0], [−p×, 0]],    p = m u − h × ω.
"""

from typing import NamedTuple

import numpy as np

from kinetree.lanes import Lane, Loop, Memory
from kinetree.lanes.kept.once import once
from kinetree.model import Placement, Rows, Structure
from kinetree.spatial import Force, Inertia, Mat3, Motion, Sym3, Vec3

from ..schedules.lane_algorithm import LaneAlgorithm
from ..schedules.lane_parts import NUMBER, unrelated_turns, zeros_of_unrelated
from ..schedules.lane_rows import (
    GRAVITY,
    NOTHING,
    OWN,
    PARENT,
    PLACEMENT,
    ROWS,
    SCREW,
    ZERO3,
    Part,
    Q,
    Screw,
    Turns,
    V,
    base_gravity,
    base_turn,
    no_constants,
    row_turns,
    screw_constants,
    screw_place,
)

Q_IN, QD_IN, QDD_IN = range(3)
ANCESTOR, ROW, ENTRY, MIRROR = range(4)  # columns of the pair table: slots of both rows, places of (i, j) and (j, i)


class VelocityProduct(NamedTuple):
    """B: its upper left block, and the momentum p of its lower one."""

    T: Mat3
    p: Vec3

    @staticmethod
    def of(I: Inertia, v: Motion) -> "VelocityProduct":
        """Of a body that moves. 45m 36a."""
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


class Owed(NamedTuple):
    """What a row holds ready for the rows that carry it, and for itself."""

    by_q: Force
    by_qd: Force
    back: Vec3  # 2 Bᵀ S
    momentum: Force  # I S


def _owed(S: Motion, rate: Motion, second: Motion, I: Inertia, B: VelocityProduct, f: Force) -> Owed:
    momentum = I @ S
    return Owed(
        B.twice(rate) + I @ second + S.cross_force(f),
        B.twice(S) + (I @ rate) * 2.0,
        B.transposed_twice(S),
        momentum,
    )


@once
def rnea_derivatives() -> LaneAlgorithm:
    """q, qd, qdd to ∂τ/∂q, ∂τ/∂qd and H, nv² columns each, for models without quaternion joints."""
    motion, force = Motion(ZERO3, ZERO3), Force(ZERO3, ZERO3)
    product = VelocityProduct(Mat3(*9 * (0.0,)), ZERO3)
    memory = Memory(
        pose=PLACEMENT,
        v=motion,
        a=motion,
        S=motion,
        rate=motion,  # ψ̇
        second=motion,  # ψ̈
        I=Inertia(0.0, ZERO3, Sym3(*6 * (0.0,))),
        B=product,
        f=force,
        owed=Owed(force, force, ZERO3, force),
    )

    def at(column: int, *names: str) -> tuple:
        return tuple(memory.at(column, name) for name in names)

    def base(gravity: Vec3, _: tuple, __: tuple) -> tuple:
        s = gravity.x
        rest = Motion.zero_like(s)
        nothing = Inertia.zero_like(s)
        pushed = Motion(Vec3.zero_like(s), -gravity)
        return (
            (
                Placement.identity_like(s),
                rest,
                pushed,
                nothing,
                VelocityProduct.of(nothing, rest),
                Force.zero_like(s),
            ),
            (),
            (),
        )

    def outward(row: Rows, given: tuple, reads: tuple) -> tuple:
        q, qd, qdd = given
        pose, v, a = reads
        pose = screw_place(row, q) @ pose
        z = pose.orientation.rotation().rows[2]
        turning = z * row.turn
        S = Motion(turning, z * row.slide + pose.position.cross(turning))
        rate = v.cross(S)
        second = a.cross(S) + v.cross(rate)
        v = v + S * qd
        a = a + S * qdd + rate * qd
        I: Inertia = pose.transform.inertia_to_parent(row.inertia)
        f = I @ a + v.cross_force(I @ v)
        return (pose, v, a, S, rate, second, I, VelocityProduct.of(I, v), f), (), ()

    def inward(joint: Screw, _: tuple, reads: tuple) -> tuple:
        S, rate, second, I, B, f = reads
        owed = _owed(S, rate, second, I, B, f)
        own = (S.dot(owed.by_q), S.dot(owed.by_qd), S.dot(owed.momentum) + joint.armature)
        return (owed,), (I, B, f), own

    def pair(_: tuple, __: tuple, reads: tuple) -> tuple:
        S, rate, second, owed = reads
        by_q = owed.back.dot(rate.angular) + second.dot(owed.momentum)
        by_qd = owed.back.dot(S.angular) + 2.0 * rate.dot(owed.momentum)
        H = S.dot(owed.momentum)
        return (), (), (S.dot(owed.by_q), by_q, S.dot(owed.by_qd), by_qd, H, H)

    def diagonal(structure: Structure) -> Turns:
        table, rows = row_turns(memory, inward=True)(structure)
        table[:, Q] = rows * (structure.tree.n + 1)
        return table, rows

    def pairs(structure: Structure) -> Turns:
        tree = structure.tree
        j, i = (x.astype(np.int64) for x in tree.ancestor_pairs)
        strict = i != j
        i, j = i[strict], j[strict]
        columns = [memory.base(i), memory.base(j), i * tree.n + j, j * tree.n + i]
        return np.stack(columns, -1).astype(np.int32), j

    def out(*columns: int) -> tuple[Lane, ...]:
        return tuple(Lane(array, column) for array in range(3) for column in columns)

    moving = at(OWN, "pose", "v", "a", "S", "rate", "second", "I", "B", "f")
    resting = at(OWN, "pose", "v", "a", "I", "B", "f")
    inputs = (Lane(Q_IN, Q), Lane(QD_IN, V), Lane(QDD_IN, V))
    passed = at(PARENT, "I", "B", "f")
    carried = at(OWN, "S", "rate", "second", "I", "B", "f")
    empty = Loop(lambda zero, _, __: ((), (), (zero,) * 3), 1, NUMBER, outputs=out(0))
    parts = [
        Part(Loop(base, 4, GRAVITY, writes=resting), base_turn(memory), base_gravity),
        Part(Loop(outward, 4, ROWS, at(PARENT, "pose", "v", "a"), moving, inputs=inputs), row_turns(memory)),
        Part(Loop(inward, 4, SCREW, carried, at(OWN, "owed"), passed, outputs=out(Q)), diagonal, screw_constants),
        Part(
            Loop(pair, 4, NOTHING, at(ANCESTOR, "S", "rate", "second") + at(ROW, "owed"), outputs=out(ENTRY, MIRROR)),
            pairs,
            no_constants,
        ),
        Part(empty, unrelated_turns, zeros_of_unrelated),
    ]
    return LaneAlgorithm("rnea_derivatives", parts, memory, 3, 3, lambda s: (s.tree.n**2,) * 3)

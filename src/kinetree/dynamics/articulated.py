"""Articulated bodies: what a row passes to its parent when it is free to move along its screw (RBDA chapter 7).

A row, with all that hangs from it, answers an acceleration `a` of its frame with the force `f = IA a + pA`. Its joint
moves freely, so with U = IA S, d = Sᵀ U + armature and u = τ − Sᵀ pA
    qdd = (u − Uᵀ a′) / d,   a′ = X a_parent + c,   a = a′ + S qdd              (RBDA eq. 7.44 – 7.46)
and the parent sees   Xᵀ (IA − U Uᵀ/d) X   and   Xᵀ (pA + (IA − U Uᵀ/d) c + U u/d)   (7.47, 7.48).
Accelerations are spatial, and gravity is an acceleration of the base.
"""

from typing import NamedTuple

import jax.numpy as jnp

from kinetree.model import Axis
from kinetree.spatial import ArticulatedInertia, Force, Inertia, Mat3, Motion, Scalar, Sym3, Transform, Vec3


class Articulated(NamedTuple):
    """f = inertia · a + bias. States of this kind add up where branches meet."""

    inertia: ArticulatedInertia
    bias: Force

    @staticmethod
    def zero_like(s: Scalar) -> "Articulated":
        """Nothing, with components shaped like `s`."""
        return Articulated(ArticulatedInertia.zero_like(s), Force.zero_like(s))

    def __add__(self, o: "Articulated") -> "Articulated":  # type: ignore[override]
        """27a."""
        return Articulated(self.inertia + o.inertia, self.bias + o.bias)

    def __matmul__(self, a: Motion) -> Force:
        """The force that gives this acceleration. 36m 36a."""
        return self.inertia @ a + self.bias


class ArticulatedRow(NamedTuple):
    """What the inward pass knows of a row: its joint, its own inertia and bias, its velocity product, its force."""

    X: Transform
    axis: Axis
    armature: Scalar
    own: Articulated
    c: Motion
    tau: Scalar


class Pivot(NamedTuple):
    """What the joint of an articulated body needs to answer an acceleration."""

    U: Force
    d_inverse: Scalar
    u: Scalar

    def rate(self, a: Motion) -> Scalar:
        """qdd, where the frame would have acceleration `a` with the joint at rest. 7m 6a."""
        return (self.u - a.dot(self.U)) * self.d_inverse


def base_acceleration(gravity: Vec3) -> Motion:
    """Gravity as an acceleration of the base."""
    return Motion(Vec3.zero_like(gravity.x), -gravity)


def velocity_product(v: Motion, axis: Axis, qd: Scalar) -> Motion:
    """c = v × S qd, with S along z. 8m 2a."""
    w, s = axis.turn * qd, axis.slide * qd
    zero = jnp.zeros_like(w)
    (x, y, _), (vx, vy, _) = v
    return Motion(Vec3(y * w, -(x * w), zero), Vec3(y * s + vy * w, -(x * s + vx * w), zero))


def own_bias(I: Inertia, v: Motion) -> Force:
    """p = v ×* I v: the force on a body that moves on without acceleration. 42m 30a."""
    return v.cross_force(I @ v)


def along_axis(I: ArticulatedInertia, axis: Axis) -> Force:
    """U = I S: two columns of I, as S lies along z. 12m 6a."""
    A, B, C = I
    return Force(
        Vec3(A.xz, A.yz, A.zz) * axis.turn + Vec3(B.xz, B.yz, B.zz) * axis.slide,
        Vec3(B.zx, B.zy, B.zz) * axis.turn + Vec3(C.xz, C.yz, C.zz) * axis.slide,
    )


def pivot(axis: Axis, armature: Scalar, tau: Scalar, whole: Articulated) -> Pivot:
    """The joint of a row that carries `whole`. 16m 10a and a division."""
    U = along_axis(whole.inertia, axis)
    return Pivot(U, 1 / (axis.dot(U) + armature), tau - axis.dot(whole.bias))


def without_joint(I: ArticulatedInertia, axis: Axis, armature: Scalar, p: Pivot) -> ArticulatedInertia:
    """I − U Uᵀ/d, what is left of I where the joint moves freely. 27m 21a.

    Of its own direction a joint feels but its rotor: (I − U Uᵀ/d) S = U armature/d. For a hinge without one that is six
    zeros, put there as they are, so that programs that know of them leave out what they would be multiplied with.
    """
    A, B, C = I.without(p.U, p.d_inverse)
    free_hinge = (axis.turn == 1) & (axis.slide == 0) & (armature == 0)

    def felt(x: Scalar) -> Scalar:
        return jnp.where(free_hinge, jnp.zeros_like(x), x)

    A = Sym3(A.xx, A.yy, felt(A.zz), A.xy, felt(A.xz), felt(A.yz))
    return ArticulatedInertia(A, Mat3(*B[:6], *map(felt, B[6:])), C)


def released(axis: Axis, armature: Scalar, whole: Articulated, p: Pivot, c: Motion) -> Articulated:
    """The articulated body seen from the inner side of its joint, in row coordinates. 76m 69a."""
    left = without_joint(whole.inertia, axis, armature, p)
    return Articulated(left, whole.bias + left @ c + p.U * (p.u * p.d_inverse))


def to_parent(X: Transform, whole: Articulated) -> Articulated:
    """In the parent's coordinates. 213m 165a."""
    return Articulated(X.articulated_to_parent(whole.inertia), X.force_to_parent(whole.bias))


def articulated_step(row: ArticulatedRow, received: Articulated) -> Articulated:
    """What a row passes to its parent, given what it receives from its children."""
    whole = row.own + received
    joint = pivot(row.axis, row.armature, row.tau, whole)
    return to_parent(row.X, released(row.axis, row.armature, whole, joint, row.c))

"""Articulated bodies: the inertia and bias that a freely moving row passes to its parent (RBDA chapter 7).

algorithms/aba.py has the equations.

If H is singular, some d is zero, and the computed d is the rounding error of the inertias that went into it: those of
the children before their joints were released. `Scale` is the size of these. A d that is no larger than their rounding
error becomes NaN, and so does every acceleration of that tree.
"""

from typing import NamedTuple

import jax.numpy as jnp

from kinetree.model import Axis
from kinetree.spatial import ArticulatedInertia, Force, Inertia, Mat3, Motion, Scalar, Sym3, Transform, Vec3

ROUNDINGS = 2  # in units of ε: singular mechanisms have d below 0.2 ε of their scale, others above 1 000 ε in float32


class Scale(NamedTuple):
    """The size of inertias before they cancelled, over all directions. Their rounding error is ε times that."""

    turning: Scalar  # kg m²
    sliding: Scalar  # kg

    @staticmethod
    def zero_like(s: Scalar) -> "Scale":
        """Nothing, with components shaped like `s`."""
        return Scale(jnp.zeros_like(s), jnp.zeros_like(s))

    @staticmethod
    def of(I: ArticulatedInertia) -> "Scale":
        """Traces. 4a."""
        return Scale(I.A.xx + I.A.yy + I.A.zz, I.C.xx + I.C.yy + I.C.zz)

    def __add__(self, o: "Scale") -> "Scale":  # type: ignore[override]
        """2a."""
        return Scale(self.turning + o.turning, self.sliding + o.sliding)

    def along(self, axis: Axis) -> Scalar:
        """The scale of the inertia that a joint feels along its axis. 4m 1a."""
        return axis.turn * axis.turn * self.turning + axis.slide * axis.slide * self.sliding

    def to_parent(self, r: Vec3) -> "Scale":
        """The same about the origin of the parent; r is the position of the row in it. 4m 3a."""
        return Scale(self.turning + self.sliding * r.dot(r), self.sliding)


class Articulated(NamedTuple):
    """f = inertia · a + bias. States of this kind add up where branches meet."""

    inertia: ArticulatedInertia
    bias: Force
    scale: Scale | None  # of what children passed, a body's own inertia being exact; None if no d can be zero

    @staticmethod
    def zero_like(s: Scalar) -> "Articulated":
        """Nothing, with components shaped like `s`."""
        return Articulated(ArticulatedInertia.zero_like(s), Force.zero_like(s), Scale.zero_like(s))

    @staticmethod
    def exact(inertia: ArticulatedInertia, bias: Force) -> "Articulated":
        """A body as it is given: nothing has cancelled in it."""
        return Articulated(inertia, bias, Scale.zero_like(bias.linear.x))

    def __add__(self, o: "Articulated") -> "Articulated":  # type: ignore[override]
        """29a."""
        scale = None if self.scale is None or o.scale is None else self.scale + o.scale
        return Articulated(self.inertia + o.inertia, self.bias + o.bias, scale)

    def __matmul__(self, a: Motion) -> Force:
        """The force that gives this acceleration. 36m 36a."""
        return self.inertia @ a + self.bias


# The equations of a joint that moves freely stand here once, for every program that solves with a tree. S is a screw
# along z (`Axis`) or any screw (`Motion`), p a bias force, and U = I S is known.


def joint_inertia(S: Axis | Motion, U: Force, armature: Scalar) -> Scalar:
    """d = Sᵀ U + armature: the inertia that the joint feels. 2m 2a along z."""
    return S.dot(U) + armature


def joint_drive(S: Axis | Motion, tau: Scalar, p: Force) -> Scalar:
    """u = τ − Sᵀ p: the force that drives the joint. 2m 2a along z."""
    return tau - S.dot(p)


def joint_answer(U: Force, d_inverse: Scalar, u: Scalar, a: Motion) -> Scalar:
    """(u − Uᵀ a)/d: the joint's own acceleration, where its frame would have `a` with the joint at rest. 7m 6a."""
    return (u - a.dot(U)) * d_inverse


def freed_bias(U: Force, d_inverse: Scalar, u: Scalar, p: Force) -> Force:
    """p + U u/d: the bias on the inner side of the joint. 7m 6a."""
    return p + U * (u * d_inverse)


def pull_back(X: Transform, axis: Axis, U: Force, d_inverse: Scalar, f: Force) -> Force:
    """Xᵀ (1 − U Sᵀ/d) f: the part of a force that the joint passes to its parent. 33m 25a."""
    return X.force_to_parent(f - U * (axis.dot(f) * d_inverse))


class Pivot(NamedTuple):
    """The quantities of an articulated body's joint that give its acceleration."""

    U: Force
    d_inverse: Scalar
    u: Scalar

    def rate(self, a: Motion) -> Scalar:
        """qdd, where the frame would have acceleration `a` with the joint at rest. 7m 6a."""
        return joint_answer(*self, a)


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


def exceeds_rounding(d: Scalar, went_in: Scalar) -> Scalar:
    """True if d is larger than the rounding error of the numbers that went into it. 1m."""
    return d > ROUNDINGS * float(jnp.finfo(d.dtype).eps) * went_in


def firm(d: Scalar, went_in: Scalar) -> Scalar:
    """d, or NaN if it is only the rounding error of the numbers that went into it. 1m."""
    return jnp.where(exceeds_rounding(d, went_in), d, jnp.full_like(d, jnp.nan))


def pivot(axis: Axis, armature: Scalar, tau: Scalar, whole: Articulated) -> Pivot:
    """The joint of a row that carries `whole`. 21m 17a and a division."""
    U = along_axis(whole.inertia, axis)
    d = joint_inertia(axis, U, armature)
    if whole.scale is not None:
        d = firm(d, (Scale.of(whole.inertia) + whole.scale).along(axis))
    return Pivot(U, 1 / d, joint_drive(axis, tau, whole.bias))


def scale_passed(axis: Axis, mass: Scalar | None, whole: Articulated, p: Pivot) -> Scale | None:
    """The scale that a row passes to its parent, in row coordinates. 16m 13a.

    A body's own inertia resists in all directions, so what it passes on is as good as new. A row without one, an inner
    row of a joint or a massless link, passes on the errors N that it received, and a small d enlarges them: released
    are P N Pᵀ, P = 1 − U Sᵀ/d, of which (Sᵀ N S) U Uᵀ/d² off the axis is what may be large.
    """
    if whole.scale is None:
        return None
    own = Scale.of(whole.inertia)
    errors = own + whole.scale
    (nx, ny, nz), (fx, fy, fz) = p.U * p.d_inverse
    nz, fz = nz * (1 - axis.turn), fz * (1 - axis.slide)
    along = errors.along(axis)
    enlarged = Scale(
        errors.turning + along * (nx * nx + ny * ny + nz * nz), errors.sliding + along * (fx * fx + fy * fy + fz * fz)
    )
    return Scale(*(jnp.where(mass == 0, e, o) for e, o in zip(enlarged, own, strict=True)))


def without_joint(I: ArticulatedInertia, axis: Axis, armature: Scalar, p: Pivot) -> ArticulatedInertia:
    """I − U Uᵀ/d: the rest of I if the joint moves freely. 34m 21a.

    Along its own axis a joint feels only its rotor inertia: (I − U Uᵀ/d) S = U armature/d. For a hinge or a slider
    without a rotor that is six zeros. They are put in as such, so that programs that know of them skip the products
    with them. Their derivative by the rotor is not zero.
    """
    A, B, C = I.without(p.U, p.d_inverse)
    bare = armature == 0  # led joints have an infinite rotor
    hinge, slider = (axis.turn == 1) & (axis.slide == 0) & bare, (axis.turn == 0) & (axis.slide == 1) & bare
    (nx, ny, nz), (fx, fy, fz) = p.U * (p.d_inverse * jnp.where(bare, armature, 0.0))
    A = Sym3(A.xx, A.yy, jnp.where(hinge, nz, A.zz), A.xy, jnp.where(hinge, nx, A.xz), jnp.where(hinge, ny, A.yz))
    C = Sym3(C.xx, C.yy, jnp.where(slider, fz, C.zz), C.xy, jnp.where(slider, fx, C.xz), jnp.where(slider, fy, C.yz))
    B = Mat3(
        *(B.xx, B.xy, jnp.where(slider, nx, B.xz)),
        *(B.yx, B.yy, jnp.where(slider, ny, B.yz)),
        *(jnp.where(hinge, fx, B.zx), jnp.where(hinge, fy, B.zy), jnp.where(hinge, fz, jnp.where(slider, nz, B.zz))),
    )
    return ArticulatedInertia(A, B, C)


def released(
    axis: Axis, armature: Scalar, mass: Scalar | None, whole: Articulated, p: Pivot, c: Motion | None
) -> Articulated:
    """The articulated body seen from the inner side of its joint, in row coordinates; the row's own mass is `mass`, its
    velocity product c, None at rest. 83m 78a.
    """
    left = without_joint(whole.inertia, axis, armature, p)
    bias = freed_bias(*p, whole.bias if c is None else whole.bias + left @ c)
    return Articulated(left, bias, scale_passed(axis, mass, whole, p))


def to_parent(X: Transform, whole: Articulated) -> Articulated:
    """In the parent's coordinates. 217m 168a."""
    inertia, bias = X.articulated_to_parent(whole.inertia), X.force_to_parent(whole.bias)
    return Articulated(inertia, bias, None if whole.scale is None else whole.scale.to_parent(X.r))

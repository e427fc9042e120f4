"""The articulated element: a stretch of rows between an inner and an outer handle, and how two combine.

    a_out = A a_in − C f_out + b          f_in = J a_in + Aᵀ f_out + η          C, J symmetric, positive semidefinite
f_out is the force that the outer end passes to the rest of the tree, f_in the force that the stretch receives from the
row inside it. Two stretches, 1 inside 2, combine with M = (1 + C1 J2)⁻¹, which always exists, but needs pivoting:
    A = A2 M A1                  C = C2 + A2 M C1 A2ᵀ        b = b2 + A2 M (b1 − C1 η2)
    J = J1 + A1ᵀ J2 M A1         η = η1 + A1ᵀ (η2 + J2 M (b1 − C1 η2))
This is the two-handle equation of the divide-and-conquer algorithm, solved for the quantities that stay finite: a free
joint adds to C, not to its inverse, and a body may have no mass. So articulated bodies can be scanned.

To put one row before a stretch needs no inverse. With U, d, u of the row that carries J2, η2 (articulated.py), and P =
1 − S Uᵀ/d:
    A = A2 P X      C = C2 + (A2 S)(A2 S)ᵀ/d      b = b2 + A2 (P c + S u/d)      J, η: the step of the algorithm itself
"""

from typing import NamedTuple

import jax.numpy as jnp

from kinetree.spatial import ArticulatedInertia, Force, Mat3, Motion, Scalar, Sym3, Vec3

from ..matrices.dense import solve_general, times, transpose
from ..recursion import Row
from .affine import units
from .articulated import Articulated, Scale, pivot, pull_back, released, to_parent

Forces = tuple[Force, ...]  # six: the rows of A, which are the forces at the inner handle for unit forces at the outer


class ArticulatedElement(NamedTuple):
    """A, b, C as above; `passed` is (J, η), which the stretch passes inward if no force acts at its outer end."""

    A: Forces
    b: Motion
    C: ArticulatedInertia  # a symmetric 6 by 6 map like an inertia, here from force to motion
    passed: Articulated


def no_rows(s: Scalar) -> ArticulatedElement:
    """The empty stretch, with components shaped like `s`."""
    zero = Articulated.zero_like(s)
    return ArticulatedElement(units(Force, s), Motion.zero_like(s), zero.inertia, zero)


def _rank_one(v: list[Scalar], w: list[Scalar]) -> ArticulatedInertia:
    """v wᵀ, if that is symmetric."""
    return ArticulatedInertia.of(lambda i, j: v[i] * w[j])


def prepend_row(row: Row, c: Motion | None, own: Articulated, e: ArticulatedElement) -> ArticulatedElement:
    """Put a row before a stretch. `own` is its own body with the branches that join it; c is None at rest."""
    whole = own + e.passed
    joint = pivot(row.axis, row.armature, row.tau, whole)
    along = [row.axis.dot(f) for f in e.A]  # A2 S
    rest = row.axis.times(joint.u * joint.d_inverse) if c is None else c + row.axis.times(joint.rate(c))  # P c + S u/d
    step = [rest.dot(f) for f in e.A]
    return ArticulatedElement(
        tuple(pull_back(row.at, row.axis, joint.U, joint.d_inverse, f) for f in e.A),
        e.b + Motion(Vec3(*step[:3]), Vec3(*step[3:])),
        e.C + _rank_one([s * joint.d_inverse for s in along], along),
        to_parent(row.at, released(row.axis, row.armature, row.get("mass"), whole, joint, c)),
    )


# -- two stretches: 6 by 6 arrays on the last two axes ----------------------------------------------------------------


def _matrix(A: Forces) -> Scalar:
    return jnp.stack([f.array() for f in A], -2)


def _forces(A: Scalar) -> Forces:
    return tuple(Force.from_array(A[..., k, :]) for k in range(6))


def _symmetric(a: Scalar) -> ArticulatedInertia:
    """From a matrix that is symmetric up to rounding."""
    a = 0.5 * (a + transpose(a))
    return ArticulatedInertia(Sym3.from_array(a), Mat3.from_array(a[..., :3, 3:]), Sym3.from_array(a[..., 3:, 3:]))


def combine_elements(inner: ArticulatedElement, outer: ArticulatedElement) -> ArticulatedElement:
    """Two stretches, one after the other; the formulas at the head of this file."""
    A1, C1, b1 = _matrix(inner.A), inner.C.array(), inner.b.array()
    A2, J2, eta2 = _matrix(outer.A), outer.passed.inertia.array(), outer.passed.bias.array()
    free = b1 - times(C1, eta2)  # acceleration between the two, with outer's own bias but not its inertia
    right = jnp.concatenate([A1, C1, free[..., None]], -1)
    solved = solve_general(jnp.eye(6, dtype=C1.dtype) + C1 @ J2, right)
    MA1, MC1, Mfree = solved[..., :6], solved[..., 6:12], solved[..., 12]
    eta = times(transpose(A1), eta2 + times(J2, Mfree))
    J = _symmetric(transpose(A1) @ J2 @ MA1)
    return ArticulatedElement(
        _forces(A2 @ MA1),
        outer.b + Motion.from_array(times(A2, Mfree)),
        outer.C + _symmetric(A2 @ MC1 @ transpose(A2)),
        inner.passed + Articulated(J, Force.from_array(eta), outer.passed.scale and Scale.of(J)),
    )


def act_on(e: ArticulatedElement, received: Articulated) -> Articulated:
    """The body that a stretch passes inward, from the body that it receives at its outer end."""
    s = received.bias.linear.x
    return combine_elements(e, no_rows(s)._replace(passed=received)).passed


def ballast_of(last: ArticulatedInertia, mean: ArticulatedInertia) -> Articulated:
    """The ballast of a lane: an inertia lent to its outer end, if its outermost row does not resist every motion.

    It is made from the inertia of that row, and the mean of all rows of the lane. If the row's own inertia is positive
    definite, no ballast is needed: a joint of the lane that nothing resists is singular in the whole tree, too. If not
    (inner rows of a joint, thin rods), the rows outside the cut lend the mean inertia of the lane, made equal in all
    directions.
    """
    mass = last.C.xx
    firm = mass > 0
    scale = (last.A.xx + last.A.yy + last.A.zz) / 3
    I = last.A - (last.B @ last.B.T * (1 / jnp.where(firm, mass, jnp.ones_like(mass)))).symmetric_part_twice() * 0.5
    det = Vec3(I.xx, I.xy, I.xz).dot(Vec3(I.xy, I.yy, I.yz).cross(Vec3(I.xz, I.yz, I.zz)))
    firm = firm & (det > 1e-6 * scale * scale * scale)
    turning = (mean.A.xx + mean.A.yy + mean.A.zz) / 3
    none = jnp.zeros_like(mass)
    lent = Articulated.zero_like(mass)
    inertia = lent.inertia._replace(
        A=Sym3.diagonal(jnp.where(firm, none, turning)), C=Sym3.diagonal(jnp.where(firm, none, mean.C.xx))
    )
    return lent._replace(inertia=inertia, scale=Scale.of(inertia))

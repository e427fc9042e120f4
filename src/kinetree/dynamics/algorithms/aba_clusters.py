"""Joints that follow one another (mimic joints), in the articulated-body algorithm.

Rows that one coordinate y moves, qdd_i = r_i ÿ, are a *cluster* if they hang together from one row. Inside the cluster
ÿ is not known yet. So the force f on a row with acceleration `a` depends on ÿ, and so does the force τ along y, summed
over the rows so far:

    f = IA a + pA + w ÿ,      τ = e + wᵀ a + d ÿ

With a = a′ + S r ÿ, a′ = X a_parent + c and w′ = w + r IA S, the parent sees

    Xᵀ IA X,   Xᵀ (pA + IA c),   Xᵀ w′,   d + r Sᵀ (w + w′) + r² armature,   e + w′ᵀ c + r (Sᵀ pA − τ_passive)

All of these add up where branches meet. On the row that carries the whole cluster ÿ = (τ − e − wᵀ a)/d. That row sees
IA − w wᵀ/d and pA + w (τ − e)/d, as from any other joint, with w as its U (aba.py). The idea is "constraint embedding"
(A. Jain, Robot and Multibody Dynamics, 2011, chapter 15).
"""

from typing import NamedTuple

from kinetree.dynamics.recursion import Row
from kinetree.spatial import Force, Motion, Scalar

from ..elements.articulated import Articulated, Pivot, Scale, along_axis, firm, freed_bias, to_parent, velocity_product


class Pending(NamedTuple):
    """How a row and the unknown ÿ of its cluster act on each other: the w, d and e of the module's docstring."""

    w: Force
    d: Scalar
    e: Scalar
    went_in: Scalar  # size of the inertias that went into d, before they cancelled


def _product(row: Row) -> Motion:
    return velocity_product(row.v, row.axis, row.qd)


def member_body(row: Row, state: tuple[Articulated, Pending]) -> tuple[tuple[Articulated, Pending], dict]:
    """Inward: a row of a cluster; `row.tau` is the force of its own spring and damper."""
    whole, (w, d, e, went_in) = state
    axis, r, c = row.axis, row.ratio, _product(row)
    total = w + along_axis(whole.inertia, axis) * r
    passed = to_parent(row.at, Articulated(whole.inertia, whole @ c, whole.scale))
    d = d + r * (axis.dot(w) + axis.dot(total)) + r * r * row.armature
    e = e + c.dot(total) + r * (axis.dot(whole.bias) - row.tau)
    if whole.scale is not None:
        went_in = went_in + r * r * (Scale.of(whole.inertia) + whole.scale).along(axis)
    return (passed, Pending(row.at.force_to_parent(total), d, e, went_in)), {}


def cluster_body(tau: Scalar, whole: Articulated, y: Pending) -> tuple[Articulated, Pivot]:
    """Inward: the effect of a cluster on the row that carries it; and the pivot, which gives ÿ on the way out."""
    d = y.d if whole.scale is None else firm(y.d, y.went_in)
    joint = Pivot(y.w, 1 / d, tau - y.e)
    left = whole.inertia.without(joint.U, joint.d_inverse)
    return Articulated(left, freed_bias(*joint, whole.bias), _scale(whole, y, joint)), joint


def member_acceleration(row: Row, parent: Motion) -> tuple[Motion, dict]:
    """Outward: a row of a cluster, once ÿ, `row.rate`, is known."""
    return row.at @ parent + _product(row) + row.axis.times(row.ratio * row.rate), {}


def _scale(whole: Articulated, y: Pending, joint: Pivot) -> Scale | None:
    """The scale of errors that are passed on; a small d enlarges them (articulated.py, `scale_passed`)."""
    if whole.scale is None:
        return None
    errors = Scale.of(whole.inertia) + whole.scale
    n, f = joint.U * joint.d_inverse
    return Scale(errors.turning + y.went_in * n.dot(n), errors.sliding + y.went_in * f.dot(f))

"""The gradient of inverse dynamics: the derivatives of Σ w τ by q, qd and qdd, for all rows, in two passes.

Let u be the velocities of the rows at the rates w (u = X u_parent + S w). Then the power is  L = Σ w τ = Σ u · f, f = I
a + v ×* I v.  The derivatives of L by the u, a and v of a row, summed over all rows that it carries, are forces F, A, V
of three kinds, which go inward as the wrenches of RNEA do:

    F = Σ f      A = Σ I u      V = Σ I (u × v) − u ×* I v,  and S qd ×* A,  as  a = X a_parent + S qdd + v × S qd
    ∂L/∂qdd = S · A      ∂L/∂qd = S · (V − v ×* A)      ∂L/∂q = −S · (v ×* V + u ×* F + (a − v × S qd) ×* A)

The last follows because a turn of the row about its axis changes each motion m = v, a, u of its parent by −S × X m. So
a gradient costs about three times inverse dynamics, for any number of rows. With L = Σ g τ the gradient of inverse
dynamics is one run with w = g, plus the terms of rotors.
Forward dynamics, H qdd + C = τ, has  g · dqdd = λ · (dτ − dID),  λ = H⁻¹ g:  one more run of itself, at rest and
without weight, and the reverse algorithm with w = −λ.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from kinetree.dynamics.recursion import Algorithm, Inward, Outward, Row, Share, Stretch
from kinetree.model import Model, Placement
from kinetree.model.coordinates import first_placements, velocity_product_shift
from kinetree.spatial import Force, Motion, Scalar, Transform, Vec3

from ..elements.articulated import base_acceleration, velocity_product
from .aba import aba_of
from .rnea import RNEA


class ReverseMotion(NamedTuple):
    """Velocity v, acceleration a, and u, the velocity at the rates w."""

    v: Motion
    a: Motion
    u: Motion


def _pushed_up(gravity: Vec3) -> ReverseMotion:
    """The base at rest, with gravity as its acceleration."""
    return ReverseMotion(Motion.zero_like(gravity.x), base_acceleration(gravity), Motion.zero_like(gravity.x))


class Pulls(NamedTuple):
    """F, A, V: derivatives of L by u, a and v of a row, for all rows that it carries."""

    F: Force
    A: Force
    V: Force

    @staticmethod
    def zero_like(s: Scalar) -> "Pulls":
        """Zero, with components shaped like `s`."""
        return Pulls(*(Force.zero_like(s) for _ in range(3)))


def moves(row: Row, parent: ReverseMotion) -> tuple[ReverseMotion, dict]:
    """Outward: RBDA table 5.1, lines 4 to 6, and u."""
    v = row.at @ parent.v + row.axis.times(row.qd)
    a = row.at @ parent.a + row.axis.times(row.qdd) + velocity_product(v, row.axis, row.qd)
    return ReverseMotion(v, a, row.at @ parent.u + row.axis.times(row.w)), {}


def own_pulls(row: Row) -> Pulls:
    """F, A and V of the row's own body."""
    v, a, u = row.moving
    h = row.inertia @ v
    return Pulls(row.inertia @ a + v.cross_force(h), row.inertia @ u, row.inertia @ u.cross(v) - u.cross_force(h))


def pulled(X: Placement | Transform, velocity: Motion, p: Pulls) -> Pulls:
    """F, A, V at the inner end of a stretch of rows; X and velocity are those of its outer end in its inner end."""
    V = p.V + velocity.cross_force(p.A)
    return Pulls(*(X.force_to_parent(f) for f in (p.F, p.A, V)))


def pulls(row: Row, whole: Pulls) -> tuple[Pulls, dict]:
    """Inward: derivatives along the row's own joint, and the F, A, V that its parent receives."""
    v, a, u = row.moving
    F, A, _ = whole
    V = whole.V + row.axis.times(row.qd).cross_force(A)
    rest = a - velocity_product(v, row.axis, row.qd)
    turned = v.cross_force(V) + u.cross_force(F) + rest.cross_force(A)
    found = {"q": -row.axis.dot(turned), "qd": row.axis.dot(V - v.cross_force(A)), "qdd": row.axis.dot(A)}
    passed = Pulls(*(row.at.force_to_parent(f) for f in (F, A, V)))
    return passed, {f"{n}_slope": x for n, x in found.items()}


def placed_pulls(row: Row, whole: Pulls) -> tuple[Pulls, dict]:
    """The same, with derivatives by any small motion of the row's frame in its parent, for quaternion joints."""
    passed, found = pulls(row, whole)
    v, a, u = row.moving
    along = row.axis.times
    V = whole.V + along(row.qd).cross_force(whole.A)
    rest = a - velocity_product(v, row.axis, row.qd) - along(row.qdd)
    turned = (v - along(row.qd)).cross_force(V) + (u - along(row.w)).cross_force(whole.F) + rest.cross_force(whole.A)
    return passed, found | {"placed_slope": -turned}


class Relative(NamedTuple):
    """A stretch of rows: placement and motion of its outer end in its inner one."""

    X: Placement
    v: Motion
    a: Motion
    u: Motion


def relative(row: Row) -> Relative:
    """The element of one row."""
    return Relative(row.at, *(row.axis.times(x) for x in (row.qd, row.qdd, row.w)))


def then(inner: Relative, outer: Relative) -> Relative:
    """Two in a row."""
    v = outer.X @ inner.v
    a = outer.a + outer.X @ inner.a - outer.v.cross(v)
    return Relative(outer.X @ inner.X, v + outer.v, a, outer.X @ inner.u + outer.u)


def moved(e: Relative, s: ReverseMotion) -> ReverseMotion:
    """The motion of the outer end, from that of the inner one."""
    v = e.X @ s.v
    return ReverseMotion(v + e.v, e.X @ s.a + e.a - e.v.cross(v), e.X @ s.u + e.u)


class Pulling(NamedTuple):
    """A stretch of rows on the way in, and the F, A, V that it passes by itself."""

    X: Placement | Transform
    v: Motion
    own: Pulls


def _plus(a: Pulls, b: Pulls) -> Pulls:
    return jax.tree.map(jnp.add, a, b)


def _joined(inner: Pulling, outer: Pulling) -> Pulling:
    own = _plus(inner.own, pulled(inner.X, inner.v, outer.own))
    return Pulling(outer.X @ inner.X, outer.X @ inner.v + outer.v, own)


MOVES = Stretch(
    element=relative,
    combine=then,
    act=moved,
    identity=lambda x: Relative(Placement.identity_like(x), *(Motion.zero_like(x) for _ in range(3))),
)
PULLS = Stretch(
    element=lambda row, own: Pulling(row.at, row.axis.times(row.qd), pulled(row.at, row.axis.times(row.qd), own)),
    combine=_joined,
    act=lambda e, s: _plus(e.own, pulled(e.X, e.v, s)),
    identity=lambda x: Pulling(Transform.identity_like(x), Motion.zero_like(x), Pulls.zero_like(x)),
    passed=lambda e: e.own,
)

SLOPES = ("q_slope", "qd_slope", "qdd_slope")

RNEA_REVERSE = Algorithm(
    name="rnea_reverse",
    inputs=("q", "qd", "qdd", "w"),
    passes=(
        Outward("moving", moves, given=("qd", "qdd", "w"), link=("axis",), stretch=MOVES, places=True),
        Inward(
            "pulls",
            pulls,
            given=("qd",),
            link=("axis",),
            needs=("at", "moving"),
            outputs=SLOPES,
            stretch=PULLS,
            own=Share(own_pulls, link=("inertia",), needs=("moving",)),
        ),
    ),
    fields={"moving": ReverseMotion, "pulls": Pulls},
    outputs=dict.fromkeys(SLOPES, float),
    begins={"moving": _pushed_up},
)

RNEA_REVERSE_PLACED = replace(
    RNEA_REVERSE,
    name="rnea_reverse_placed",
    passes=(
        RNEA_REVERSE.passes[0],
        replace(
            RNEA_REVERSE.passes[1],
            visit=placed_pulls,
            given=("qd", "qdd", "w"),
            outputs=(*SLOPES, "placed_slope"),
        ),
    ),
    outputs={**dict.fromkeys(SLOPES, float), "placed_slope": Force},
)


Run = Callable[[Algorithm, Model, dict[str, Any]], dict[str, Any]]  # on (..., n) arrays
FORWARD = (aba_of(False), aba_of(True))


def has_reverse(algorithm: Algorithm) -> bool:
    """True if there are passes for the gradient of an algorithm."""
    return algorithm is RNEA or algorithm in FORWARD


class RowSlopes(NamedTuple):
    """Derivatives of Σ w τ by q, and by velocities and accelerations of the rows."""

    q: Any
    qd: Any
    qdd: Any


def _slopes(run: Run, model: Model, q: Any, qd: Any, qdd: Any, w: Any) -> RowSlopes:
    """The derivatives for the rows, with (..., n) arrays; q is that of the joints."""
    given = {"q": q, "qd": qd, "qdd": qdd, "w": w}
    structure = model.structure
    if not len(structure.quaternion_joints):
        return RowSlopes(*run(RNEA_REVERSE, model, given).values())
    found = run(RNEA_REVERSE_PLACED, model, given)  # JAX may have sorted the names
    by_row, by_qd, by_qdd, placed = (found[n] for n in RNEA_REVERSE_PLACED.outputs)
    own = structure.q_of_row >= 0
    by_q = jnp.zeros_like(q).at[..., structure.q_of_row[own]].set(by_row[..., own])
    rows = jax.tree.map(lambda x: jnp.asarray(x, q.dtype)[:, None], model.rows)
    states = q.reshape(-1, q.shape[-1]).T  # (nq, batch)
    first, at = first_placements(structure, rows, states)

    def motion(states: Any) -> tuple:
        """The motion of the first rows, in their own coordinates, to first order."""
        new = first_placements(structure, rows, states)[1]
        turned = at.orientation.conjugate() * new.orientation
        moved = at.orientation.conjugate().turn(new.position - at.position)
        return (2 * turned.x, 2 * turned.y, 2 * turned.z, *moved)

    pulls = placed.reshape(-1, *placed.shape[-2:])[:, first]  # (batch, joints, 6)
    (more,) = jax.vjp(motion, states)[1](tuple(pulls[..., k].T for k in range(6)))
    return RowSlopes(by_q + more.T.reshape(q.shape), by_qd, by_qdd)


def _by_shift(model: Model, qd: Any, owed: Any) -> Any:
    """The gradient with respect to qd, from that with respect to the shifts of quaternion joints (joint_terms.py)."""
    if not len(model.structure.quaternion_joints):
        return jnp.zeros_like(qd)
    shift = jax.vjp(lambda x: velocity_product_shift(model.structure, x), qd.reshape(-1, qd.shape[-1]).T)[1]
    return shift(owed.reshape(-1, qd.shape[-1]).T)[0].T.reshape(qd.shape)


def gradient(algorithm: Algorithm, run: Run, model: Model, state: tuple, owed: Any) -> tuple:
    """Gradients by the state, (..., n) arrays, from the gradient by the result."""
    q, qd, given = state
    armature, slide = (jnp.asarray(x, q.dtype) for x in (model.rows.armature, model.rows.slide))
    if algorithm is RNEA:
        slopes = _slopes(run, model, q, qd, given, owed)
        of_shift = armature * slide * owed - slopes.qdd
        return slopes.q, slopes.qd + _by_shift(model, qd, of_shift), slopes.qdd + armature * owed
    (qdd,) = run(algorithm, model, {"q": q, "qd": qd, "tau": given}).values()
    (answer,) = run(algorithm, model.weightless, {"q": q, "qd": jnp.zeros_like(qd), "tau": owed}).values()
    slopes = _slopes(run, model, q, qd, qdd, -answer)
    of_shift = owed - armature * (1 + slide) * answer
    return slopes.q, slopes.qd + _by_shift(model, qd, of_shift), answer

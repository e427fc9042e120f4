"""The tree with constraints in it: (M + JᵀCJ) x = b + Jᵀg by one sweep inward and one outward.

A contact adds a 6 by 6 matrix to its body's inertia and a force to its bias; limits and friction loss add to a joint's
own resistance and force (RBDA chapter 7 with heavier bodies). There are no velocity terms: x is what J acts on.

A ball joint's limit acts on the turn about one axis, a sum over the joint's three rows. It is a seventh coordinate of
motion, y. It starts at zero at the joint's first row and grows by nᵢ xᵢ at each row: S̃ = (S, n). The recursions have
one more number, and the coordinate is dropped at the first row of the joint.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from kinetree.dynamics.elements.articulated import along_axis, freed_bias, joint_answer, joint_drive, joint_inertia
from kinetree.dynamics.schedules.whole import Whole
from kinetree.model import Axis
from kinetree.spatial import ArticulatedInertia, Force, Motion, Scalar, Transform
from kinetree.tree import InwardRecursion, Layout, OutwardRecursion, inward, outward


class HeavyBody(NamedTuple):
    """f = inertia · a + bias."""

    inertia: ArticulatedInertia
    bias: Force

    @staticmethod
    def zero_like(s: Scalar) -> "HeavyBody":
        """Nothing, with components shaped like `s`."""
        return HeavyBody(ArticulatedInertia.zero_like(s), Force.zero_like(s))


class Turning(NamedTuple):
    """The seventh coordinate on the way in: coupling to motion, stiffness, bias."""

    coupling: Force
    stiffness: Scalar
    bias: Scalar


class Passed(NamedTuple):
    """The state of the inward sweep."""

    body: HeavyBody
    turning: Turning | None  # None for trees without ball limits


class SweptRow(NamedTuple):
    """A row of the tree, by position."""

    X: Transform
    axis: Axis
    n: Scalar | None  # how its joint's turn about the limit axis grows with x; None without ball limits
    carries: Scalar | None  # 0 for the first row of a joint, where the turn starts, 1 for others


class Loaded(NamedTuple):
    """A row with its load."""

    link: SweptRow
    resistance: Scalar  # armature, and the curvature of the joint's own constraints
    force: Scalar
    own: Passed


class HeavyPivot(NamedTuple):
    """The quantities of a row's joint that give its acceleration."""

    U: Force
    U_turning: Scalar | None
    d_inverse: Scalar
    u: Scalar


class Moved(NamedTuple):
    """Acceleration of a row's frame, and the turn of its joint about the limit axis."""

    a: Motion
    turn: Scalar | None


def pivot(row: Loaded, whole: Passed) -> HeavyPivot:
    """U = I S, d = Sᵀ U + resistance, u = force − Sᵀ p, with S the screw and the turn together."""
    axis, n = row.link.axis, row.link.n
    U, u = along_axis(whole.body.inertia, axis), joint_drive(axis, row.force, whole.body.bias)
    if n is None or whole.turning is None:
        return HeavyPivot(U, None, 1 / joint_inertia(axis, U, row.resistance), u)
    coupling, stiffness, bias = whole.turning
    U = U + coupling * n
    Ut = axis.dot(coupling) + stiffness * n
    return HeavyPivot(U, Ut, 1 / joint_inertia(axis, U, n * Ut + row.resistance), u - n * bias)


def release(row: Loaded, received: Passed) -> Passed:
    """The state that a row passes to its parent if its joint moves freely."""
    whole = jax.tree.map(jnp.add, row.own, received)
    joint = pivot(row, whole)
    X, step = row.link.X, joint.u * joint.d_inverse
    left = whole.body.inertia.without(joint.U, joint.d_inverse)
    bias = freed_bias(joint.U, joint.d_inverse, joint.u, whole.body.bias)
    body = HeavyBody(X.articulated_to_parent(left), X.force_to_parent(bias))
    if whole.turning is None:
        return Passed(body, None)
    coupling, stiffness, turning_bias = whole.turning
    Ut, on = joint.U_turning, row.link.carries
    assert Ut is not None
    assert on is not None
    return Passed(
        body,
        Turning(
            X.force_to_parent(coupling - joint.U * (Ut * joint.d_inverse)) * on,
            (stiffness - Ut * Ut * joint.d_inverse) * on,
            (turning_bias + Ut * step) * on,
        ),
    )


def carried(link: SweptRow, parent: Moved) -> Moved:
    """The motion of the row's frame from its parent's, with its joint at rest."""
    return Moved(link.X @ parent.a, None if link.carries is None else parent.turn * link.carries)


def moved(link: SweptRow, before: Moved, x: Scalar) -> Moved:
    """The row's motion, with its joint moving."""
    turn = None if link.n is None or before.turn is None else before.turn + link.n * x
    return Moved(before.a + link.axis.times(x), turn)


def own_rate(joint: HeavyPivot, u: Scalar, m: Moved) -> Scalar:
    """(u − Uᵀ a)/d, with the turn in a: the joint's own acceleration for this motion of its frame."""
    if m.turn is not None and joint.U_turning is not None:
        u = u - m.turn * joint.U_turning
    return joint_answer(joint.U, joint.d_inverse, u, m.a)


class Answer(NamedTuple):
    """A row's motion for the new x, its change from the old x, and the row's share of two norms."""

    new: Moved
    change: Moved
    x: Scalar
    dx: Scalar
    change_squared: Scalar  # the shares of Δxᵀ A Δx
    squared: Scalar  # and of xᵀ A x
    held: Scalar | None = None  # of the whole: the forces λ of rigid loops, (m, batch)


def answer(row: tuple[SweptRow, HeavyPivot, Scalar], parent: Answer) -> Answer:
    """x = (u − Uᵀ a′)/d; the norms are Σ d e², with e the joint's own part."""
    link, joint, old = row
    before, change = carried(link, parent.new), carried(link, parent.change)
    x = own_rate(joint, joint.u, before)
    dx = x - old
    e = dx - own_rate(joint, jnp.zeros_like(dx), change)
    shares = e * e / joint.d_inverse, joint.u * joint.u * joint.d_inverse
    return Answer(moved(link, before, x), moved(link, change, dx), x, dx, *shares)


def force_step(row: tuple[Transform, Force], received: Force) -> Force:
    """The force of a body and of all that hangs from it, at its parent."""
    X, own = row
    return X.force_to_parent(own + received)


class Reply(NamedTuple):
    """A row's motion, and its joint's own part of it, under forces alone."""

    at: Moved
    x: Scalar
    squared: Scalar  # the row's share of xᵀ A x


class RowPush(NamedTuple):
    """Forces on a row: on its joint, and on its body (a bias, so with the opposite sign)."""

    link: SweptRow
    joint: HeavyPivot
    force: Scalar
    bias: Force


def pushed(row: RowPush, received: tuple[Force, Scalar | None]) -> tuple[HeavyPivot, Force, Scalar | None]:
    """The joint with its own force u, and all biases at the row: of its body, and of the limit coordinate."""
    link, bias, turning = row.link, row.bias + received[0], received[1]
    u = joint_drive(link.axis, row.force, bias)
    if link.n is not None and turning is not None:
        u = u - link.n * turning
    return row.joint._replace(u=u), bias, turning


def pass_on(row: RowPush, received: tuple[Force, Scalar | None]) -> tuple[Force, Scalar | None]:
    """The biases that `release` would pass to the parent, with known factors."""
    joint, bias, turning = pushed(row, received)
    up = row.link.X.force_to_parent(freed_bias(joint.U, joint.d_inverse, joint.u, bias))
    if turning is None:
        return up, None
    assert joint.U_turning is not None
    return up, (turning + joint.U_turning * (joint.u * joint.d_inverse)) * row.link.carries


def reply_step(row: tuple[SweptRow, HeavyPivot], parent: Reply) -> Reply:
    """x = (u − Uᵀ a′)/d."""
    link, joint = row
    before = carried(link, parent.at)
    x = own_rate(joint, joint.u, before)
    return Reply(moved(link, before, x), x, joint.u * joint.u * joint.d_inverse)


RELEASE = InwardRecursion(step=release, name="articulated body with constraints")
ANSWER = OutwardRecursion(step=answer, name="acceleration with constraints")
PASS_ON = InwardRecursion(step=pass_on, name="bias with known factors")
REPLY = OutwardRecursion(step=reply_step, name="acceleration under forces alone")
MOTION = OutwardRecursion(step=lambda row, parent: moved(row[0], carried(row[0], parent), row[1]), name="J x")
FORCE = InwardRecursion(step=force_step, name="Jᵀ f")


def still(s: Scalar, turning: bool) -> Moved:
    """The base."""
    return Moved(Motion.zero_like(s), jnp.zeros_like(s) if turning else None)


class TreeInverse(NamedTuple):
    """A⁻¹ of a tree with constraints in it, by the factors of one inward sweep: U and d of every row."""

    laid: Layout
    link: SweptRow
    joint: HeavyPivot  # with the forces that the factors were made with

    def answer(self, joint: HeavyPivot, old: Scalar) -> Answer:
        """x of every position, under the forces in `joint`; Δx is measured from `old`."""
        zero = jnp.zeros_like(old[0])
        base = still(zero, self.link.n is not None)
        return outward(ANSWER, self.laid, (self.link, joint, old), Answer(base, base, zero, zero, zero, zero))

    def _loaded(self, force: Scalar, bias: Force) -> HeavyPivot:
        row = RowPush(self.link, self.joint, force, bias)
        zero = jnp.zeros_like(force[0])
        like = Force.zero_like(zero), (zero if self.link.n is not None else None)
        received = inward(PASS_ON, self.laid, row, like)
        return pushed(row, received)[0]

    def first(self, old: Scalar, force: Scalar, bias: Force) -> Answer:
        """The answer to the forces that the factors were made with and these."""
        joint = self._loaded(force, bias)
        return self.answer(joint._replace(u=self.joint.u + joint.u), old)

    def reply(self, force: Scalar, bias: Force, share: Scalar | float = 0.0) -> Reply:
        """A⁻¹ of these forces and a share of those that the factors were made with."""
        joint = self._loaded(force, bias)
        joint = joint._replace(u=joint.u + share * self.joint.u)
        zero = jnp.zeros_like(force[0])
        start = Reply(still(zero, self.link.n is not None), zero, zero)
        return outward(REPLY, self.laid, (self.link, joint), start)


class WholeInverse(NamedTuple):
    """The inverse for one huge tree, by the laden articulated-body algorithm, or by its factors if they are kept."""

    laid: Whole
    rows: Loaded
    factors: tuple[Scalar, ...] | None = None
    joint: None = None  # the forces that the rows carry are with them

    def kept(self) -> "WholeInverse":
        """With its factors, for many answers."""
        return self._replace(factors=self.laid.factors(self.rows.resistance, self.rows.own.body.inertia))

    def _solved(self, force: Scalar, bias: Force) -> tuple[Scalar, Moved]:
        if self.factors is not None:
            x, a = self.laid.pushed(self.factors, force, bias)
        else:
            x, a = self.laid.solved(force, self.rows.resistance, self.rows.own.body.inertia, bias)
        return x, Moved(a, None)

    def _shares(self, x: Scalar, at: Moved) -> Scalar:
        """The shares of xᵀ A x, row by row."""
        return at.a.dot(self.rows.own.body.inertia @ at.a) + self.rows.resistance * x * x

    def answer(self, joint: None, old: Scalar) -> Answer:
        """x of every position, under the forces of the rows; Δx is measured from `old`."""
        return self._answered(old, *self._solved(self.rows.force, self.rows.own.body.bias))

    def _answered(self, old: Scalar, x: Scalar, new: Moved) -> Answer:
        dx, before = x - old, self.laid.velocities(old)
        change = Moved(new.a - before, None)
        return Answer(new, change, x, dx, self._shares(dx, change), self._shares(x, new))

    def first(self, old: Scalar, force: Scalar, bias: Force) -> Answer:
        """The answer to those forces and these."""
        return self._answered(old, *self._solved(self.rows.force + force, self.rows.own.body.bias + bias))

    def reply(self, force: Scalar, bias: Force, share: Scalar | float = 0.0) -> Reply:
        """A⁻¹ of these forces and a share of those that the rows carry."""
        own = self.rows.own.body.bias * share
        x, at = self._solved(force + share * self.rows.force, bias + own)
        return Reply(at, x, self._shares(x, at))


def factored(laid: Layout, rows: Loaded) -> Any:
    """A⁻¹, by a `TreeInverse`, or a `WholeInverse` where the tree is walked as a whole."""
    if isinstance(laid, Whole):
        return WholeInverse(laid, rows)
    like = jax.tree.map(lambda x: jnp.zeros_like(x[0]), rows.own)
    whole = jax.tree.map(jnp.add, rows.own, inward(RELEASE, laid, rows, like))
    return TreeInverse(laid, rows.link, pivot(rows, whole))


def solve(laid: Layout, rows: Loaded, old: Scalar) -> Answer:
    """x of every position under a load; Δx is measured from `old`."""
    inverse = factored(laid, rows)
    return inverse.answer(inverse.joint, old)


def times(laid: Layout, rows: Loaded, x: Scalar) -> Scalar:
    """A x, by position; not for trees with limits on ball joints."""
    force = rows.own.body.inertia @ motion(laid, rows.link, x).a
    return transposed(laid, rows.link, force) + rows.resistance * x


def motion(laid: Layout, link: SweptRow, x: Any) -> Moved:
    """J x: accelerations of all positions that x makes."""
    if isinstance(laid, Whole):
        return Moved(laid.velocities(x), None)
    return outward(MOTION, laid, (link, x), still(jnp.zeros_like(x[0]), link.n is not None))


def transposed(laid: Layout, link: SweptRow, force: Force) -> Scalar:
    """Jᵀ f: joint forces, by position, from forces on the bodies."""
    if isinstance(laid, Whole):
        return laid.transposed(force)
    like = jax.tree.map(lambda x: jnp.zeros_like(x[0]), force)
    return link.axis.dot(force + inward(FORCE, laid, (link.X, force), like))

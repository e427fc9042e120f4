"""The recursive Newton-Euler algorithm: inverse dynamics in two passes over the rows.

Outward, the second-order motion of each row from its parent's; inward, the wrench that each row passes to its parent.
Both are elements acting on states, so any schedule can walk them. In row coordinates, with classical accelerations
(Lynghus 2026 §5 has the same two scans; RBDA table 5.1 the same recursion with spatial accelerations):
    ω, α, a        of row i  =  relative motion of row i, acting on those of its parent
    a + W x, W = α× + ω× ω×   is the acceleration of the body's point at x
    f  = ∫ (a + W x) dm          n = ∫ x × (a + W x) dm
    (n, f) to the parent  =  Xᵀ (own + from the children)          τ = Sᵀ (n, f)
"""

from typing import Any, NamedTuple

from kinetree.model import Axis, Placement, Rows, relative_motion
from kinetree.spatial import Force, Moments, Rates, RelativeMotion, Scalar, Transform, Vec3
from kinetree.tree import Inward, Layout, Outward, inward, outward


def body_force(body: Moments, s: Rates) -> Force:
    """Wrench, about the row's origin, that gives the body these rates. 42m 39a."""
    W, a = s.gradient, s.acceleration
    (wx, wy, wz), (mx, my, mz) = W.rows, body.second.rows
    n = body.first.cross(a)
    return Force(
        Vec3(
            wz.dot_plus(my, (-wy).dot_plus(mz, n.x)),
            wx.dot_plus(mz, (-wz).dot_plus(mx, n.y)),
            wy.dot_plus(mx, (-wx).dot_plus(my, n.z)),
        ),
        W.times_plus(body.first, a * body.mass),
    )


def base_rates(gravity: Vec3) -> Rates:
    """Gravity as an acceleration of the base."""
    return Rates(Vec3.zero_like(gravity.x), Vec3.zero_like(gravity.x), -gravity)


class MovingRow(NamedTuple):
    """What the outward pass knows of a row."""

    placed: Placement
    axis: Axis
    qd: Scalar
    qdd: Scalar


def _motion(row: MovingRow) -> RelativeMotion:
    return relative_motion(*row)


MOTION = Outward(
    step=lambda row, rates: _motion(row).act(rates),
    element=_motion,
    combine=RelativeMotion.then,
    act=RelativeMotion.act,
    identity=lambda e: RelativeMotion.identity_like(e.position.x),
    inverse=RelativeMotion.inverse,
    name="second-order motion",
)


class LoadedRow(NamedTuple):
    """What the inward pass knows of a row: where it stands in its parent, and its own wrench."""

    X: Placement | Transform
    own: Force


WRENCH = Inward(
    step=lambda row, force: row.X.force_to_parent(row.own + force),
    element=lambda row, force: LoadedRow(row.X, row.X.force_to_parent(row.own + force)),
    combine=lambda inner, outer: LoadedRow(outer.X @ inner.X, inner.own + inner.X.force_to_parent(outer.own)),
    act=lambda e, force: e.own + e.X.force_to_parent(force),
    identity=lambda e: LoadedRow(type(e.X).identity_like(e.X[1].x), Force.zero_like(e.own.linear.x)),
    name="wrench",
)


def rnea(laid: Layout, rows: Rows, placed: Placement, qd: Any, qdd: Any, gravity: Vec3, applied: Force | None) -> Any:
    """Generalised forces, (positions, batch), of data arranged by position; `applied` is in row coordinates."""
    moving = MovingRow(placed, rows.axis, qd, qdd)
    rates = outward(MOTION, laid, moving, base_rates(gravity))
    own = body_force(rows.inertia.moments(), rates)
    if applied is not None:
        own = own - applied
    zero = Force.zero_like(gravity.x)
    received = inward(WRENCH, laid, LoadedRow(placed, own), zero)
    return rows.axis.dot(own + received)

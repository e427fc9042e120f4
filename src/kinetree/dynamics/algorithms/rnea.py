"""The recursive Newton-Euler algorithm: inverse dynamics in two passes.

Outward, the second-order motion of each row from its parent's; inward, the wrench that each row passes to its parent.
In row coordinates, with classical accelerations (Lynghus 2026 §5 has the same two scans; RBDA table 5.1 the same
recursion with spatial accelerations):

    ω, α, a of row i  =  relative motion of row i, acting on those of its parent
    a + W x, W = α× + ω× ω×   is the acceleration of the body's point at x
    f  = ∫ (a + W x) dm          n = ∫ x × (a + W x) dm
    (n, f) to the parent  =  Xᵀ (own + from the children)          τ = Sᵀ (n, f)
"""

from dataclasses import replace
from typing import NamedTuple

from kinetree.dynamics.recursion import Algorithm, Inward, Outward, Row, Share, Stretch
from kinetree.model import Placement, relative_motion
from kinetree.spatial import Force, Moments, Rates, RelativeMotion, Transform, Vec3


def body_force(body: Moments, s: Rates) -> Force:
    """The wrench, about the row's origin, that gives the body these rates. 42m 39a."""
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


def moved_rates(frame: Transform, s: Rates) -> Rates:
    """The rates of a frame that is fixed in a frame with these rates. 42m 42a."""
    return Rates(frame.E @ s.omega, frame.E @ s.alpha, frame.E @ s.acceleration_at(frame.r))


def base_rates(gravity: Vec3) -> Rates:
    """Gravity as an acceleration of the base."""
    return Rates(Vec3.zero_like(gravity.x), Vec3.zero_like(gravity.x), -gravity)


def motion(row: Row) -> RelativeMotion:
    """The motion of the row in its parent."""
    return relative_motion(row.at, row.axis, row.qd, row.qdd)


def rates(row: Row, parent: Rates) -> tuple[Rates, dict]:
    """Outward: RBDA table 5.1, lines 4 to 6."""
    return motion(row).act(parent), {}


def wrench(row: Row, f: Force) -> tuple[Force, dict]:
    """Inward: lines 8 to 11; the row's own force, line 7, is its share."""
    return row.at.force_to_parent(f), {"tau": row.axis.dot(f)}


def pass_on(row: Row, f: Force) -> tuple[Force, dict]:
    """Inward, if only the sums are needed."""
    return row.at.force_to_parent(f), {}


class ForceStretch(NamedTuple):
    """A stretch of rows: the placement of its outer end in its inner one, and the force that it passes by itself."""

    X: Placement | Transform
    own: Force


MOTION = Stretch(
    element=motion,
    combine=RelativeMotion.then,
    act=RelativeMotion.act,
    identity=RelativeMotion.identity_like,
    inverse=RelativeMotion.inverse,
    placed=lambda e: Placement(e.orientation, e.position),
)
WRENCH = Stretch(
    element=lambda row, own: ForceStretch(row.at, row.at.force_to_parent(own)),
    combine=lambda inner, outer: ForceStretch(outer.X @ inner.X, inner.own + inner.X.force_to_parent(outer.own)),
    act=lambda e, force: e.own + e.X.force_to_parent(force),
    identity=lambda x: ForceStretch(Placement.identity_like(x), Force.zero_like(x)),
    passed=lambda e: e.own,
    carry=lambda X, f: X.force_to_parent(f),
    carry_back=lambda X, f: X.force_to_child(f),
    gathers=True,
)

OWN = Share(lambda row: body_force(row.inertia, row.rates), link=("inertia",), needs=("rates",))

RNEA = Algorithm(
    name="rnea",
    inputs=("q", "qd", "qdd"),
    passes=(
        Outward("rates", rates, given=("qd", "qdd"), link=("axis",), stretch=MOTION, places=True),
        Inward("force", wrench, link=("axis",), needs=("at",), outputs=("tau",), stretch=WRENCH, own=OWN),
    ),
    fields={"rates": Rates, "force": Force},
    outputs={"tau": float},
    begins={"rates": base_rates},
    gives={"tau": "force"},
    moments=True,
    keeps="screw",
    applied=("force",),
)

BIAS = replace(RNEA, name="rnea_bias", inputs=("q", "qd"), resting=("qdd",))
GRAVITY = replace(RNEA, name="rnea_gravity", inputs=("q",), resting=("qd", "qdd"))

"""The articulated-body algorithm: forward dynamics in three passes (RBDA chapter 7, table 7.1).

A row, with all that hangs from it, answers an acceleration `a` of its frame with the force `f = IA a + pA`. Its joint
moves freely, so with U = IA S, d = Sᵀ U + armature and u = τ − Sᵀ pA

    qdd = (u − Uᵀ a′) / d,   a′ = X a_parent + c,   a = a′ + S qdd              (RBDA eq. 7.44 – 7.46)

and the parent sees   Xᵀ (IA − U Uᵀ/d) X   and   Xᵀ (pA + (IA − U Uᵀ/d) c + U u/d)   (7.47, 7.48).
Accelerations are spatial, and gravity is an acceleration of the base.

Long stretches of tree are taken at once by articulated elements on the way in (articulated_element.py) and by affine
maps of accelerations, a ↦ P X a + g, on the way out (affine.py): O(log n) rounds.
"""

from dataclasses import replace

from kinetree.dynamics.affine import append_row, at_rest, mapped, then
from kinetree.dynamics.articulated import (
    Articulated,
    Pivot,
    base_acceleration,
    own_bias,
    pivot,
    released,
    to_parent,
    velocity_product,
)
from kinetree.dynamics.articulated_element import act_on, combine_elements, no_rows, prepend_row
from kinetree.dynamics.ballast import ballast_of
from kinetree.dynamics.recursion import Algorithm, Inward, Outward, Row, Share, Stretch, placed_again, zeros
from kinetree.dynamics.six_by_six import combine_scalars
from kinetree.spatial import Motion

from .poses import VELOCITY, velocity


def velocities(row: Row, parent: Motion) -> tuple[Motion, dict]:
    """Outward: table 7.1, lines 1 to 5."""
    return velocity(row, parent), {}


def bodies(row: Row, whole: Articulated) -> tuple[Articulated, dict]:
    """Inward: lines 8 to 17; the row's own body, lines 6 and 7, is its share."""
    joint = pivot(row.axis, row.armature, row.tau, whole)
    return to_parent(row.at, released(row.axis, row.armature, whole, joint, product(row))), {"joint": joint}


def accelerations(row: Row, parent: Motion) -> tuple[Motion, dict]:
    """Outward: lines 18 to 22."""
    a = row.at @ parent + product(row)
    qdd = row.joint.rate(a)
    return a + row.axis.times(qdd), {"qdd": qdd}


def product(row: Row) -> Motion:
    """c, the row's velocity product; with it the acceleration of a joint that is led (hybrid dynamics)."""
    c = velocity_product(row.v, row.axis, row.qd)
    return c + row.axis.times(row.led) if "led" in row else c


def own_body(row: Row) -> Articulated:
    """The row's own inertia, and the force on it when it moves on without acceleration."""
    return Articulated(row.inertia.articulated(), own_bias(row.inertia, row.v))


BODIES = Stretch(
    element=lambda row, own: prepend_row(row, product(row), own, no_rows(row.tau)),
    combine=combine_elements,
    act=act_on,
    identity=no_rows,
    extend=lambda row, own, e: prepend_row(row, product(row), own, e),
    ballast=lambda rows: ballast_of(rows.inertia.articulated()),
    lend=lambda e, state: e._replace(passed=e.passed + state),
    passed=lambda e: e.passed,
    combine_components=combine_scalars,
)
ACCELERATIONS = Stretch(
    element=lambda row: append_row(at_rest(row.qd), row, product(row)),
    combine=then,
    act=lambda e, a: mapped(e, a) + e.g,
    identity=at_rest,
    extend=lambda e, row: append_row(e, row, product(row)),
)
OWN = Share(own_body, link=("inertia",), needs=("v",))

ABA = Algorithm(
    name="aba",
    inputs=("q", "qd", "tau"),
    passes=(
        Outward("v", velocities, given=("qd",), link=("axis",), stretch=VELOCITY, places=True),
        Inward(
            "body",
            bodies,
            given=("qd", "tau"),
            link=("axis", "armature"),
            needs=("at", "v"),
            leaves=("joint",),
            stretch=BODIES,
            own=OWN,
        ),
        Outward(
            "a",
            accelerations,
            given=("qd",),
            link=("axis",),
            needs=("at", "v", "joint"),
            outputs=("qdd",),
            stretch=ACCELERATIONS,
        ),
    ),
    fields={"v": zeros(Motion), "body": zeros(Articulated), "joint": zeros(Pivot), "a": zeros(Motion)},
    base=lambda gravity: {
        "v": Motion.zero_like(gravity.x),
        "body": Articulated.zero_like(gravity.x),
        "a": base_acceleration(gravity),
    },
    outputs={"qdd": 0.0},
    applied=("body", "bias"),
)
ABA = replace(ABA, again=placed_again(ABA))

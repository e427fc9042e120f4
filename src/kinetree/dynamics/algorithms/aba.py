"""The articulated-body algorithm: forward dynamics in three passes (RBDA chapter 7, table 7.1).

To give the frame of a row the acceleration `a` takes the force `f = IA a + pA`, for the row with all that hangs from
it. Its joint moves freely, so with U = IA S, d = Sᵀ U + armature and u = τ − Sᵀ pA

    qdd = (u − Uᵀ a′) / d,   a′ = X a_parent + c,   a = a′ + S qdd              (RBDA eq. 7.44 – 7.46)

and the parent sees   Xᵀ (IA − U Uᵀ/d) X   and   Xᵀ (pA + (IA − U Uᵀ/d) c + U u/d)   (7.47, 7.48).
Accelerations are spatial, and gravity is an acceleration of the base.

If H is singular, some d is zero, and the computed d is only rounding error. A d that is as small as the rounding error
of the numbers that went into it becomes NaN (articulated.py).

To take long stretches of tree at once, in O(log n) rounds, there are articulated elements on the way in
(articulated_element.py) and affine maps of accelerations, a ↦ P X a + g, on the way out (affine.py).
"""

from collections.abc import Callable
from dataclasses import replace

from kinetree.dynamics.recursion import Algorithm, Inward, Outward, Row, Share, Stretch, placed_again, zeros
from kinetree.spatial import Motion, Scalar

from ..elements.affine import act, append_row, no_change, then
from ..elements.articulated import (
    Articulated,
    Pivot,
    base_acceleration,
    own_bias,
    pivot,
    released,
    to_parent,
    velocity_product,
)
from ..elements.articulated_element import (
    ArticulatedElement,
    act_on,
    ballast_of,
    combine_elements,
    no_rows,
    prepend_row,
)
from ..elements.six_by_six import combine_scalars
from .poses import VELOCITY, velocity


def velocities(row: Row, parent: Motion) -> tuple[Motion, dict]:
    """Outward: table 7.1, lines 1 to 5."""
    return velocity(row, parent), {}


def bodies(row: Row, whole: Articulated) -> tuple[Articulated, dict]:
    """Inward: lines 8 to 17; the row's own body, lines 6 and 7, is its share."""
    joint = pivot(row.axis, row.armature, row.tau, whole)
    free = released(row.axis, row.armature, row.get("mass"), whole, joint, product(row))
    return to_parent(row.at, free), {"joint": joint}


def accelerations(row: Row, parent: Motion) -> tuple[Motion, dict]:
    """Outward: lines 18 to 22."""
    a, c = row.at @ parent, product(row)
    a = a if c is None else a + c
    qdd = row.joint.rate(a)
    return a + row.axis.times(qdd), {"qdd": qdd}


def product(row: Row) -> Motion | None:
    """c, the row's velocity product, or None at rest; plus the given acceleration of a led joint (hybrid.py)."""
    if "v" not in row:
        return None
    c = velocity_product(row.v, row.axis, row.qd)
    return c + row.axis.times(row.led) if "led" in row else c


def own_body(row: Row) -> Articulated:
    """The row's own inertia, and the force on it when it moves without acceleration."""
    return Articulated.exact(row.inertia.articulated(), own_bias(row.inertia, row.v))


def articulated_stretch(kept: Callable[[Articulated], Articulated]) -> Stretch:
    """The stretch of articulated elements. `kept` selects the parts of a body that are carried along."""

    def prepend(row: Row, own: Articulated, e: ArticulatedElement) -> ArticulatedElement:
        return prepend_row(row, product(row), own, e)

    def identity(x: Scalar) -> ArticulatedElement:
        e = no_rows(x)
        return e._replace(passed=kept(e.passed))

    return Stretch(
        element=lambda row, own: prepend(row, own, identity(own.bias.linear.x)),
        combine=combine_elements,
        act=act_on,
        identity=identity,
        extend=prepend,
        ballast=lambda last, mean: kept(ballast_of(last.inertia.articulated(), mean.inertia.articulated())),
        lend=lambda e, state: e._replace(passed=e.passed + state),
        passed=lambda e: e.passed,
        combine_components=combine_scalars,
    )


ACCELERATIONS = Stretch(
    element=lambda row: append_row(no_change(Motion)(row.joint.u), row, product(row)),
    combine=then,
    act=act,
    identity=no_change(Motion),
    extend=lambda e, row: append_row(e, row, product(row)),
)


def unchecked(body: Articulated) -> Articulated:
    """A body without the scale, which serves to find singular mass matrices."""
    return body._replace(scale=None)


def articulated_body_algorithm(firm: bool, loaded: bool) -> Algorithm:
    """The algorithm. If all bodies are `firm`, no mass matrix is singular, and there is no check (firmness.py).

    `loaded`: joints have loads, an input that adds to their rotors (joint_terms.py).
    """
    load = ("load",) if loaded else ()
    kept = unchecked if firm else lambda body: body
    own = Share(lambda row: kept(own_body(row)), link=("inertia",), needs=("v",))
    return Algorithm(
        name="_".join(("aba", *(("checked",) if not firm else ()), *(("loaded",) if loaded else ()))),
        inputs=("q", "qd", "tau", *load),
        passes=(
            Outward("v", velocities, given=("qd",), link=("axis",), stretch=VELOCITY, places=True),
            Inward(
                "body",
                bodies,
                given=("qd", "tau", *load),
                link=("axis", "armature") if firm else ("axis", "armature", "mass"),
                needs=("at", "v"),
                leaves=("joint",),
                stretch=articulated_stretch(kept),
                own=own,
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
        fields={"v": Motion, "body": kept(zeros(Articulated)), "joint": Pivot, "a": Motion},
        outputs={"qdd": float},
        begins={"a": base_acceleration},
        applied=("body", "bias"),
    )


def with_again(algorithm: Algorithm) -> Algorithm:
    """The algorithm, with a variant (`again`) that computes velocities again in its last pass."""
    return replace(algorithm, again=placed_again(algorithm))


VARIANTS = {
    (firm, loaded): with_again(articulated_body_algorithm(firm, loaded))
    for firm in (False, True)
    for loaded in (False, True)
}
ABA = VARIANTS[False, False]


def aba_of(firm: bool, loaded: bool = False) -> Algorithm:
    """The algorithm for firm or for all mechanisms, with or without loads on the joints; made once."""
    return VARIANTS[firm, loaded]

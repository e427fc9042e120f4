"""The articulated-body algorithm of one huge tree by native walks: the three passes of aba.py over its stages."""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree.lanes.once import once
from kinetree.lanes.prefix import prefix_walks
from kinetree.lanes.walk import Walk
from kinetree.model import Placement, place
from kinetree.spatial import ArticulatedInertia, Force, Inertia, Mat3, Motion, Sym3, Vec3
from kinetree.tree.stages import Stages

from .aba_operators import (
    ACCELERATION,
    Accelerated,
    Affine,
    JointedRow,
    acceleration_step,
    append_row,
    at_rest,
    ballast_of,
    mapped,
)
from .articulated import (
    Articulated,
    ArticulatedRow,
    Pivot,
    Scale,
    base_acceleration,
    own_bias,
    pivot,
    released,
    to_parent,
    velocity_product,
)
from .articulated_element import ArticulatedElement, no_rows, prepend_row
from .lane_rows import PLACEMENT, ZERO3
from .poses import VELOCITY, velocity_step
from .six_by_six import combine_scalars
from .stage_passes import InwardWalks, OutwardWalks, in_array, inward_pass, kept, outward_pass, results_by_row
from .stage_rows import AXIS, CONSTANT, COUNT, FRAME, FRAME_FIELDS, NOTHING, NUMBER

structure = jax.tree.structure
MOTION, FORCE = Motion(ZERO3, ZERO3), Force(ZERO3, ZERO3)
SIX = Sym3(*6 * (0.0,))
BODY = Articulated(ArticulatedInertia(SIX, Mat3(*9 * (0.0,)), SIX), FORCE, Scale(0.0, 0.0))
MOVED = jax.tree.unflatten(structure((PLACEMENT, MOTION)), range(13))  # fields that the first pass leaves
PIVOT = jax.tree.unflatten(structure(Pivot(FORCE, 0.0, 0.0)), range(8))  # and the second

# -- outward: velocities ----------------------------------------------------------------------------------------------

STATE = structure((0.0, 0.0))  # q, qd


def _moving(frame: tuple, state: tuple) -> tuple[Placement, Motion]:
    orientation, position, axis = frame
    return place(orientation, position, axis, state[0]), axis.times(state[1])


def _stretch(e: Any, frame: tuple, state: tuple, exists: Any) -> tuple:
    return VELOCITY.append(e, _moving(frame, state)), ()


STRETCH = structure((PLACEMENT, MOTION))


@once
def _velocities(sources: int, remembered: bool, scattered: bool) -> Walk:
    def step(v: Motion, frame: tuple, state: tuple, exists: Any) -> tuple:
        row = _moving(frame, state)
        v = velocity_step(row, v)
        return v, (row[0], v, *((v,) if remembered else ()))

    results = structure((PLACEMENT, MOTION, *((MOTION,) if remembered else ())))
    return Walk(
        "aba_velocities", step, structure(MOTION), FRAME, STATE, results, FRAME_FIELDS, (COUNT,), sources=sources
    )


VELOCITIES = OutwardWalks(
    Walk("aba_reduce_velocities", _stretch, STRETCH, FRAME, STATE, NOTHING, FRAME_FIELDS, (COUNT,)),
    prefix_walks(
        "aba_velocities",
        VELOCITY.combine,  # type: ignore[arg-type]
        lambda s: (Placement.identity_like(s), Motion.zero_like(s)),
        STRETCH,
    ),
    velocity_step,
    _velocities,
    13,
)

# -- inward: articulated bodies ---------------------------------------------------------------------------------------

BODY_FIELDS = in_array(0, (CONSTANT.axis, CONSTANT.inertia, CONSTANT.armature)) + in_array(1, MOVED)
BODY_TREE = (AXIS, CONSTANT.inertia, 0.0, PLACEMENT, MOTION)


def _row(given: tuple, state: tuple) -> tuple[ArticulatedRow, Articulated]:
    """The row, and what branches bring to it."""
    axis, inertia, armature, placed, v, *joining = given
    qd, tau = state
    own = Articulated.exact(inertia.articulated(), own_bias(inertia, v))
    row = ArticulatedRow(placed.transform, axis, armature, own, velocity_product(v, axis, qd), tau)
    return row, joining[0] if joining else Articulated.zero_like(tau)


def _body_streams(joined: bool) -> tuple[Any, tuple, tuple]:
    if not joined:
        return structure(BODY_TREE), BODY_FIELDS, (COUNT, 13)
    return structure((*BODY_TREE, BODY)), BODY_FIELDS + in_array(2, tuple(range(29))), (COUNT, 13, 29)


ELEMENT = structure(ArticulatedElement((FORCE,) * 6, MOTION, BODY.inertia, BODY))


@once
def _reduce_bodies(joined: bool) -> Walk:
    def step(e: ArticulatedElement, given: tuple, state: tuple, exists: Any) -> tuple:
        return kept(exists, prepend_row(*_row(given, state), e), e), ()

    tree, fields, widths = _body_streams(joined)
    return Walk("aba_reduce_bodies", step, ELEMENT, tree, STATE, NOTHING, fields, widths, reverse=True)


@once
def _bodies(joined: bool, sources: int, scattered: bool) -> Walk:
    def step(received: Articulated, given: tuple, state: tuple, exists: Any) -> tuple:
        row, joining = _row(given, state)
        received = received + joining
        whole = row.own + received
        joint = pivot(row.axis, row.armature, row.tau, whole)
        passed = to_parent(row.X, released(row.axis, row.armature, row.mass, whole, joint, row.c))
        return kept(exists, passed, received), joint

    tree, fields, widths = _body_streams(joined)
    return Walk(
        "aba_bodies", step, structure(BODY), tree, STATE, structure(PIVOT), fields, widths, False, True, sources
    )


def _ballast(arrays: tuple) -> Articulated:
    """From the inertias of each chunk, (turns, fields, lanes)."""
    inertia: Inertia = jax.tree.map(lambda k: arrays[0][:, k], CONSTANT.inertia)
    return ballast_of(inertia.articulated())


BODIES = InwardWalks(
    _reduce_bodies,
    prefix_walks("aba_bodies", lambda outer, inner: combine_scalars(inner, outer), no_rows, ELEMENT),
    lambda e: e.passed,
    _bodies,
    Articulated.zero_like,
    _ballast,
    lambda e, state: e._replace(passed=e.passed + state),
)

# -- outward: accelerations -------------------------------------------------------------------------------------------

JOINT_FIELDS = in_array(0, CONSTANT.axis) + in_array(1, MOVED) + in_array(2, PIVOT)
JOINT_TREE = structure((AXIS, PLACEMENT, MOTION, PIVOT))
JOINT_WIDTHS = (COUNT, 13, 8)
AFFINE = structure(Affine((MOTION,) * 6, MOTION))


def _jointed(given: tuple, qd: Any) -> JointedRow:
    axis, placed, v, joint = given
    return JointedRow(placed.transform, axis, velocity_product(v, axis, qd), joint)


def _extend(e: Affine, given: tuple, qd: Any, exists: Any) -> tuple:
    return append_row(e, _jointed(given, qd)), ()


@once
def _accelerations(sources: int, remembered: bool, scattered: bool) -> Walk:
    def step(a: Motion, given: tuple, qd: Any, exists: Any) -> tuple:
        new = acceleration_step(_jointed(given, qd), Accelerated(a, jnp.zeros_like(qd)))
        return new.a, (new.qdd, *((new.a,) if remembered else ()))

    results = structure((0.0, *((MOTION,) if remembered else ())))
    return Walk(
        "aba_accelerations",
        step,
        structure(MOTION),
        JOINT_TREE,
        NUMBER,
        results,
        JOINT_FIELDS,
        JOINT_WIDTHS,
        scattered,
        sources=sources,
    )


ACCELERATIONS = OutwardWalks(
    Walk("aba_reduce_accelerations", _extend, AFFINE, JOINT_TREE, NUMBER, NOTHING, JOINT_FIELDS, JOINT_WIDTHS),
    prefix_walks(
        "aba_accelerations",
        ACCELERATION.combine,  # type: ignore[arg-type]
        at_rest,
        AFFINE,
    ),
    lambda e, a: mapped(e, a) + e.g,
    _accelerations,
    1,
)


def aba_over_stages(laid: Stages, constants: tuple[Any, ...], gravity: Vec3, q: Any, qd: Any, tau: Any) -> Any:
    """Accelerations of the rows, (n,); arguments as those of `rnea_over_stages`, with forces on the rows."""
    rest = Motion.zero_like(gravity.x)
    moved, together = outward_pass(laid, VELOCITIES, rest, [(c,) for c in constants], (q, qd))
    streams = list(zip(constants, (m[:, :13] for m in moved), strict=True))
    joints = inward_pass(laid, BODIES, streams, (qd, tau), together)
    scattered = len(laid.stages) == 1
    streams = [(*s, j) for s, j in zip(streams, joints, strict=True)]
    results, _ = outward_pass(laid, ACCELERATIONS, base_acceleration(gravity), streams, qd, scattered)
    return results_by_row(laid, [r if scattered else r[:, :1] for r in results], scattered)[0]

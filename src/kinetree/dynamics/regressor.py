"""The inverse dynamics regressor: forces as a linear function of the inertias.

The wrench that moves a body is linear in the ten numbers of its inertia, f = A(rates) π. Each row on the way to the
body has the part along its axis: Y_i = S_i · A for row i (Atkeson, An & Hollerbach 1986). So inverse_dynamics = Y π,
with the columns of the bodies side by side, and without armature, springs and dampers.

It is a lane program: motions outward, wrenches of bodies, then pairs of a row and a body that it carries. Wrenches and
axes are in world axes. If joints have positions of their own, they are about the first such joint.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._types import Array, Float
from kinetree.lanes import NOTHING, Lane, Loop, Memory, Slots
from kinetree.lanes.kept.once import once
from kinetree.model import Model, Structure
from kinetree.model.arguments import evaluate_for
from kinetree.model.memory import require_matrices
from kinetree.spatial import Force, Inertia, Motion, Rates, Sym3, Vec3

from .algorithms.rnea import base_rates, body_force, moved_rates, rates
from .closed_form.links import base_part, placed_at, world_axis
from .directly import directly
from .joint_terms import row_acceleration
from .recursion import Row
from .schedules.lane_algorithm import LaneAlgorithm
from .schedules.lane_coupling import serving
from .schedules.lane_parts import FRAME, frame_constants, zero_parts
from .schedules.lane_rows import (
    ACCURATE,
    OWN,
    PARENT,
    PLACEMENT,
    ZERO3,
    Q,
    RowPart,
    Turns,
    V,
    placing_parts,
    row_turns,
    shift_parts,
)
from .schedules.lane_visits import row_count

NUMBERS = 10  # numbers of a body's inertia
UNITS = [
    Inertia(x[0], Vec3(*x[1:4]), Sym3(*x[4:])).moments()
    for x in ([float(i == k) for i in range(10)] for k in range(10))
]
WRENCHES = jax.tree.structure(jax.tree.map(lambda _: NUMBERS * (0.0,), Force(ZERO3, ZERO3)))  # by component
ROW, BODY, ENTRY = range(3)  # columns of a pair table


def carried_bodies(structure: Structure) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (j, b): each row with each body that it carries."""
    tree, moving = structure.tree, np.flatnonzero(structure.row_of_body >= 0)
    start, carrier = tree.ancestor_start, structure.row_of_body[moving]
    count = np.diff(start)[carrier]
    first = np.repeat(start[carrier] - (np.cumsum(count) - count), count)
    return tree.ancestor_pairs[1][first + np.arange(count.sum())], np.repeat(moving, count)


@once
def regressor_lanes(quaternions: bool) -> LaneAlgorithm:
    """q, qd and qdd to Y, (nv, 10 n_bodies)."""
    fields: dict[str, Any] = {"pose": PLACEMENT, "rates": Rates(ZERO3, ZERO3, ZERO3), "S": Motion(ZERO3, ZERO3)}
    fields |= {"placed": PLACEMENT, "shift": 0.0} if quaternions else {}
    memory = Memory(**fields)
    at = memory.of

    def outward(link: Row, given: tuple, reads: tuple) -> tuple:
        qd, qdd = given[:2]
        placed = reads[2] if quaternions else placed_at(link, given[2])
        qdd = row_acceleration(qdd, reads[3]) if quaternions else qdd
        moved, _ = rates(Row(at=placed, axis=link.axis, qd=qd, qdd=qdd), reads[1])
        pose = placed @ reads[0]
        return (pose, moved, world_axis(pose, link.axis)), (), ()

    def wrenches(frame: Any, _: tuple, reads: tuple) -> tuple:
        pose, own = reads
        X, own = frame @ pose.transform, moved_rates(frame, own)
        found = (X.force_to_parent(body_force(unit, own)) for unit in UNITS)
        return (jax.tree.map(lambda *numbers: numbers, *found),), (), ()

    def region(structure: Structure, bodies: np.ndarray) -> np.ndarray:
        return memory.size * (structure.tree.n + 1) + WRENCHES.num_leaves * bodies

    def body_turns(structure: Structure) -> Turns:
        bodies = np.flatnonzero(structure.row_of_body >= 0)
        return np.stack([memory.base(structure.row_of_body[bodies]), region(structure, bodies)], -1), bodies

    def pair(_: tuple, __: tuple, reads: tuple) -> tuple:
        S, wrenches = reads
        by_number = zip(*(c for part in wrenches for c in part), strict=True)
        return (), (), tuple(S.dot(Force(Vec3(*c[:3]), Vec3(*c[3:]))) for c in by_number)

    def pair_turns(structure: Structure) -> np.ndarray:
        row, body = carried_bodies(structure)
        entry = NUMBERS * (row.astype(np.int64) * structure.n_bodies + body)
        return np.stack([memory.base(row), region(structure, body), entry], -1)

    def others(structure: Structure) -> np.ndarray:
        zero = np.ones((structure.tree.n, structure.n_bodies), bool)
        zero[carried_bodies(structure)] = False
        return np.repeat(zero.ravel(), NUMBERS)

    link = ("axis", *(() if quaternions else ("frame",)))
    inputs = (Lane(1, V), Lane(2, V), *(() if quaternions else (Lane(0, Q),)))
    reads = at(PARENT, "pose", "rates") + (at(OWN, "placed", "shift") if quaternions else ())
    outputs = tuple(Lane(0, ENTRY, k) for k in range(NUMBERS))
    parts = [
        *((*placing_parts(memory), *shift_parts(memory, 1)) if quaternions else ()),
        base_part(memory, quaternions, lambda gravity: {"rates": base_rates(gravity)}),
        RowPart(
            Loop(outward, 4, ACCURATE.parts_structure(link), reads, at(OWN, "pose", "rates", "S"), inputs=inputs),
            row_turns(memory),
            ACCURATE.parts_constants(link),
        ),
        RowPart(
            Loop(wrenches, 2, FRAME, at(0, "pose", "rates"), (Slots(1, 0, WRENCHES),)), body_turns, frame_constants
        ),
        RowPart(
            Loop(pair, 3, NOTHING, (memory.at(ROW, "S"), Slots(BODY, 0, WRENCHES)), outputs=outputs, alike=NUMBERS),
            pair_turns,
        ),
        *zero_parts(others),
    ]
    return LaneAlgorithm(
        "regressor" + "_quaternions" * quaternions,
        parts,
        memory,
        ("q", "v", "v"),
        ((row_count, lambda s: NUMBERS * s.n_bodies),),
        gives=("first",),
        slots=lambda s: int(region(s, np.asarray(s.n_bodies))),
    )


INSTEAD = "jax.jvp of inverse_dynamics by the inertias, for products with it"


def regressor_of(model: Model) -> LaneAlgorithm:
    """The program for a model. It adds up columns of joints that follow others."""
    return serving(regressor_lanes(model.structure.has_quaternions), model)


@directly(regressor_of)
def inverse_dynamics_regressor(
    model: Model, q: Float[Array, "... nq"], qd: Float[Array, "... nv"], qdd: Float[Array, "... nv"]
) -> Float[Array, "... nv parameters"]:
    """The matrix Y such that Y π are the forces of the motion, with π the ten inertia numbers of every body.

    Arguments:
        model: the mechanism; its inertias do not matter.
        q, qd, qdd: (..., nq), (..., nv), (..., nv).

    Returns:
        Y, (..., nv, 10 n_bodies). π is `model.inertia.array().reshape(-1)`: for each body mass, mass times centre of
        mass, and xx yy zz xy xz yz about the body's origin.

    Reference: Atkeson, An & Hollerbach 1986.
    """

    def compute(q: Any, qd: Any, qdd: Any) -> Any:
        if model.nv == 0:
            return jnp.zeros((q.shape[0], 0, NUMBERS * model.n_bodies), q.dtype)
        require_matrices("the regressor", q, model.nv, NUMBERS * model.n_bodies, copies=2, instead=INSTEAD)
        Y = regressor_of(model)(model, q, qd, qdd)[0]
        return Y.reshape(-1, model.nv, NUMBERS * model.n_bodies)

    return evaluate_for(model, compute, q=q, qd=qd, qdd=qdd)

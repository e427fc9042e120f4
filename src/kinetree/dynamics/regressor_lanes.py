"""The inverse dynamics regressor as a lane program (regressor.py): motions outward, wrenches of bodies, then pairs.

Wrenches and axes are in world axes, about the first joint where joints have positions of their own. The entries of row
j and body b, which it carries, are S_j · A_b, one for each of the body's ten numbers.
"""

from typing import Any

import jax
import numpy as np

from kinetree.lanes import Lane, Loop, Memory, Slots
from kinetree.lanes.kept.once import once
from kinetree.model import Axis, Model, Structure
from kinetree.spatial import Force, Inertia, Motion, Rates, Sym3, Vec3

from .algorithms.rnea import base_rates, body_force, moved_rates, rates
from .closed_form.links import Link, base_part, link_constants, placed_at, world_axis
from .joint_terms import row_acceleration
from .recursion import Row
from .schedules import tuning
from .schedules.lane_algorithm import LaneAlgorithm
from .schedules.lane_coupling import serving
from .schedules.lane_parts import frame_constants, zero_parts
from .schedules.lane_places import FRAME
from .schedules.lane_rows import (
    NOTHING,
    OWN,
    PARENT,
    PLACEMENT,
    ZERO3,
    Part,
    Q,
    Turns,
    V,
    no_constants,
    placing_parts,
    row_turns,
    shift_parts,
)

NUMBERS = 10  # of a body's inertia
UNITS = [
    Inertia(x[0], Vec3(*x[1:4]), Sym3(*x[4:])).moments()
    for x in ([float(i == k) for i in range(10)] for k in range(10))
]
WRENCHES = jax.tree.structure(NUMBERS * (Force(ZERO3, ZERO3),))
ROW, BODY, ENTRY = range(3)  # columns of a pair table


def carried_bodies(structure: Structure) -> tuple[np.ndarray, np.ndarray]:
    """(j, b): each row with each body that it carries."""
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

    def at(column: int, *names: str) -> tuple:
        return tuple(memory.at(column, name) for name in names)

    def outward(link: Link, given: tuple, reads: tuple) -> tuple:
        qd, qdd = given[:2]
        placed = reads[2] if quaternions else placed_at(link, given[2])
        qdd = row_acceleration(qdd, reads[3]) if quaternions else qdd
        moved, _ = rates(Row(at=placed, axis=link.axis, qd=qd, qdd=qdd), reads[1])
        pose = placed @ reads[0]
        return (pose, moved, world_axis(pose, link.axis)), (), ()

    def wrenches(frame: Any, _: tuple, reads: tuple) -> tuple:
        pose, own = reads
        X, own = frame @ pose.transform, moved_rates(frame, own)
        return (tuple(X.force_to_parent(body_force(unit, own)) for unit in UNITS),), (), ()

    def region(structure: Structure, bodies: np.ndarray) -> np.ndarray:
        return memory.size * (structure.tree.n + 1) + WRENCHES.num_leaves * bodies

    def body_turns(structure: Structure) -> Turns:
        bodies = np.flatnonzero(structure.row_of_body >= 0)
        table = np.stack([memory.base(structure.row_of_body[bodies]), region(structure, bodies)], -1)
        return table.astype(np.int32), bodies

    def pair(_: tuple, __: tuple, reads: tuple) -> tuple:
        S, forces = reads
        return (), (), tuple(S.dot(f) for f in forces)

    def pair_turns(structure: Structure) -> Turns:
        row, body = carried_bodies(structure)
        entry = NUMBERS * (row.astype(np.int64) * structure.n_bodies + body)
        table = np.stack([memory.base(row), region(structure, body), entry], -1)
        return table.astype(np.int32), row

    def others(structure: Structure) -> np.ndarray:
        zero = np.ones((structure.tree.n, structure.n_bodies), bool)
        zero[carried_bodies(structure)] = False
        return np.repeat(zero.ravel(), NUMBERS)

    def links(model: Model, rows: np.ndarray) -> Link:
        return link_constants(model.uncoupled, rows, framed=not quaternions)._replace(inertia=None)

    link = Link(None if quaternions else PLACEMENT, Axis(0.0, 0.0), None, None, None)
    inputs = (Lane(1, V), Lane(2, V), *(() if quaternions else (Lane(0, Q),)))
    reads = at(PARENT, "pose", "rates") + (at(OWN, "placed", "shift") if quaternions else ())
    outputs = tuple(Lane(0, ENTRY, k) for k in range(NUMBERS))
    parts = [
        *((*placing_parts(memory), *shift_parts(memory, 1)) if quaternions else ()),
        base_part(memory, quaternions, lambda gravity: {"rates": base_rates(gravity)}),
        Part(
            Loop(outward, 4, jax.tree.structure(link), reads, at(OWN, "pose", "rates", "S"), inputs=inputs),
            row_turns(memory),
            links,
        ),
        Part(Loop(wrenches, 2, FRAME, at(0, "pose", "rates"), (Slots(1, 0, WRENCHES),)), body_turns, frame_constants),
        Part(
            Loop(pair, 3, NOTHING, (memory.at(ROW, "S"), Slots(BODY, 0, WRENCHES)), outputs=outputs),
            pair_turns,
            no_constants,
        ),
        *zero_parts(others),
    ]
    return LaneAlgorithm(
        "regressor" + "_quaternions" * quaternions,
        parts,
        memory,
        3,
        1,
        lambda s: (NUMBERS * s.tree.n * s.n_bodies,),
        slots=lambda s: int(region(s, np.asarray(s.n_bodies))),
        forms=lambda s: ((s.tree.n, NUMBERS * s.n_bodies),),
        ranks=(2,),
        gives=("first",),
    )


def regressor_program(model: Model) -> LaneAlgorithm | None:
    """The program that serves a model; None where matrices are too large."""
    served = model.tree.n <= tuning.CLOSED_FORM_MAX_ROWS
    return serving(regressor_lanes(model.structure.has_quaternions), model) if served else None

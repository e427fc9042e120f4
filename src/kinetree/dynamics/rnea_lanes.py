"""RNEA as a lane program: two loops over the rows, with the steps of rnea.py."""

from functools import lru_cache
from typing import Any

from kinetree.lanes import Lane, Loop, Memory
from kinetree.model import Rows, relative_motion
from kinetree.spatial import Force, Rates, Vec3

from .lane_rows import (
    GRAVITY,
    OWN,
    PARENT,
    PLACEMENT,
    ROWS,
    SCREW,
    ZERO3,
    LaneAlgorithm,
    Part,
    Q,
    Screw,
    V,
    base_gravity,
    base_turn,
    placing_parts,
    row_turns,
    screw_constants,
    screw_place,
    shift_parts,
)
from .poses import applied_forces_part, pose_parts
from .rnea import base_rates, body_force

Q_IN, QD_IN, QDD_IN, F_IN = range(4)


@lru_cache
def rnea_lanes(quaternions: bool, external: bool) -> LaneAlgorithm:
    """The program, for models with or without quaternion joints, with or without applied forces."""
    fields: dict[str, Any] = {
        "rates": Rates(ZERO3, ZERO3, ZERO3),
        "force": Force(ZERO3, ZERO3),
        "placed": PLACEMENT,
    }
    if quaternions:
        fields |= {"shift": 0.0}
    if external:
        fields |= {"pose": PLACEMENT}
    memory = Memory(**fields)

    def base(gravity: Vec3, _: tuple, __: tuple) -> tuple:
        return (base_rates(gravity), Force.zero_like(gravity.x)), (), ()

    def outward(row: Rows, given: tuple, reads: tuple) -> tuple:
        rates, *slots = reads
        if quaternions:
            (qd, qdd), (placed, shift), placing = given, slots, ()
            qdd = qdd - shift
        else:
            qd, qdd, q = given
            placed = screw_place(row, q)
            placing = (placed,)
        rates = relative_motion(placed, row.axis, qd, qdd).act(rates)
        return (rates, body_force(row.inertia, rates), *placing), (), ()

    def inward(joint: Screw, given: tuple, reads: tuple) -> tuple:
        force, placed = reads
        return (), (placed.force_to_parent(force),), (joint.axis.dot(force) + joint.armature * given[0],)

    def at(column: int, *names: str) -> tuple:
        return tuple(memory.at(column, name) for name in names)

    outward_loop = Loop(
        outward,
        4,
        ROWS,
        reads=at(PARENT, "rates") + (at(OWN, "placed", "shift") if quaternions else ()),
        writes=at(OWN, "rates", "force") + (() if quaternions else at(OWN, "placed")),
        inputs=(Lane(QD_IN, V), Lane(QDD_IN, V), *(() if quaternions else (Lane(Q_IN, Q),))),
    )
    inward_loop = Loop(
        inward,
        4,
        SCREW,
        reads=at(OWN, "force", "placed"),
        adds=at(PARENT, "force"),
        inputs=(Lane(QDD_IN, V),),
        outputs=(Lane(0, V),),
    )
    parts = []
    if quaternions:
        parts += placing_parts(memory, Q_IN) + shift_parts(memory, QD_IN)
    parts.append(Part(Loop(base, 4, GRAVITY, writes=at(OWN, "rates", "force")), base_turn(memory), base_gravity))
    parts.append(Part(outward_loop, row_turns(memory)))
    if external:
        parts += pose_parts(memory, quaternions, Q_IN)
        parts.append(applied_forces_part(memory, F_IN))
    parts.append(Part(inward_loop, row_turns(memory, inward=True), screw_constants))
    name = "rnea" + "_quaternions" * quaternions + "_external" * external
    return LaneAlgorithm(name, parts, memory, 3 + external, 1, lambda s: (s.tree.n,))

"""RNEA as a lane program: two loops over the rows, with the steps of rnea.py."""

from typing import Any

from kinetree.lanes import Lane, Loop, Memory
from kinetree.lanes.once import once
from kinetree.model import Model, Placement, relative_motion
from kinetree.spatial import Force, Rates, Transform, Vec3

from .lane_rows import (
    GRAVITY,
    OWN,
    PARENT,
    PLACEMENT,
    ZERO3,
    LaneAlgorithm,
    Link,
    Links,
    Part,
    Q,
    Stroke,
    V,
    base_gravity,
    base_turn,
    kind_of,
    placing_parts,
    row_turns,
    shift_parts,
    stroke,
)
from .poses import applied_forces_part, pose_parts
from .rnea import base_rates, body_force

Q_IN, QD_IN, QDD_IN, F_IN = range(4)


def rnea_of(model: Model, external: bool = False) -> LaneAlgorithm:
    """The program that serves a mechanism, with or without applied forces."""
    kind = kind_of(model)
    return rnea_lanes(kind.quaternions, external, kind.deep, kind.hinges)


@once
def rnea_lanes(quaternions: bool, external: bool, deep: bool = False, hinges: bool = False) -> LaneAlgorithm:
    """The program, for models with or without quaternion joints, with or without applied forces, and of one kind."""
    fields: dict[str, Any] = {"rates": Rates(ZERO3, ZERO3, ZERO3), "force": Force(ZERO3, ZERO3)}
    fields |= {"placed": PLACEMENT, "shift": 0.0} if quaternions else {"stroke": Stroke(0.0, 0.0, 0.0)}
    if external:
        fields |= {"pose": PLACEMENT}
    memory = Memory(**fields)
    links = Links(deep, hinges, moments=True)

    def placed(row: Link, slot: Any) -> Placement | Transform:
        """Where a row stands, from what its slot holds."""
        return links.held(slot) if quaternions else row.frame.screwed(*slot)

    def base(gravity: Vec3, _: tuple, __: tuple) -> tuple:
        return (base_rates(gravity), Force.zero_like(gravity.x)), (), ()

    def outward(row: Link, given: tuple, reads: tuple) -> tuple:
        row = links.known(row)
        qd, qdd, *q = given
        rates, *slots = reads
        if quaternions:
            slot, shift = slots
            qdd = qdd - shift
        else:
            slot = stroke(row, *q)
        rates = relative_motion(placed(row, slot), row.axis, qd, qdd).act(rates)
        return (rates, body_force(row.inertia, rates), *(() if quaternions else (slot,))), (), ()

    def inward(row: Link, given: tuple, reads: tuple) -> tuple:
        row = links.known(row)
        force, slot, *shift = reads
        felt = given[0] + row.axis.slide * shift[0] if quaternions else given[0]  # see `armature_shift`
        tau = row.axis.dot(force) + row.armature * felt
        return (), (placed(row, slot).force_to_parent(force),), (tau,)

    def at(column: int, *names: str) -> tuple:
        return tuple(memory.at(column, name) for name in names)

    where = "placed" if quaternions else "stroke"
    outward_loop = Loop(
        outward,
        4,
        links.structure,
        reads=at(PARENT, "rates") + (at(OWN, where, "shift") if quaternions else ()),
        writes=at(OWN, "rates", "force") + (() if quaternions else at(OWN, where)),
        inputs=(Lane(QD_IN, V), Lane(QDD_IN, V), *(() if quaternions else (Lane(Q_IN, Q),))),
    )
    inward_loop = Loop(
        inward,
        4,
        links.structure,
        reads=at(OWN, "force", where, *(["shift"] * quaternions)),
        adds=at(PARENT, "force"),
        inputs=(Lane(QDD_IN, V),),
        outputs=(Lane(0, V),),
    )
    parts = []
    if quaternions:
        parts += placing_parts(memory, Q_IN) + shift_parts(memory, QD_IN)
    parts.append(Part(Loop(base, 4, GRAVITY, writes=at(OWN, "rates", "force")), base_turn(memory), base_gravity))
    parts.append(Part(outward_loop, row_turns(memory), links.constants))
    if external:
        parts += pose_parts(memory, quaternions, Q_IN)
        parts.append(applied_forces_part(memory, F_IN))
    parts.append(Part(inward_loop, row_turns(memory, inward=True), links.constants))
    name = "rnea" + "_quaternions" * quaternions + "_external" * external + "_deep" * deep + "_hinges" * hinges
    return LaneAlgorithm(name, parts, memory, 3 + external, 1, lambda s: (s.tree.n,))

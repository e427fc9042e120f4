"""The articulated-body algorithm as a lane program: the three passes of RBDA table 7.1, with the steps of
articulated.py.
"""

from functools import lru_cache
from typing import Any

from kinetree.lanes import Lane, Loop, Memory
from kinetree.model import Rows
from kinetree.spatial import ArticulatedInertia, Force, Inertia, Mat3, Motion, Rotation, Sym3, Transform, Vec3

from .articulated import Articulated, Pivot, base_acceleration, own_bias, pivot, released, to_parent, velocity_product
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
from .poses import applied_forces_part, pose_parts, velocity_step

Q_IN, QD_IN, TAU_IN, F_IN = range(4)


@lru_cache
def aba_lanes(quaternions: bool, external: bool) -> LaneAlgorithm:
    """The program, for models with or without quaternion joints, with or without applied forces."""
    six = Sym3(*6 * (0.0,))
    fields: dict[str, Any] = {
        "X": Transform(Rotation(*9 * (0.0,)), ZERO3),
        "v": Motion(ZERO3, ZERO3),
        "inertia": ArticulatedInertia(six, Mat3(*9 * (0.0,)), six),
        "force": Force(ZERO3, ZERO3),
        "pivot": Pivot(Force(ZERO3, ZERO3), 0.0, 0.0),
        "a": Motion(ZERO3, ZERO3),
    }
    if quaternions:
        fields |= {"placed": PLACEMENT, "shift": 0.0}
    if external:
        fields |= {"pose": PLACEMENT}
    memory = Memory(**fields)

    def base(gravity: Vec3, _: tuple, __: tuple) -> tuple:
        nothing = Articulated.zero_like(gravity.x)
        return (Motion.zero_like(gravity.x), *nothing, base_acceleration(gravity)), (), ()

    def outward(row: Rows, given: tuple, reads: tuple) -> tuple:
        v, *placed = reads
        X = (placed[0] if quaternions else screw_place(row, given[1])).transform
        v = velocity_step((X, row.axis.times(given[0])), v)
        I: Inertia = row.inertia
        return (X, v, I.articulated(), own_bias(I, v)), (), ()

    def inward(row: Screw, given: tuple, reads: tuple) -> tuple:
        X, v, inertia, bias, *shift = reads
        qd, tau = given
        if quaternions:  # armature resists the joint's acceleration, of which the row's lacks the shift
            tau = tau - row.armature * shift[0]
        whole = Articulated(inertia, bias)  # its own, and what its children passed on
        joint = pivot(row.axis, row.armature, tau, whole)
        passed = to_parent(X, released(whole, joint, velocity_product(v, row.axis, qd)))
        return (joint,), tuple(passed), ()

    def accelerate(row: Screw, given: tuple, reads: tuple) -> tuple:
        a_parent, X, v, joint, *shift = reads
        (qd,) = given
        a = X @ a_parent + velocity_product(v, row.axis, qd)
        qdd = joint.rate(a)
        return (a + row.axis.times(qdd),), (), (qdd + shift[0] if quaternions else qdd,)

    def at(column: int, *names: str) -> tuple:
        return tuple(memory.at(column, name) for name in names)

    shift = at(OWN, "shift") if quaternions else ()
    outward_loop = Loop(
        outward,
        4,
        ROWS,
        reads=at(PARENT, "v") + (at(OWN, "placed") if quaternions else ()),
        writes=at(OWN, "X", "v", "inertia", "force"),
        inputs=(Lane(QD_IN, V),) if quaternions else (Lane(QD_IN, V), Lane(Q_IN, Q)),
    )
    inward_loop = Loop(
        inward,
        4,
        SCREW,
        reads=at(OWN, "X", "v", "inertia", "force") + shift,
        writes=at(OWN, "pivot"),
        adds=at(PARENT, "inertia", "force"),
        inputs=(Lane(QD_IN, V), Lane(TAU_IN, V)),
    )
    last_loop = Loop(
        accelerate,
        4,
        SCREW,
        reads=at(PARENT, "a") + at(OWN, "X", "v", "pivot") + shift,
        writes=at(OWN, "a"),
        inputs=(Lane(QD_IN, V),),
        outputs=(Lane(0, V),),
    )
    base_writes = at(OWN, "v", "inertia", "force", "a")
    parts = placing_parts(memory, Q_IN) + shift_parts(memory, QD_IN) if quaternions else []
    parts.append(Part(Loop(base, 4, GRAVITY, writes=base_writes), base_turn(memory), base_gravity))
    parts.append(Part(outward_loop, row_turns(memory)))
    if external:
        parts += pose_parts(memory, quaternions, Q_IN)
        parts.append(applied_forces_part(memory, F_IN))
    parts.append(Part(inward_loop, row_turns(memory, inward=True), screw_constants))
    parts.append(Part(last_loop, row_turns(memory), screw_constants))
    return LaneAlgorithm("aba", parts, memory, 3 + external, 1, lambda s: (s.tree.n,))

"""The articulated-body algorithm as a lane program: the three passes of RBDA table 7.1, with the steps of
articulated.py.

What the last pass needs of a row, its transform and velocity, is 18 numbers that must be kept all the way. On a GPU,
where threads have no memory to speak of, the last pass may compute them again.
"""

from typing import Any

from kinetree.lanes import Lane, Loop, Memory
from kinetree.lanes.once import once
from kinetree.model import Model, Placement
from kinetree.spatial import ArticulatedInertia, Force, Inertia, Mat3, Motion, Rotation, Sym3, Transform, Vec3

from .articulated import (
    Articulated,
    Pivot,
    Scale,
    base_acceleration,
    own_bias,
    pivot,
    released,
    to_parent,
    velocity_product,
)
from .firmness import is_firm
from .lane_rows import (
    GRAVITY,
    OWN,
    PARENT,
    PLACEMENT,
    SCREW,
    ZERO3,
    LaneAlgorithm,
    Link,
    Links,
    Part,
    Q,
    Screw,
    V,
    base_gravity,
    base_turn,
    kind_of,
    placing_parts,
    row_turns,
    screw_constants,
    shift_parts,
    stroke,
)
from .poses import applied_forces_part, pose_parts, velocity_step

Q_IN, QD_IN, TAU_IN, F_IN = range(4)


def aba_of(model: Model, external: bool = False, again: bool = False, loaded: bool = False) -> LaneAlgorithm:
    """The program that serves a mechanism, with or without applied forces, and with or without loads on its joints."""
    kind = kind_of(model)
    return aba_lanes(
        kind.quaternions, external, kind.deep, kind.hinges and not loaded, again, not is_firm(model), loaded
    )


@once
def aba_lanes(
    quaternions: bool,
    external: bool,
    deep: bool = False,
    hinges: bool = False,
    again: bool = False,
    checked: bool = True,
    loaded: bool = False,
) -> LaneAlgorithm:
    """The program, for models with or without quaternion joints, with or without applied forces, and of one kind.

    `again`: compute placements and velocities again in the last pass. `checked`: give NaN where H is singular.
    `loaded`: the last input is added to the armature, for each state its own (loaded.py).
    """
    six = Sym3(*6 * (0.0,))
    fields: dict[str, Any] = {
        "X": Transform(Rotation(*9 * (0.0,)), ZERO3),
        "v": Motion(ZERO3, ZERO3),
        "inertia": ArticulatedInertia(six, Mat3(*9 * (0.0,)), six),
        "force": Force(ZERO3, ZERO3),
        "pivot": Pivot(Force(ZERO3, ZERO3), 0.0, 0.0),
        "a": Motion(ZERO3, ZERO3),
    }
    if checked:
        fields |= {"scale": Scale(0.0, 0.0)}
    if again:
        fields |= {"v_again": Motion(ZERO3, ZERO3)}
    if quaternions:
        fields |= {"placed": PLACEMENT, "shift": 0.0}
    if external:
        fields |= {"pose": PLACEMENT}
    memory = Memory(**fields)
    links = Links(deep, hinges)

    def base(gravity: Vec3, _: tuple, __: tuple) -> tuple:
        nothing = Articulated.zero_like(gravity.x)
        still = Motion.zero_like(gravity.x)
        return (still, *nothing[: 2 + checked], base_acceleration(gravity), *([still] * again)), (), ()

    def moved(row: Link, given: tuple, v: Motion, slots: tuple) -> tuple[Transform, Motion]:
        """Transform and velocity of a row, from its parent's velocity."""
        placed = slots[0] if quaternions else row.frame.screwed(*stroke(row, given[1]))
        X = placed.transform if isinstance(placed, Placement) else placed
        return X, velocity_step((X, row.axis.times(given[0])), v)

    def outward(row: Link, given: tuple, reads: tuple) -> tuple:
        row = links.known(row)
        v, *placed = reads
        X, v = moved(row, given, v, tuple(placed))
        I: Inertia = row.inertia
        own = Articulated.exact(I.articulated(), own_bias(I, v))
        return (X, v, *own[: 2 + checked]), (), ()

    def inward(row: Screw, given: tuple, reads: tuple) -> tuple:
        row = links.known(row)
        X, v, inertia, bias, *rest = reads
        qd, tau, *load = given
        if loaded:
            row = row._replace(armature=row.armature + load[0])
        scale = rest.pop(0) if checked else None
        if quaternions:  # armature resists an acceleration of which the row's lacks its shift, and `armature_shift`
            tau = tau - row.armature * ((1 + row.axis.slide) * rest[0])
        whole = Articulated(inertia, bias, scale)  # its own, and what its children passed on
        joint = pivot(row.axis, row.armature, tau, whole)
        c = velocity_product(v, row.axis, qd)
        passed = to_parent(X, released(row.axis, row.armature, row.mass, whole, joint, c))
        return (joint,), passed[: 2 + checked], ()

    def accelerate(row: Any, given: tuple, reads: tuple) -> tuple:
        row = links.known(row)
        a_parent, joint, *rest = reads
        shift = rest.pop() if quaternions else None
        X, v = moved(row, given, rest[0], tuple(rest[1:])) if again else rest
        a = X @ a_parent + velocity_product(v, row.axis, given[0])
        qdd = joint.rate(a)
        return (a + row.axis.times(qdd), *([v] * again)), (), (qdd if shift is None else qdd + shift,)

    def at(column: int, *names: str) -> tuple:
        return tuple(memory.at(column, name) for name in names)

    body = ("inertia", "force", "scale")[: 2 + checked]
    shift = at(OWN, "shift") if quaternions else ()
    placed = at(OWN, "placed") if quaternions else ()
    state = (Lane(QD_IN, V),) if quaternions else (Lane(QD_IN, V), Lane(Q_IN, Q))
    outward_loop = Loop(
        outward,
        4,
        links.structure,
        reads=at(PARENT, "v") + placed,
        writes=at(OWN, "X", "v", *body),
        inputs=state,
    )
    inward_loop = Loop(
        inward,
        4,
        SCREW,
        reads=at(OWN, "X", "v", *body) + shift,
        writes=at(OWN, "pivot"),
        adds=at(PARENT, *body),
        inputs=(Lane(QD_IN, V), Lane(TAU_IN, V), *([Lane(F_IN + external, V)] * loaded)),
    )
    last_loop = Loop(
        accelerate,
        4,
        links.structure if again else SCREW,
        reads=at(PARENT, "a")
        + at(OWN, "pivot")
        + (at(PARENT, "v_again") + placed if again else at(OWN, "X", "v"))
        + shift,
        writes=at(OWN, "a", *(["v_again"] * again)),
        inputs=state if again else (Lane(QD_IN, V),),
        outputs=(Lane(0, V),),
    )
    base_writes = at(OWN, "v", *body, "a", *(["v_again"] * again))
    parts = placing_parts(memory, Q_IN) + shift_parts(memory, QD_IN) if quaternions else []
    parts.append(Part(Loop(base, 4, GRAVITY, writes=base_writes), base_turn(memory), base_gravity))
    parts.append(Part(outward_loop, row_turns(memory), links.constants))
    if external:
        parts += pose_parts(memory, quaternions, Q_IN)
        parts.append(applied_forces_part(memory, F_IN))
    parts.append(Part(inward_loop, row_turns(memory, inward=True), screw_constants))
    parts.append(Part(last_loop, row_turns(memory), links.constants if again else screw_constants))
    name = "aba" + "_checked" * checked + "_deep" * deep + "_hinges" * hinges + "_again" * again + "_loaded" * loaded
    return LaneAlgorithm(name, parts, memory, 3 + external + loaded, 1, lambda s: (s.tree.n,))

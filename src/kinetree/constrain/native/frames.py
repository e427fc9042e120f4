"""Connects and welds in lanes: frames of two bodies, or of one and the static world, held together.

Between two moving bodies each of the three or six directions is a link (links.py). With the static world they are part
of the tree, as contacts are. Formulas are those of equality_groups.py.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from kinetree.dynamics.loops.held import LoopEnd
from kinetree.lanes import Slots
from kinetree.model import Model, Placement
from kinetree.model.equalities import WELD
from kinetree.spatial import Force, Motion, Quaternion, Rotation, Transform, Vec3
from kinetree.tree import pick

from ..cones import Response, hold
from ..equality_groups import frame_rows, soft_frame
from ..jacobians import held_inertia
from ..weights import inverse_weights
from .features import with_power
from .frame_plan import Moves, frame_memory
from .kinds import Kind
from .kinematics import point_rates
from .links import CARRIER, GROUP, WIDTH
from .memory import ARTICULATED_BLOCK, NOTHING, NUMBER, PLACEMENT, ROW, ArticulatedBody, articulated_bias, fixed
from .parts import Known, Part, part, table
from .plan import Plan
from .tables import split

ROW1, ROW2, BODY1, BODY2, FRAME, FIRST_LINK, COLUMNS = range(7)


def _turns(size: int, moves: Moves) -> Any:
    """Rows and their blocks, frames, first links; the base replaces a body that does not move."""

    def turns(plan: Plan) -> np.ndarray:
        frames, members = plan.frames, plan.frames.members(size, moves)
        own = frames.rows[:, members]
        rows = [np.where(r >= 0, plan.row(r), plan.base(0)) for r in own]
        first, link = frames.first(size, moves)
        return table(*rows, *(plan.articulated[np.maximum(r, 0)] for r in own), first, plan.links.stiffness(link))

    return turns


def _own(size: int) -> tuple[Slots, ...]:
    """The slots of a frame, without w at the ends of a step."""
    memory = frame_memory(size)
    return tuple(memory.at(FRAME, f) for f in list(memory.fields)[2:])


# -- softness ---------------------------------------------------------------------------------------------------------


class Ends(NamedTuple):
    """Constants of an equality."""

    first: Placement
    second: Placement
    scale: Any
    solref: tuple
    solimp: tuple
    weight: tuple


ENDS = Ends(PLACEMENT, PLACEMENT, 0.0, (0.0,) * 2, (0.0,) * 5, (0.0,) * 2)


def carried_end(
    own: Placement, row: Placement, base: Placement, v: Motion, drift: Motion, gravity: Vec3
) -> tuple[LoopEnd, Vec3]:
    """A frame on a row; and where it is, about the point of the row's tree."""
    arm = row.position + row.orientation.turn(own.position)
    linear, acceleration = point_rates(arm, v, drift, gravity)
    place = row.orientation * own.orientation
    return LoopEnd(place, arm - base.position, v.angular, linear, drift.angular, acceleration), arm


def still_end(own: Placement) -> tuple[LoopEnd, Vec3]:
    zero = Vec3.zero_like(own.position.x)
    return LoopEnd(own.orientation, own.position, zero, zero, zero, zero), zero


def soften_frames(size: int, moves: Moves, power: int | None) -> Part:
    """Stiffness, references and arms; while accelerations without x are known."""
    memory = frame_memory(size)

    def step(known, *seen):
        *rest, gravity, least_time = seen
        found, guessed = [], []
        for own, moving in zip((known.first, known.second), moves, strict=True):
            if not moving:
                found.append(still_end(own))
                guessed.append(None)
                continue
            row, base, v, drift, a, *rest = rest
            guessed.append(a)
            found.append(carried_end(own, row, base, v, drift, gravity))
        (first, arm1), (second, arm2) = found
        rows = frame_rows(first, second, size, known.scale)
        ref, D = soft_frame(rows, known.solref, with_power(known.solimp, power), known.weight, least_time)
        own = (D, ref, (arm1, arm2), *(() if rows.turn is None else (rows.turn,)))
        return (_residual(size, own, *guessed), *own)

    reads = tuple(
        x
        for k, column in enumerate((ROW1, ROW2))
        if moves[k]
        for x in (ROW.at(column, "pose"), ROW.at(COLUMNS + k, "pose"), *ROW.of(column, "v", "drift", "a"))
    )

    def turns(plan: Plan) -> np.ndarray:
        own = plan.frames.rows[:, plan.frames.members(size, moves)]
        bases = [plan.base(plan.tree_of_row[np.maximum(r, 0)]) for r in own]
        return np.concatenate([_turns(size, moves)(plan), table(*bases)], 1)

    def constants(model: Model, plan: Plan, known: Known) -> Ends:
        equal, own = plan.frames.equal, plan.frames.members(size, moves)
        part: Any = pick(equal, own)
        assert equal is not None
        places = [
            Placement(Quaternion(*split(turn)), Vec3(*split(at)))
            for turn, at in ((part.orientation1, part.position1), (part.orientation2, part.position2))
        ]
        weights = inverse_weights(model).body
        bodies = np.array([equal.bodies1, equal.bodies2], np.int64)[:, own]
        total = sum((b >= 0)[:, None] * weights[np.maximum(b, 0)] for b in bodies)
        return Ends(places[0], places[1], part.torque_scale, split(part.solref), split(part.solimp), split(total))

    seen, writes = (*reads, fixed("gravity"), fixed("least_time")), (memory.at(FRAME, "w"), *_own(size))
    return part(turns, step, seen, writes, (ENDS, constants), columns=COLUMNS + 2)


# -- as constraints ---------------------------------------------------------------------------------------------------


def _motion(size: int, kept: tuple, first: Motion | None, second: Motion | None) -> tuple:
    """The motion of the second frame relative to the first."""
    arms = kept[2]
    linear = angular = Vec3.zero_like(arms[0].x)
    for sign, arm, a in ((-1.0, arms[0], first), (1.0, arms[1], second)):
        if a is not None:
            linear = linear + (a.linear + a.angular.cross(arm)) * sign
            angular = angular + a.angular * sign
    return (*linear, *(() if size < WELD else kept[3] @ angular))


def _residual(size: int, kept: tuple, first: Motion | None, second: Motion | None) -> tuple:
    return tuple(y - r for y, r in zip(_motion(size, kept, first, second), kept[1], strict=True))


def _wrenches(size: int, moves: Moves, kept: tuple, f: tuple) -> tuple[Force, ...]:
    """Wrenches of forces along the directions, on the bodies that move."""
    push = Vec3(*f[:3])
    moment = Vec3.zero_like(push.x) if size < WELD else kept[3].t_mul(Vec3(*f[3:]))
    both = (-Force(kept[2][0].cross(push) + moment, push), Force(kept[2][1].cross(push) + moment, push))
    return tuple(w for w, moving in zip(both, moves, strict=True) if moving)


def held_frames(size: int, moves: Moves) -> Kind:
    """Connects or welds of two moving bodies, which are links, or of one, which are part of the tree."""
    memory = frame_memory(size)
    linked = all(moves)

    def residual(known: Any, kept: tuple, m: Any) -> tuple:
        return _residual(size, kept, *(list(m) if linked else [m if moving else None for moving in moves]))

    def response(known: Any, kept: tuple, w: tuple) -> Response:
        return hold(w, kept[0])

    def load(known: Any, kept: tuple, curvature: Any, g: tuple) -> tuple:
        biases = tuple(-w for w in _wrenches(size, moves, kept, g))
        stiff = tuple(row[0] for row in curvature)
        if linked:
            return *biases, *stiff
        turn = None if size < WELD else kept[3]
        own = Transform(Rotation.identity_like(stiff[0]), kept[2][int(moves[1])])
        return (ArticulatedBody(own.articulated_to_parent(held_inertia(stiff, turn)), biases[0]),)

    links = _stiffness(size)
    own, rows = BODY2 if moves[1] else BODY1, tuple(c for c, x in zip((ROW1, ROW2), moves, strict=True) if x)
    return Kind(
        constants=NOTHING,
        numbers=lambda model, plan, known: (),
        table=_turns(size, moves),
        columns=COLUMNS,
        own=_own(size),
        motion=("a", "a_new"),
        when=memory.at(FRAME, "D")._replace(tree=NUMBER),
        residual=residual,
        response=response,
        adds=(articulated_bias(BODY1), articulated_bias(BODY2), *links)
        if linked
        else (ARTICULATED_BLOCK.at(own, "body"),),
        load=load,
        pulls=tuple(ROW.at(c, "force") for c in rows),
        pull=lambda known, kept, f: _wrenches(size, moves, kept, f),
        rows=rows,
        links=linked,
        keeps=(memory.at(FRAME, "w"), memory.at(FRAME, "w_new")),
        end=memory.at(FRAME, "w")._replace(offset=memory.size),
    )


def _stiffness(size: int) -> tuple[Slots, ...]:
    """Stiffness of the links of an equality, group by group."""
    return tuple(
        GROUP.at(FIRST_LINK, "stiff")._replace(offset=g * GROUP.size + k, tree=NUMBER)
        for g in range(size // WIDTH)
        for k in range(WIDTH)
    )


def spread_frame_forces(size: int) -> Part:
    """Unit forces along the directions, times the root of their stiffness, on the carriers of the links."""
    own, moves, groups = _own(size), (True, True), size // WIDTH

    def step(*reads):
        kept, stiff = reads[: len(own)], reads[len(own) :]
        both: list[tuple[Force, ...]] = []
        for k in range(size):
            zero = jnp.zeros_like(stiff[k])
            f = tuple(jnp.sqrt(stiff[k]) if j == k else zero for j in range(size))
            both.append(tuple(-w for w in _wrenches(size, moves, kept, f)))
        grouped = [both[WIDTH * g : WIDTH * (g + 1)] for g in range(groups)]
        return tuple(tuple(w[end] for w in group) for group in grouped for end in (0, 1))

    def turns(plan: Plan) -> np.ndarray:
        frames, members = plan.frames, plan.frames.members(size, moves)
        _, link = frames.first(size, moves)
        carriers = [
            [plan.links.carrier(int(l) // WIDTH + g, int(frames.rows[e, m])) for g in range(groups) for e in (0, 1)]
            for l, m in zip(link, members, strict=True)
        ]
        return np.concatenate([_turns(size, moves)(plan), table(*np.array(carriers, np.int64).T)], 1)

    links, writes = _stiffness(size), tuple(CARRIER.at(COLUMNS + k, "applied") for k in range(2 * groups))
    return part(turns, step, (*own, *links), writes, when=links[0])

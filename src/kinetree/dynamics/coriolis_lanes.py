"""The Coriolis matrix as a lane program: velocities outward, composites inward, then pairs of rows (coriolis.py).

Everything is in world axes, with the origin at the first joint where joints have positions of their own. With
Ṡ = v × S, v being the velocity of the body that carries the axis, and the composites I, B over all that row i carries,
    C_ji = S_j · (I Ṡ_i + B S_i)        C_ij = Bᵀ S_i · S_j + I S_i · Ṡ_j        for j on the way from the base to i
"""

from typing import Any

import jax
import numpy as np

from kinetree.lanes import Lane, Loop, Memory
from kinetree.lanes.kept.once import once
from kinetree.model import Axis, Model, Structure
from kinetree.spatial import Force, Inertia, Mat3, Motion, Sym3, Vec3

from .closed_form.links import Link, base_part, link_constants, placed_at, world_axis
from .closed_form.shape import Shape
from .closed_form.terms import VelocityProduct
from .schedules import tuning
from .schedules.lane_algorithm import LaneAlgorithm
from .schedules.lane_coupling import serving
from .schedules.lane_parts import unrelated, zero_parts
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
)

LAST, PLACE = 4, 5  # more columns of a row table: slots of the joint's last row, place of the diagonal
ABOVE, ROW, ENTRY, MIRROR = range(4)  # columns of a pair table
INERTIA = Inertia(0.0, ZERO3, Sym3(*6 * (0.0,)))
MOTION, FORCE = Motion(ZERO3, ZERO3), Force(ZERO3, ZERO3)
PRODUCT = VelocityProduct(Mat3(*9 * (0.0,)), ZERO3)


def owed(S: Motion, rate: Motion, I: Inertia, B: VelocityProduct) -> tuple[Force, Vec3, Force]:
    """What a row holds ready for those that carry it: I Ṡ + B S, the angular part of Bᵀ S, and I S."""
    return I @ rate + B.twice(S) * 0.5, B.transposed_twice(S) * 0.5, I @ S


def _row_table(memory: Memory, inward: bool) -> Any:
    def turns(structure: Structure) -> Turns:
        table, rows = row_turns(memory, inward)(structure)
        last = memory.base(Shape(structure, None).last_of_row[rows])
        more = np.stack([last, rows * (structure.tree.n + 1)], -1)
        return np.concatenate([table, more], 1).astype(np.int32), rows

    return turns


@once
def coriolis_lanes(quaternions: bool) -> LaneAlgorithm:
    """q and qd to C, (nv, nv)."""
    fields: dict[str, Any] = {"pose": PLACEMENT, "v": MOTION, "S": MOTION, "rate": MOTION, "I": INERTIA, "B": PRODUCT}
    fields |= {"force": FORCE, "back": ZERO3, "momentum": FORCE}
    fields |= {"placed": PLACEMENT} if quaternions else {}
    memory = Memory(**fields)

    def at(column: int, *names: str) -> tuple:
        return tuple(memory.at(column, name) for name in names)

    def begins(gravity: Vec3) -> dict[str, Any]:
        rest, nothing = Motion.zero_like(gravity.x), Inertia.zero_like(gravity.x)
        return {"v": rest, "I": nothing, "B": VelocityProduct.of(nothing, rest)}

    def outward(link: Link, given: tuple, reads: tuple) -> tuple:
        (pose, v), qd = reads[:2], given[0]
        pose = (reads[2] if quaternions else placed_at(link, given[1])) @ pose
        S = world_axis(pose, link.axis)
        v = v + S * qd
        I: Inertia = pose.transform.inertia_to_parent(link.inertia)
        return (pose, v, S, I, VelocityProduct.of(I, v)), (), ()

    def inward(_: tuple, __: tuple, reads: tuple) -> tuple:
        S, I, B, v = reads
        rate = v.cross(S)
        force, back, momentum = owed(S, rate, I, B)
        return (rate, force, back, momentum), (I, B), (S.dot(force),)

    def pair(_: tuple, __: tuple, reads: tuple) -> tuple:
        S, rate, force, back, momentum = reads
        return (), (), (S.dot(force), back.dot(S.angular) + rate.dot(momentum))

    def pair_turns(structure: Structure) -> Turns:
        (i, j), n = Shape(structure, None).pairs, structure.tree.n
        return np.stack([memory.base(i), memory.base(j), i * n + j, j * n + i], -1).astype(np.int32), 0 * i

    link = Link(None if quaternions else PLACEMENT, Axis(0.0, 0.0), INERTIA, None, None)
    inputs = (Lane(1, V), *(() if quaternions else (Lane(0, Q),)))

    def links(model: Model, rows: np.ndarray) -> Link:
        return link_constants(model.uncoupled, rows, framed=not quaternions)

    reads = at(PARENT, "pose", "v") + (at(OWN, "placed") if quaternions else ())
    carried = at(OWN, "S", "I", "B") + at(LAST, "v")
    left = at(OWN, "rate", "force", "back", "momentum")
    parts = [
        *(placing_parts(memory) if quaternions else []),
        base_part(memory, quaternions, begins),
        Part(
            Loop(outward, 6, jax.tree.structure(link), reads, at(OWN, "pose", "v", "S", "I", "B"), inputs=inputs),
            _row_table(memory, False),
            links,
        ),
        Part(
            Loop(inward, 6, NOTHING, carried, left, at(PARENT, "I", "B"), outputs=(Lane(0, PLACE),)),
            _row_table(memory, True),
            no_constants,
        ),
        Part(
            Loop(
                pair,
                4,
                NOTHING,
                at(ABOVE, "S", "rate") + at(ROW, "force", "back", "momentum"),
                outputs=(Lane(0, ENTRY), Lane(0, MIRROR)),
            ),
            pair_turns,
            no_constants,
        ),
        *zero_parts(unrelated),
    ]
    name = "coriolis" + "_quaternions" * quaternions
    forms = {"forms": lambda s: ((s.tree.n, s.tree.n),), "ranks": (2,), "gives": ("matrix",)}
    return LaneAlgorithm(name, parts, memory, 2, 1, lambda s: (s.tree.n**2,), **forms)


def coriolis_program(model: Model) -> LaneAlgorithm | None:
    """The program that serves a model; None where rotors of free joints have a share, or matrices are too large."""
    turning = model.structure.q_of_row < 0
    rotors = model.rows.armature * model.rows.slide
    if model.tree.n > tuning.CLOSED_FORM_MAX_ROWS or not isinstance(rotors, np.ndarray) or np.any(rotors[turning]):
        return None
    return serving(coriolis_lanes(model.structure.has_quaternions), model)

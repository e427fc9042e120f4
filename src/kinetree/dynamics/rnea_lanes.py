"""RNEA as a lane program: two loops over the rows, with the steps of rnea.py.

Five vectors are turned at each row, which a matrix does with half the operations of a quaternion. But a matrix of a
row is rounded the same in every state and every like row, and along thousands of rows that adds up (see
spatial/rotation.py): mechanisms that are deep are turned by quaternions, made unit again at every row.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.lanes import Lane, Loop, Memory
from kinetree.model import Axis, Model, Placement, Structure, relative_motion
from kinetree.spatial import Force, Moments, Rates, Rotation, Sym3, Transform, Vec3

from .lane_rows import (
    GRAVITY,
    OWN,
    PARENT,
    PLACEMENT,
    ZERO3,
    LaneAlgorithm,
    Part,
    Q,
    V,
    base_gravity,
    base_turn,
    placing_parts,
    row_constants,
    row_turns,
    shift_parts,
)
from .poses import applied_forces_part, pose_parts
from .rnea import base_rates, body_force

Q_IN, QD_IN, QDD_IN, F_IN = range(4)

DEEP = 100  # levels, where matrices leave an error of 3e-15, and quaternions half of that


class Link(NamedTuple):
    """What the loops know of a row."""

    frame: Placement | Transform  # in its parent's, at q = 0
    axis: Axis
    body: Moments
    armature: Any


class Screw(NamedTuple):
    """A row's screw at some coordinate: as its frame wants to know it."""

    cos: Any
    sin: Any
    slide: Any


def _screw(row: Link, q: Any) -> Screw:
    angle = row.axis.turn * q
    if isinstance(row.frame, Placement):
        angle = 0.5 * angle
    return Screw(jnp.cos(angle), jnp.sin(angle), row.axis.slide * q)


BODY = Moments(0.0, ZERO3, Sym3(*6 * (0.0,)))
LINK, DEEP_LINK = (
    jax.tree.structure(Link(frame, Axis(0.0, 0.0), BODY, 0.0))
    for frame in (Transform(Rotation(*9 * (0.0,)), ZERO3), PLACEMENT)
)


def rnea_of(structure: Structure, external: bool = False) -> LaneAlgorithm:
    """The program that serves a mechanism, with or without applied forces."""
    return rnea_lanes(structure.has_quaternions, external, structure.tree.height >= DEEP)


@lru_cache
def rnea_lanes(quaternions: bool, external: bool, deep: bool = False) -> LaneAlgorithm:
    """The program, for models with or without quaternion joints, with or without applied forces, deep or not."""
    fields: dict[str, Any] = {"rates": Rates(ZERO3, ZERO3, ZERO3), "force": Force(ZERO3, ZERO3)}
    fields |= {"placed": PLACEMENT, "shift": 0.0} if quaternions else {"screw": Screw(0.0, 0.0, 0.0)}
    if external:
        fields |= {"pose": PLACEMENT}
    memory = Memory(**fields)
    link = DEEP_LINK if deep else LINK

    def constants(model: Model, rows: np.ndarray) -> Link:
        of = row_constants(model, rows)
        frame = held(Placement(of.orientation.renormalized(), of.position))  # whose length no gradient may feel
        return Link(frame, of.axis, of.inertia.moments(), of.armature)

    def held(placed: Placement) -> Placement | Transform:
        return placed if deep else placed.transform

    def placed(row: Link, slot: Any) -> Placement | Transform:
        """Where a row stands, from what its slot holds."""
        return held(slot) if quaternions else row.frame.screwed(*slot)

    def base(gravity: Vec3, _: tuple, __: tuple) -> tuple:
        return (base_rates(gravity), Force.zero_like(gravity.x)), (), ()

    def outward(row: Link, given: tuple, reads: tuple) -> tuple:
        qd, qdd, *q = given
        rates, *slots = reads
        if quaternions:
            slot, shift = slots
            qdd = qdd - shift
        else:
            slot = _screw(row, *q)
        rates = relative_motion(placed(row, slot), row.axis, qd, qdd).act(rates)
        return (rates, body_force(row.body, rates), *(() if quaternions else (slot,))), (), ()

    def inward(row: Link, given: tuple, reads: tuple) -> tuple:
        force, slot = reads
        tau = row.axis.dot(force) + row.armature * given[0]
        return (), (placed(row, slot).force_to_parent(force),), (tau,)

    def at(column: int, *names: str) -> tuple:
        return tuple(memory.at(column, name) for name in names)

    where = "placed" if quaternions else "screw"
    outward_loop = Loop(
        outward,
        4,
        link,
        reads=at(PARENT, "rates") + (at(OWN, where, "shift") if quaternions else ()),
        writes=at(OWN, "rates", "force") + (() if quaternions else at(OWN, where)),
        inputs=(Lane(QD_IN, V), Lane(QDD_IN, V), *(() if quaternions else (Lane(Q_IN, Q),))),
    )
    inward_loop = Loop(
        inward,
        4,
        link,
        reads=at(OWN, "force", where),
        adds=at(PARENT, "force"),
        inputs=(Lane(QDD_IN, V),),
        outputs=(Lane(0, V),),
    )
    parts = []
    if quaternions:
        parts += placing_parts(memory, Q_IN) + shift_parts(memory, QD_IN)
    parts.append(Part(Loop(base, 4, GRAVITY, writes=at(OWN, "rates", "force")), base_turn(memory), base_gravity))
    parts.append(Part(outward_loop, row_turns(memory), constants))
    if external:
        parts += pose_parts(memory, quaternions, Q_IN)
        parts.append(applied_forces_part(memory, F_IN))
    parts.append(Part(inward_loop, row_turns(memory, inward=True), constants))
    name = "rnea" + "_quaternions" * quaternions + "_external" * external + "_deep" * deep
    return LaneAlgorithm(name, parts, memory, 3 + external, 1, lambda s: (s.tree.n,))

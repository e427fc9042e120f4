"""Sums over the whole mechanism: moment of mass, kinetic energy and momentum of all rows, under any schedule.

Poses and velocities go outward, then each row's share is added up. Over the tree that is one sum; in lanes the shares
flow inward from row to row, so that a bushy tree is summed as evenly as it branches.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from kinetree.lanes import Lane, Loop, Memory
from kinetree.lanes.once import once
from kinetree.model import Model, Placement, Rows
from kinetree.model.coordinates import placements
from kinetree.spatial import Force, Inertia, Motion, Scalar, Vec3
from kinetree.tree import rootfix

from .lane_rows import (
    GRAVITY,
    NOTHING,
    OWN,
    PARENT,
    PLACEMENT,
    ROWS,
    ZERO3,
    LaneAlgorithm,
    Part,
    Q,
    V,
    base_gravity,
    base_turn,
    no_constants,
    placing_parts,
    row_turns,
    screw_place,
)
from .poses import POSE, VELOCITY, compose, identity_pose, velocity_step


class Totals(NamedTuple):
    """Σ m c, Σ v·I v and Σ I v: in world coordinates, about the world origin."""

    moment: Vec3
    twice_kinetic: Scalar
    momentum: Force

    @staticmethod
    def zero_like(s: Scalar) -> "Totals":
        """Nothing, with components shaped like `s`."""
        return Totals(Vec3.zero_like(s), jnp.zeros_like(s), Force.zero_like(s))


def share(I: Inertia, pose: Placement, v: Motion) -> Totals:
    """What one row adds."""
    own: Force = I @ v
    return Totals(pose.position * I.mass + pose.orientation.turn(I.h), v.dot(own), pose.transform.force_to_parent(own))


def over_the_tree(model: Model, q: Any, qd: Any, schedule: str) -> Totals:
    """Sums under "levels", "paths" or "euler"; under `jit` what of them is not used is not computed."""
    rows = jax.tree.map(lambda x: jnp.asarray(x, q.dtype)[:, None], model.rows)
    placed = placements(model.structure, rows, q.T)
    still = jnp.zeros(q.shape[:1], q.dtype)
    pose = rootfix(model.tree, POSE, placed, identity_pose(still), schedule=schedule)
    moving = (placed, rows.axis.times(qd.T))
    v = rootfix(model.tree, VELOCITY, moving, Motion.zero_like(still), schedule=schedule)
    return jax.tree.map(lambda x: x.sum(0), share(rows.inertia, pose, v))


def _at(memory: Memory, column: int, *names: str) -> tuple:
    return tuple(memory.at(column, name) for name in names)


@once
def _lanes(quaternions: bool) -> LaneAlgorithm:
    """The lane program, for models with or without quaternion joints."""
    zero = Totals(ZERO3, 0.0, Force(ZERO3, ZERO3))
    fields: dict[str, Any] = {"pose": PLACEMENT, "velocity": Motion(ZERO3, ZERO3), "totals": zero}
    if quaternions:
        fields |= {"placed": PLACEMENT}
    memory = Memory(**fields)

    def base(gravity: Vec3, _: tuple, __: tuple) -> tuple:
        s = gravity.x
        return (identity_pose(s), Motion.zero_like(s), Totals.zero_like(s)), (), ()

    def outward(row: Rows, given: tuple, reads: tuple) -> tuple:
        qd, *q = given
        placed = reads[2] if quaternions else screw_place(row, *q)
        pose = compose(reads[0], placed)
        v = velocity_step((placed, row.axis.times(qd)), reads[1])
        return (pose, v, share(row.inertia, pose, v)), (), ()

    def inward(_: tuple, __: tuple, reads: tuple) -> tuple:
        return (), reads, ()

    def end(_: tuple, __: tuple, reads: tuple) -> tuple:
        return (), (), tuple(jax.tree.leaves(reads))

    kept = ("pose", "velocity", "totals")
    reads = _at(memory, PARENT, "pose", "velocity") + (_at(memory, OWN, "placed") if quaternions else ())
    given = (Lane(1, V),) if quaternions else (Lane(1, V), Lane(0, Q))
    outputs = tuple(Lane(0, V, k) for k in range(10))
    totals = _at(memory, OWN, "totals")
    parts = [
        *(placing_parts(memory) if quaternions else ()),
        Part(Loop(base, 4, GRAVITY, writes=_at(memory, OWN, *kept)), base_turn(memory), base_gravity),
        Part(Loop(outward, 4, ROWS, reads=reads, writes=_at(memory, OWN, *kept), inputs=given), row_turns(memory)),
        Part(
            Loop(inward, 4, NOTHING, reads=totals, adds=_at(memory, PARENT, "totals")),
            row_turns(memory, inward=True),
            no_constants,
        ),
        Part(Loop(end, 4, NOTHING, reads=totals, outputs=outputs), base_turn(memory), no_constants),
    ]
    return LaneAlgorithm("totals" + "_quaternions" * quaternions, parts, memory, 2, 1, lambda s: (10,))


def in_lanes(model: Model, q: Any, qd: Any, schedule: str) -> Totals:
    """Sums under "lanes" or "sequential"."""
    (found,) = _lanes(model.structure.has_quaternions)(model, q, qd, schedule=schedule)
    columns = [found[:, k] for k in range(10)]
    return Totals(Vec3(*columns[:3]), columns[3], Force(Vec3(*columns[4:7]), Vec3(*columns[7:])))

"""Columns of Jacobians, and a lane program that makes them: poses of the rows that carry the body, then a column of
each. The other rows' are zero.
"""

import jax
import numpy as np

from kinetree.lanes import Lane, Loop, Memory
from kinetree.lanes.kept.once import once
from kinetree.model import Axis, Placement, Structure
from kinetree.spatial import Motion, Rotation, Transform, Vec3

from .algorithms.frames import axes_and_point
from .algorithms.poses import carried
from .schedules.lane_algorithm import LaneAlgorithm
from .schedules.lane_parts import frame_constants, pose_parts, zero_parts
from .schedules.lane_places import carrying, on_the_way
from .schedules.lane_root_pairs import root_rows
from .schedules.lane_roots import LAST, ROWS
from .schedules.lane_rows import (
    NOTHING,
    PLACEMENT,
    SCREW,
    ZERO3,
    Part,
    Screw,
    Turns,
    joints_with,
    no_constants,
    placing_parts,
    screw_constants,
)

TARGET, ROW, ENTRIES = 0, 1, 2  # columns of the table: first slots of the base and of the row, then six entries of J


def jacobian_column(pose: Placement, axis: Axis, E: Rotation, point: Vec3) -> Motion:
    """What a row's axis does at a point of the world, in coordinates turned by E: see jacobians.py. 36m 28a."""
    z = pose.orientation.rotation().rows[2]
    angular = z * axis.turn
    return Motion(E @ angular, E @ (z * axis.slide + angular.cross(point - pose.position)))


def root_columns(pose: Placement, E: Rotation, point: Vec3) -> list[Motion]:
    """Columns of the six rows of a free joint, whose axes are those of its body."""
    axes = pose.orientation.rotation().rows
    turning = [Motion(E @ z, E @ z.cross(point - pose.position)) for z in axes]
    return [*turning, *(Motion(Vec3.zero_like(point.x), E @ z) for z in axes)]


@once
def jacobian_lanes(quaternions: bool, roots: bool, way: int) -> LaneAlgorithm:
    """The program, in one of the three ways of frames.py.

    Arguments:
        quaternions: whether there are joints with quaternions, other than `roots`.
        roots: whether there are free joints that hang from the base.
        way: see frames.py.
    """
    fields = {"pose": PLACEMENT, "target": Transform(Rotation(*9 * (0.0,)), ZERO3)}
    memory = Memory(**fields, **({"placed": PLACEMENT} if quaternions else {}))

    def aim(frame: Transform, _: tuple, reads: tuple) -> tuple:
        (pose,) = reads
        E, p = carried(pose, frame)
        return (Transform(*axes_and_point(E, p, way)),), (), ()

    def column(joint: Screw, _: tuple, reads: tuple) -> tuple:
        target, pose = reads
        angular, linear = jacobian_column(pose, joint.axis, *target)
        return (), (), (*angular, *linear)

    def columns_of_root(_: tuple, __: tuple, reads: tuple) -> tuple:
        target, pose = reads
        columns = [(*angular, *linear) for angular, linear in root_columns(pose, *target)]
        return (), (), tuple(column[k] for k in range(6) for column in columns)

    def entries(structure: Structure, rows: np.ndarray) -> Turns:
        first = [np.full_like(rows, memory.base(-1)), memory.base(rows)]
        table = np.stack([*first, *(rows + k * structure.tree.n for k in range(6))], -1)
        return table.astype(np.int32), rows

    def one_turn(structure: Structure, body: int) -> Turns:
        slots = [memory.base(-1), memory.base(structure.row_of_body[body])]
        return np.array([slots], np.int32), np.array([body])

    def with_column(structure: Structure, body: int) -> Turns:
        carry = carrying(structure, body)
        return entries(structure, np.flatnonzero(carry & ~root_rows(structure) if roots else carry))

    def of_root(structure: Structure, body: int) -> Turns:
        first = joints_with(structure, 1)[:, 0]
        table, rows = entries(structure, first[carrying(structure, body)[first]])
        table[:, ROW] = memory.base(rows + LAST)
        return table, rows

    def without(structure: Structure, body: int) -> np.ndarray:
        return np.tile(~carrying(structure, body), 6)

    target = jax.tree.structure(fields["target"])
    aimed_at, stands = memory.at(TARGET, "target"), memory.at(ROW, "pose")
    outputs = tuple(Lane(0, ENTRIES + k) for k in range(6))
    base, *poses = pose_parts(memory, "pose", quaternions, roots)
    parts = [on_the_way(part) for part in placing_parts(memory)] if quaternions else []
    parts += [
        base,
        *map(on_the_way, poses),
        Part(Loop(aim, 2, target, reads=(stands,), writes=(aimed_at,)), one_turn, frame_constants),
        Part(Loop(column, 8, SCREW, reads=(aimed_at, stands), outputs=outputs), with_column, screw_constants),
        *zero_parts(without),
    ]
    if roots:
        of_six = tuple(Lane(0, ENTRIES + k, j) for k in range(6) for j in range(ROWS))
        loop = Loop(columns_of_root, 8, NOTHING, reads=(aimed_at, stands), outputs=of_six)
        parts.append(Part(loop, of_root, no_constants))
    name = "jacobian" + "_quaternions" * quaternions + "_roots" * roots
    forms = {"forms": lambda s: ((6, s.tree.n),), "ranks": (2,), "gives": ("force",)}
    return LaneAlgorithm(name, parts, memory, 1, 1, lambda s: (6 * s.tree.n,), **forms)

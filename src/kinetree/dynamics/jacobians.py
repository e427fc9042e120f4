"""Jacobians of bodies and frames: velocity = J qd.

Column i is the velocity of the point for a unit rate of row i, if row i is on the way from the base to the body:
    angular  turn_i z_i          linear  slide_i z_i + turn_i z_i × (point − p_i)
with z_i and p_i the axis and origin of the row in the world (RBDA eq. 8.8). The difference of points is taken first, so
a robot far from the origin loses no digits.

The lane program finds the poses of the rows that carry the body, then their columns. All other columns are zero.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._types import Array, Float
from kinetree.lanes import NOTHING, Lane, Loop, Memory
from kinetree.lanes.kept.once import once
from kinetree.model import Axis, Model, Placement, Structure
from kinetree.model.arguments import evaluate_for
from kinetree.spatial import Motion, Rotation, Transform, Vec3
from kinetree.tree import Layout, layout, pick, restore

from .algorithms.frames import axes_and_point
from .algorithms.poses import carried
from .directly import directly
from .frames import frame_number, way_number, with_base
from .recursion import Row
from .schedules.arranged import arranged, row_poses
from .schedules.choose import IN_ORDER, call_of, choose, note
from .schedules.lane_algorithm import LaneAlgorithm
from .schedules.lane_coupling import serving
from .schedules.lane_parts import carrying, frame_constants, on_the_way, pose_parts, zero_parts
from .schedules.lane_root_pairs import root_rows
from .schedules.lane_roots import LAST, ROWS
from .schedules.lane_rows import (
    ACCURATE,
    PLACEMENT,
    ZERO3,
    RowPart,
    Turns,
    joints_with,
    kind_of,
    placing_parts,
)
from .schedules.lane_visits import row_count

AXIS = ("axis",)  # the constants of a row
TARGET, ROW, ENTRIES = 0, 1, 2  # columns of the table: first slots of the base and of the row, then six entries of J


def jacobian_column(pose: Placement, axis: Axis, E: Rotation, point: Vec3) -> Motion:
    """The column of a row for a point of the world, in coordinates turned by E; see the module. 36m 28a."""
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
        quaternions: True if there are joints with quaternions, other than `roots`. roots: True if there are free joints
        that hang from the base.
        way: see frames.py.
    """
    fields = {"pose": PLACEMENT, "target": Transform(Rotation(*9 * (0.0,)), ZERO3)}
    memory = Memory(**fields, **({"placed": PLACEMENT} if quaternions else {}))

    def aim(frame: Transform, _: tuple, reads: tuple) -> tuple:
        (pose,) = reads
        E, p = carried(pose, frame)
        return (Transform(*axes_and_point(E, p, way)),), (), ()

    def column(joint: Row, _: tuple, reads: tuple) -> tuple:
        target, pose = reads
        angular, linear = jacobian_column(pose, joint.axis, *target)
        return (), (), (*angular, *linear)

    def columns_of_root(_: tuple, __: tuple, reads: tuple) -> tuple:
        target, pose = reads
        columns = [(*angular, *linear) for angular, linear in root_columns(pose, *target)]
        return (), (), tuple(column[k] for k in range(6) for column in columns)

    def entries(structure: Structure, rows: np.ndarray) -> Turns:
        first = [np.full_like(rows, memory.base(-1)), memory.base(rows)]
        return np.stack([*first, *(rows + k * structure.tree.n for k in range(6))], -1), rows

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
        RowPart(Loop(aim, 2, target, reads=(stands,), writes=(aimed_at,)), one_turn, frame_constants),
        RowPart(
            Loop(column, 8, ACCURATE.parts_structure(AXIS), reads=(aimed_at, stands), outputs=outputs),
            with_column,
            ACCURATE.parts_constants(AXIS),
        ),
        *zero_parts(without),
    ]
    if roots:
        of_six = tuple(Lane(0, ENTRIES + k, j) for k in range(6) for j in range(ROWS))
        loop = Loop(columns_of_root, 8, NOTHING, reads=(aimed_at, stands), outputs=of_six)
        parts.append(RowPart(loop, of_root))
    name = "jacobian" + "_quaternions" * quaternions + "_roots" * roots
    return LaneAlgorithm(name, parts, memory, ("q",), ((6, row_count),), gives=("force",))


@jax.jit
def _jacobian(laid: Layout, model: Model, q: Any, body: Any, way: Any) -> Any:
    at = arranged(laid, model, q)
    row = jnp.asarray(model.structure.row_of_body, jnp.int32)[body]  # that carries the body; −1 for the base
    by_place = row_poses(laid, at)
    on: Placement = pick(with_base(laid, by_place), row + 1)
    own: Transform = jax.tree.map(lambda x: jnp.asarray(x, q.dtype)[body], model.frames)
    E, point = axes_and_point(*carried(on, own), way)
    rows, pose = restore(laid, (at.rows, by_place))
    moved = jacobian_column(pose, rows.axis, E, Vec3(*(c[None, :] for c in point)))
    carries = _carries(model, row)
    columns = jnp.where(carries[:, None, None], moved.array(), jnp.zeros((), q.dtype))
    return jnp.transpose(columns, (1, 2, 0))


def _program(model: Model, way: int) -> LaneAlgorithm:
    kind = kind_of(model)
    return serving(jacobian_lanes(kind.quaternions, kind.roots, way), model)


def _at_once(model: Model, body: int | str, frame: str) -> tuple[LaneAlgorithm, tuple[int, ...]]:
    return _program(model, int(way_number(frame))), (int(frame_number(model, body)),)


def _across_states(model: Model, q: Any, body: int, way: int, schedule: str) -> Any:
    return _program(model, way)(model, q, schedule=schedule, about=(body,))[0].reshape(-1, 6, model.nv)


def _carries(model: Model, row: Any) -> Any:
    """(rows,): which rows are `row` or its ancestors; none for the base."""
    lp, rp = jnp.asarray(model.tree.lp), jnp.asarray(model.tree.rp)
    return (row >= 0) & (lp <= lp[row]) & (rp[row] <= rp)


@directly(_at_once)
def jacobian(
    model: Model, q: Float[Array, "... nq"], body: int | str, frame: str = "world", *, schedule: str = "auto"
) -> Float[Array, "... 6 nv"]:
    """Jacobian of a body or of a frame fixed to one.

    Arguments:
        model: the mechanism.
        q: (..., nq).
        body: number or name of a body, link or site.
        frame: in which coordinates, at which point: "world" (at the world's origin), "local" (the frame's own) or
            "aligned" (world coordinates, at the frame's origin).
        schedule: "auto", "lanes", "sequential", "levels" or "paths".

    Returns:
        J, (..., 6, nv), angular part first, with `frame_velocity` = J qd.

    Reference: Featherstone 2008 §8.1.
    """
    number, way = frame_number(model, body), way_number(frame)

    def compute(q: Any) -> Any:
        choice = choose(call_of(model, (q,)), schedule, walks=False)
        note("jacobian", choice)
        chosen = choice.schedule
        if model.nv == 0:
            return jnp.zeros((q.shape[0], 6, 0), q.dtype)
        if chosen in IN_ORDER:
            return _across_states(model, q, int(number), int(way), chosen)
        if model.coupling is None:
            return _jacobian(layout(model.tree, chosen), model, q, number, way)
        whole = model.coupling.widen_q(q)
        return model.coupling.narrow(_jacobian(layout(model.tree, chosen), model.uncoupled, whole, number, way))

    return evaluate_for(model, compute, q=q)

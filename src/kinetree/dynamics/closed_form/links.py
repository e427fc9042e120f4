"""Common parts of programs in world axes: constants of links, joints and pairs of rows; the base; axes in the world."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from kinetree.lanes import Loop, Memory
from kinetree.model import Axis, Model, Placement, Structure, place
from kinetree.spatial import Motion, Vec3

from ..recursion import Row
from ..schedules.lane_rows import ACCURATE, GRAVITY, OWN, RowPart, Turns, V, base_gravity
from .shape import Skeleton


class SlopeJoint(NamedTuple):
    """The joint's terms on the diagonals, and its ratio to the coordinate that it follows."""

    armature: Any
    stiffness: Any
    damping: Any
    ratio: Any


def placed_at(link: Row, q: Any) -> Placement:
    """The placement of a screw at coordinate q."""
    return place(link.frame.orientation, link.frame.position, link.axis, q)


def world_axis(pose: Placement, axis: Axis) -> Motion:
    """S of a row with this pose, in world axes about the origin."""
    z = pose.orientation.rotation().rows[2]
    turning = z * axis.turn
    return Motion(turning, z * axis.slide + pose.position.cross(turning))


def base_part(memory: Memory, quaternions: bool, begins: Callable[[Vec3], dict[str, Any]]) -> RowPart:
    """The turn of the base: its `pose`, and the fields of `begins(gravity)`.

    If joints have positions of their own, the origin is put at the first such joint: inertias about a far origin would
    lose digits.
    """
    # only the names, found without XLA, which a forked process can not use
    names = tuple(jax.eval_shape(begins, Vec3(*3 * (jax.ShapeDtypeStruct((), np.float32),))))
    reads = (memory.at(V, "placed"),) if quaternions else ()

    def step(gravity: Vec3, _: tuple, reads: tuple) -> tuple:
        pose, found = Placement.identity_like(gravity.x), begins(gravity)
        if reads:
            pose = pose._replace(position=-reads[0].position)
        return (pose, *(found[n] for n in names)), (), ()

    def turns(shape: Skeleton | Structure) -> Turns:
        base, row = memory.base(-1), memory.base(0)
        return np.array([[base, base, row, 0]], np.int32), np.zeros(1, np.int64)

    writes = tuple(memory.at(OWN, name) for name in ("pose", *names))
    return RowPart(Loop(step, 4, GRAVITY, reads, writes), turns, base_gravity)


def link_structure(names: tuple[str, ...], coupled: bool) -> Any:
    """The treedef of some parts of a link, and of the line of its coordinate if joints follow others."""
    tree = ACCURATE.parts_structure(names)
    link = jax.tree.unflatten(tree, [0.0] * tree.num_leaves)
    return jax.tree.structure(Row(link | dict.fromkeys(_line(names) if coupled else (), 0.0)))


def link_constants(names: tuple[str, ...]) -> Callable[[Model, np.ndarray], Row]:
    """Their values for given rows."""
    links = ACCURATE.parts_constants(names)

    def constants(model: Model, rows: np.ndarray) -> Row:
        coupling = model.coupling
        if coupling is None:
            return links(model, rows)
        own = np.maximum(model.structure.q_of_row[rows], 0)
        line = zip(_line(names), (coupling.ratio_v[rows], coupling.offset_q[own]), strict=False)
        return Row(links(model, rows) | dict(line))

    return constants


def _line(names: tuple[str, ...]) -> tuple[str, ...]:
    return ("ratio", "offset") if "frame" in names else ("ratio",)


def joint_constants(model: Model, rows: np.ndarray) -> SlopeJoint:
    """Joints of these rows. Springs of quaternion joints are not diagonal: see blocks.py."""
    none = np.zeros(len(rows))
    damping, stiffness = (none, none) if model.passive is None else (x[rows] for x in model.passive[:2])
    ratio = None if model.coupling is None else model.coupling.ratio_v[rows]
    screws = (model.structure.q_of_row[rows] >= 0).astype(float)
    return SlopeJoint(model.rows.armature[rows], stiffness * screws, damping, ratio)


def pair_ratios(model: Model, pairs: np.ndarray) -> Any:
    """Products of the ratios of two rows, i and j, numbered by i n + j."""
    assert model.coupling is not None
    n, ratio = model.tree.n, model.coupling.ratio_v
    return ratio[pairs // n] * ratio[pairs % n]

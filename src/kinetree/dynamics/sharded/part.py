"""The work of one device on its part of a tree: coordinates to rows, the walks of an algorithm, and back to joints."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from kinetree.model.coordinates import joint_poses, shifted_rows
from kinetree.model.physics import quaternion_stretch, way_from_rest
from kinetree.spatial import Quaternion, Vec3
from kinetree.tree.stages import Stages

from ..joint_terms import inputs_of_rows, joint_acceleration
from ..recursion import Algorithm
from ..schedules.stage_passes import SharedPorts
from ..schedules.staged import with_placements
from ..schedules.stages import CellPlan, over_stages


class Springs(NamedTuple):
    """Springs and dampers of a part: two arrays over its rows, one over its coordinates."""

    damping: Any
    stiffness: Any
    rest: Any


class DevicePart(NamedTuple):
    """The part of a tree on a device."""

    laid: Stages
    constants: tuple[Any, ...]  # (turns, fields, lanes) of each stage
    quaternions: "Quaternions | None"
    springs: Springs | None


class Joints(NamedTuple):
    """Quaternion joints of one kind. Padding has a first row outside the part, so it has no effect."""

    number: Any  # (joints, 3), as in `Structure`
    fixed: Any  # (7, joints): orientation and position of each first row at rest

    @property
    def first(self) -> Any:
        """First rows."""
        return self.number[:, 0]


class Quaternions(NamedTuple):
    """The quaternion joints of a part."""

    spherical: Joints
    free: Joints
    q_of_row: Any  # (rows,)
    armature: Any  # (rows,)
    slide: Any

    def kinds(self) -> list[tuple[Joints, bool]]:
        """The joints of each kind that exists, and whether a position comes first."""
        return [(x, place) for x, place in ((self.spherical, False), (self.free, True)) if x.number.shape[0]]


def _row_coordinates(part: DevicePart, q: Any) -> tuple[tuple[Any, ...], Any]:
    """Constants with the placements of quaternion joints in them, and the coordinate of each row."""
    constants, joined = part.constants, part.quaternions
    if joined is None:
        return constants, q
    own = jnp.where(joined.q_of_row >= 0, q[jnp.maximum(joined.q_of_row, 0)], jnp.zeros((), q.dtype))
    for joints, _ in joined.kinds():
        constants = _with_placements(part, constants, joints, q)
    return constants, own


def _with_placements(part: DevicePart, constants: tuple[Any, ...], joints: Joints, q: Any) -> tuple[Any, ...]:
    placed = jnp.stack(jax.tree.leaves(joint_poses(joints.number[:, 1:], joints.fixed, q)), 1)
    rows = part.laid.position_of.shape[0]
    known = part.laid.position_of[jnp.minimum(joints.first, rows - 1)]
    position = jnp.where(joints.first < rows, known, part.laid.positions)
    return with_placements(part.laid, constants, position, placed)


def _shift(part: DevicePart, qd: Any) -> Any:
    shift = jnp.zeros_like(qd)
    for joints, has_position in part.quaternions.kinds() if part.quaternions else ():
        shift = shifted_rows(shift, joints.first, has_position, qd)
    return shift


def _passive(part: DevicePart, own: Any, q: Any, qd: Any) -> Any:
    """The forces of springs and dampers, (rows,)."""
    s = part.springs
    assert s is not None
    joined = part.quaternions
    stretch = own - (s.rest if joined is None else s.rest[jnp.maximum(joined.q_of_row, 0)])
    for joints, has_position in joined.kinds() if joined else ():
        first, start = joints.first, joints.number[:, 1]
        at = start + 3 * has_position
        here, there = (Quaternion(*(x[at + k] for k in range(4))) for x in (q, s.rest))
        turned = quaternion_stretch(there, here)
        moved = ()
        if has_position:
            begin, end = (Vec3(*(x[start + k] for k in range(3))) for x in (s.rest, q))
            moved = way_from_rest(begin, end, here)
        for k, value in enumerate((*turned, *moved)):
            stretch = stretch.at[first + k].set(value)
    return -s.stiffness * stretch - s.damping * qd


def of_part(
    algorithm: Algorithm, hinges: bool, part: DevicePart, ports: SharedPorts, gravity: Any, inputs: dict[str, Any]
) -> dict[str, Any]:
    """The outputs of an algorithm for the rows of a part, (rows,), from arrays over its coordinates and rows."""
    q, qd = inputs["q"], inputs["qd"]
    constants, own = _row_coordinates(part, q)
    shift = _shift(part, qd)
    none = jnp.zeros((), q.dtype)  # without a shift, rotors feel the acceleration of the joint
    armature, slide = (none, none) if part.quaternions is None else part.quaternions[-2:]
    passive = None if part.springs is None else _passive(part, own, q, qd)
    if "tau" in inputs and passive is not None:
        inputs = inputs | {"tau": inputs["tau"] + passive}
    given = inputs_of_rows(inputs, armature, slide, shift) | {"q": own}
    found = over_stages(CellPlan(algorithm, hinges), part.laid, constants, gravity, given, ports)
    if "qdd" in found:
        found["qdd"] = joint_acceleration(found["qdd"], shift)
    if "tau" in found and passive is not None:
        found["tau"] = found["tau"] - passive
    return found

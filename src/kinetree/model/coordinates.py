"""From joint coordinates to rows: placements, and the shift of accelerations that makes quaternion joints exact.

The rows of a spherical or free joint are at rest in one another, as a chain of hinges and sliders at angle zero. Such a
chain has velocity-product accelerations Σ_{j<k} S_j u_j × S_k u_k. The joint itself does not have them, as all its axes
are fixed in the body. They lie in the span of the joint's own axes, so it is enough to subtract them from the
accelerations on the way in, and to add them again on the way out. So every algorithm has plain rows.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from kinetree.spatial import Quaternion, Vec3
from kinetree.tree import pick

from .model import Structure
from .rows import Placement, Rows, place

X_FRAME = Quaternion(0.5, 0.5, 0.5, 0.5)  # of the first row, about x, in the body's frame


def joint_pose(orientation: Quaternion, position: Vec3, quaternion: Quaternion, offset: Vec3) -> Placement:
    """Placement of the first row of a quaternion joint, from its tree pose and its coordinates."""
    own = quaternion.normalized() * X_FRAME
    return Placement(orientation * own, position + orientation.turn(offset))


def first_placements(structure: Structure, rows: Rows, q: Any) -> tuple[Any, Placement]:
    """The first rows of quaternion joints, and their placements, (joints, batch)."""
    first = structure.quaternion_joints[:, 0]
    fixed = pick([*rows.orientation, *rows.position], first)
    return first, joint_poses(structure.quaternion_joints[:, 1:], fixed, q)


def joint_poses(columns: Any, fixed: Any, q: Any) -> Placement:
    """Placements of the first rows of quaternion joints, (joints, ...), from q, (nq, ...).

    `columns`, (joints, 2): where each joint's coordinates begin, and whether a position comes first. `fixed`: the seven
    components of how its first row stands at rest.
    """
    start, free = columns.T
    quaternion = Quaternion(*(pick(q, start + 3 * free + k) for k in range(4)))
    is_free = jnp.asarray(free.reshape(-1, *(1,) * (q.ndim - 1)), q.dtype)
    offset = Vec3(*(pick(q, start + k * free) * is_free for k in range(3)))
    return joint_pose(Quaternion(*fixed[:4]), Vec3(*fixed[4:]), quaternion, offset)


def placements(structure: Structure, rows: Rows, q: Any) -> Placement:
    """Placement of every row, (nv, batch), from q, (nq, batch), and constants, (nv, 1)."""
    column = structure.q_of_row
    own = pick(q, np.maximum(column, 0))
    if len(structure.quaternion_joints) == 0:
        return place(rows.orientation, rows.position, rows.axis, own)
    own = jnp.where((column >= 0)[:, None], own, jnp.zeros_like(own))
    first, posed = first_placements(structure, rows, q)

    def put(whole: Any, part: Any) -> Any:
        return jnp.broadcast_to(whole, own.shape).at[first].set(part)

    orientation = Quaternion(*map(put, rows.orientation, posed.orientation))
    position = Vec3(*map(put, rows.position, posed.position))
    return place(orientation, position, rows.axis, own)


def chained_acceleration(omega: Vec3, linear: Vec3) -> tuple[Vec3, Vec3]:
    """Σ_{j<k} S_j u_j × S_k u_k of six rows, turning about x, y, z, then sliding along them. 9m 3a."""
    return Vec3(omega.y * omega.z, -(omega.x * omega.z), omega.x * omega.y), omega.cross(linear)


def armature_shift(structure: Structure, rows: Rows, qd: Any) -> Any:
    """The acceleration that armatures feel minus qdd, (nv, batch), for row constants (nv, 1).

    A rotor resists the acceleration of what it turns. Along the sliding rows of a free joint that is the acceleration
    of the joint's origin, v̇ + ω × v in body coordinates: R times that is the rate of R v, which MuJoCo calls qacc. As
    free joints have the same armature three times, it matters not that MuJoCo's axes are the world's.
    """
    return rows.slide * velocity_product_shift(structure, qd)


def velocity_product_shift(structure: Structure, qd: Any) -> Any:
    """The shift: it is subtracted from qdd, (nv, batch), before the rows get it; zero except at quaternion joints."""
    shift = jnp.zeros_like(qd)
    for has_position in (0, 1):
        first = structure.quaternion_joints[structure.quaternion_joints[:, 2] == has_position, 0]
        if len(first):
            shift = shifted_rows(shift, first, bool(has_position), qd)
    return shift


def shifted_rows(shift: Any, first: Any, has_position: bool, qd: Any) -> Any:
    """`shift` with the entries of some quaternion joints, without those whose first row is outside."""
    omega = Vec3(*(qd[first + k] for k in range(3)))
    linear = Vec3(*(qd[first + 3 + k] for k in range(3))) if has_position else Vec3.zero_like(omega.x)
    angular_part, linear_part = chained_acceleration(omega, linear)
    for k, part in enumerate((*angular_part, *linear_part)[: 3 + 3 * has_position]):
        shift = shift.at[first + k].set(part)
    return shift

"""Passive terms of joints: springs and dampers, dry friction, limits.

The equation of motion is H(q) qdd + C(q, qd) = tau + tau_passive(q, qd) + forces on bodies, with
    tau_passive = −stiffness · stretch(q) − damping · qd
and rotor inertia (armature) on the diagonal of H. `stretch` is the distance of a joint from its rest: a difference of
coordinates for hinges and sliders; for quaternions the rotation vector from rest, in body coordinates; for the position
of a free joint the displacement from rest, in body coordinates too. Dry friction and limits act only in simulations.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from kinetree._arrays import require_real
from kinetree._types import AnyArray, Float
from kinetree.spatial import Quaternion, Vec3

from .checks import real_numbers
from .errors import ModelError


class Passive(NamedTuple):
    """Springs and dampers; over the degrees of freedom, `rest` over the coordinates."""

    damping: Float[AnyArray, " nv"]
    stiffness: Float[AnyArray, " nv"]
    rest: Float[AnyArray, " nq"]


class Limits(NamedTuple):
    """Bounds on coordinates (nq,), and on the sizes of velocities and forces (nv,); infinite where there are none."""

    lower: Float[AnyArray, " nv"]
    upper: Float[AnyArray, " nv"]
    velocity: Float[AnyArray, " nv"]
    effort: Float[AnyArray, " nv"]


def vector(name: str, value: Any, size: int, least: float = -np.inf, finite: bool = True) -> Any:
    """One number for each of `size` coordinates, from as many or from one; checked unless it is being traced."""
    if isinstance(value, jnp.ndarray):
        require_real(name, value)
        if value.shape not in ((), (size,)):
            raise ModelError(f"{name} must have shape ({size},), not {value.shape}")
        return jnp.broadcast_to(value, (size,))
    try:
        array = np.broadcast_to(real_numbers(value, name), (size,)).copy()
    except ValueError:
        raise ModelError(f"{name} must be {size} real numbers, or one for all") from None
    bad = np.isnan(array) | (array < least) | (finite & np.isinf(array))
    if bad.any():
        at = int(np.argmax(bad))
        raise ModelError(f"{name} of coordinate {at} is {array[at]}")
    return array


def check_rotors(armature: Any, structure: Any) -> Any:
    """Armatures (nv,), if those along the three axes of each free joint are the same; those being traced pass."""
    if isinstance(armature, np.ndarray):
        joints = structure.quaternion_joints
        for first in joints[joints[:, 2] == 1, 0]:
            if len(set(armature[first + 3 : first + 6])) > 1:
                name = structure.joint_names[int(np.searchsorted(structure.v_start, first, side="right")) - 1]
                raise ModelError(f"armature of free joint {name!r}: the three along its axes must be the same")
    return armature


def stretch(structure: Any, rest: Any, q: Any) -> Any:
    """How far q, (batch, nq), is from rest, (nq,): (batch, nv)."""
    scalar = np.maximum(structure.q_of_row, 0)
    out = q[:, scalar] - rest[scalar]
    first, start, is_free = structure.quaternion_joints.T
    for number in range(len(first)):  # few joints have quaternions, and very few of these have a spring
        row, column, free = int(first[number]), int(start[number]), int(is_free[number])
        at = column + 3 * free
        here, there = Quaternion.from_array(q[:, at : at + 4]), Quaternion.from_array(rest[at : at + 4])
        out = out.at[:, row : row + 3].set(quaternion_stretch(there, here).array())
        if free:
            begin, end = (Vec3.from_array(x[..., column : column + 3]) for x in (rest, q))
            out = out.at[:, row + 3 : row + 6].set(way_from_rest(begin, end, here).array())
    return out


def quaternion_stretch(rest: Quaternion, here: Quaternion) -> Vec3:
    """The rotation vector from rest to here, in body coordinates."""
    return (rest.normalized().conjugate() * here.normalized()).log()


def way_from_rest(rest: Vec3, here: Vec3, orientation: Quaternion) -> Vec3:
    """The way of a free joint's origin from rest to here, in body coordinates."""
    return orientation.normalized().conjugate().turn(here - rest)

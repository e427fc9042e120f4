"""Transmission: how actuators see their joints. Lengths, velocities, and the moments that carry forces to joints.

A moment is a row over the degrees of freedom of one joint, at most six, padded to the widest. For hinges, sliders and
joints made of them it is the gear itself. On a ball the gear is an axis in the body, or in the parent, and the length
the turn from rest along it. On a free joint the gear is a force along the world's axes and a moment about the body's
(or, in the parent, the world's) axes, and there is no length: it counts as zero. The facts are MuJoCo's.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from kinetree.model import Actuators, Structure
from kinetree.model.actuators import Wiring
from kinetree.spatial import Quaternion, Vec3


class Columns(NamedTuple):
    """Where the actuators of a wiring act.

    Tables of indices are of 32 bits. JAX remembers the type that it gave to an array, and would give those of 64 bits
    again in its other mode, where it is wrong.
    """

    dof: np.ndarray  # (n, width), columns of qd; `used` is False where there is none
    q: np.ndarray  # (n, width), columns of q, for joints without a quaternion
    used: np.ndarray  # (n, width)
    has_length: np.ndarray  # (n,), length is gear · q
    turned: tuple[tuple[int, int, bool], ...]  # actuators on balls and free joints: number, quaternion in q, is free
    on_ball: np.ndarray  # (n,)
    sources: np.ndarray  # (nv, most), for each degree of freedom the flat places in (n, width), or n · width
    diagonal: bool  # no actuator couples two degrees of freedom

    @property
    def width(self) -> int:
        """The most degrees of freedom of a joint with an actuator."""
        return self.dof.shape[1]


@lru_cache(maxsize=256)
def columns(structure: Structure, wiring: Wiring) -> Columns:
    """Tables for one mechanism."""
    joint = np.array(wiring.joints, np.int64)
    first, size = structure.v_start[joint], structure.v_start[joint + 1] - structure.v_start[joint]
    width = int(size.max(initial=1))
    step = np.arange(width)
    used = step < size[:, None]
    has = np.array([structure.joints[c].quaternion for c in structure.joint_code[joint]], bool)
    free = np.array([structure.joints[c].position for c in structure.joint_code[joint]], bool)
    start = structure.q_start[joint]
    dof = np.where(used, first[:, None] + step, 0).astype(np.int32)
    q = np.where(used & ~has[:, None], start[:, None] + step, 0).astype(np.int32)
    turned = tuple((int(i), int(start[i] + 3 * free[i]), bool(free[i])) for i in np.flatnonzero(has))
    return Columns(dof, q, used, ~has, turned, has & ~free, _sources(dof, used, structure.tree.n), not (size > 1).any())


def _sources(dof: np.ndarray, used: np.ndarray, nv: int) -> np.ndarray:
    """The inverse of `dof`: forces are gathered, as scatters are slow on a CPU."""
    at = np.flatnonzero(used.reshape(-1))
    target = dof.reshape(-1)[at]
    order = np.argsort(target, kind="stable")
    at, target = at[order], target[order]
    counts = np.bincount(target, minlength=nv)
    rank = np.arange(len(at)) - (np.cumsum(counts) - counts)[target]
    table = np.full((nv, int(counts.max(initial=1)) or 1), used.size, np.int32)
    table[target, rank] = at
    return table


class Transmission(NamedTuple):
    """What actuators see, (batch, n), and their moments, (batch or 1, n, width)."""

    length: Any
    velocity: Any
    moment: Any


def transmission(structure: Structure, actuators: Actuators, q: Any, qd: Any) -> Transmission:
    """From q (batch, nq) and qd (batch, nv)."""
    at = columns(structure, actuators.wiring)
    gear = jnp.asarray(actuators.gear, q.dtype)
    plain = jnp.where(at.used, gear[:, : at.width], jnp.zeros((), q.dtype))
    moment = plain[None]
    length = jnp.where(at.has_length, (plain * q[:, at.q]).sum(-1), jnp.zeros((), q.dtype))
    for number, column, is_free in at.turned:  # few actuators are on balls or free joints
        here = Quaternion.from_array(q[:, column : column + 4]).normalized()
        own, along = _turned(gear[number], here, is_free, actuators.wiring.in_parent[number])
        moment = jnp.broadcast_to(moment, (q.shape[0], *plain.shape)).at[:, number, : own.shape[1]].set(own)
        length = length.at[:, number].set(along)
    return Transmission(length, (moment * qd[:, at.dof]).sum(-1), moment)


def _turned(gear: Any, here: Quaternion, is_free: bool, in_parent: bool) -> tuple[Any, Any]:
    """Moment (batch, 3 or 6) in body axes, angular first, and length (batch,)."""

    def axis(numbers: Any) -> Vec3:
        return Vec3(*(jnp.broadcast_to(x, here.w.shape) for x in numbers))

    angular = axis(gear[3:] if is_free else gear[:3])
    angular = here.to_child(angular) if in_parent else angular
    if not is_free:
        return angular.array(), here.log().dot(angular)
    return jnp.concatenate([angular.array(), here.to_child(axis(gear[:3])).array()], -1), jnp.zeros_like(here.w)


def gathered(at: Columns, values: Any) -> Any:
    """Sums (batch, nv) over the degrees of freedom of values (batch, n, width)."""
    flat = values.reshape(values.shape[0], -1)
    flat = jnp.concatenate([flat, jnp.zeros((flat.shape[0], 1), flat.dtype)], -1)
    return flat[:, at.sources].sum(-1)

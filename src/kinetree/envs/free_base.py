"""Robots on free joints in MuJoCo's convention: linear velocity first, in world axes."""

from typing import Any

import jax.numpy as jnp

from kinetree.dynamics import center_of_mass
from kinetree.io.converters import Mujoco
from kinetree.model import Model, State
from kinetree.sense import contact_forces
from kinetree.spatial import Quaternion, Vec3


def mujoco_velocity(model: Model, physics: State) -> Any:
    """MuJoCo's qvel, (..., nv)."""
    return Mujoco(model).v_there(physics.q, physics.qd)


def mujoco_observation(model: Model, physics: State) -> Any:
    """Gymnasium's usual observation: qpos without x and y, then qvel."""
    return jnp.concatenate([physics.q[..., 2:], mujoco_velocity(model, physics)], -1)


def mujoco_contact_forces(model: Model, physics: State, ctrl: Any) -> Any:
    """MuJoCo's cfrc_ext, (..., n_bodies, 6): moments about the centre of mass of the whole, then forces."""
    found = contact_forces(model, physics, ctrl)
    force, center = found[..., 3:], center_of_mass(model, physics.q)[..., None, :]
    return jnp.concatenate([found[..., :3] - jnp.cross(center, force), force], -1)


def at_mujoco(env: Any, qpos: Any, qvel: Any) -> State:
    """The state of one world at MuJoCo's coordinates and velocities; quaternions may have any length."""
    qpos = jnp.asarray(qpos, float)
    turn = Quaternion(*qpos[3:7]).normalized()
    unit = jnp.concatenate([qpos[:3], jnp.stack(turn), qpos[7:]])
    return env.physics_at(unit, Mujoco(env.model).v_here(unit, jnp.asarray(qvel, float)))


def upright(q: Any) -> Any:
    """The world's upward direction seen from the body, (..., 3)."""
    return _seen_from_body(q, (0.0, 0.0, 1.0))


def _seen_from_body(q: Any, way: tuple[float, float, float]) -> Any:
    turn = Quaternion(*(q[..., 3 + k] for k in range(4))).normalized()
    one = jnp.ones_like(q[..., 0])
    return jnp.stack(turn.to_child(Vec3(*(w * one for w in way))), -1)

"""Quadruped joystick: the example quadruped follows a velocity command, drawn anew now and then."""

from dataclasses import dataclass, field
from importlib.resources import as_file, files
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._types import AnyArray, Float, Pytree
from kinetree.io import load
from kinetree.model import Actuator, Model, State

from .env import Actions, Controls, Env, Judgement, Observations, each_world
from .free_base import upright

STANCE = {"hip": 0.0, "thigh": 0.7, "knee": -1.4}  # rad
HEIGHT = 0.36  # m, of the trunk in that stance
REACH = 0.4  # rad, that a full action turns a joint away from the stance
STIFFNESS, DAMPING = 60.0, 2.0  # N m/rad, N m s/rad, of the servos
LARGEST = (1.0, 0.5, 1.0)  # m/s forward, m/s sideways, rad/s turning
SHARPNESS = 0.25  # (m/s)², (rad/s)²: the error at which following earns 1/e


def _robot() -> Model:
    with as_file(files("kinetree.envs") / "quadruped.urdf") as path:
        model = load(path, floating_base=True, ground=True)
    servos = [Actuator.position(j, kp=STIFFNESS, kv=DAMPING) for j in _joints(model)]
    return model.replace(actuators=servos, timestep=0.004, integrator="implicitfast")


def _joints(model: Model) -> list[str]:
    return [j for j in model.joint_names if model.v_index(j).stop - model.v_index(j).start == 1]


@dataclass(frozen=True, eq=False)
class Quadruped(Env):
    """Follow a command: velocities forward and sideways, and rate of turning, in the body's frame.

    Arguments:
        command: the command of all episodes, (3,); None draws one at the start and every `command_steps`.
    """

    frame_skip: int = field(default=5, kw_only=True)
    command: Float[AnyArray, "3"] | None = field(default=None, kw_only=True)
    command_steps: int = field(default=250, kw_only=True)

    def robot(self) -> Model:
        return _robot()

    @property
    def action_range(self) -> tuple[np.ndarray, np.ndarray]:
        """Actions are parts of `REACH` away from the stance."""
        return -np.ones(self.model.nu), np.ones(self.model.nu)

    @property
    def stance(self) -> np.ndarray:
        """Angles of the joints, (nu,)."""
        return np.array([STANCE[name.rsplit("_", 1)[1]] for name in _joints(self.model)])

    def start(self, key: jax.Array) -> tuple[State, Pytree]:
        angles, speeds, command = jax.random.split(key, 3)
        joints = self.stance + jax.random.uniform(angles, self.stance.shape, float, -0.1, 0.1)
        base = jnp.asarray([0.0, 0.0, HEIGHT, 1.0, 0.0, 0.0, 0.0], float)
        qd = 0.1 * jax.random.normal(speeds, (self.model.nv,), float)
        task = {"command": self._command(command), "left": jnp.asarray(self.command_steps, jnp.int32)}
        return self.physics_at(jnp.concatenate([base, joints]), qd), task

    def _command(self, key: Any) -> Any:
        """One command; a tenth of them is to stand still."""
        if self.command is not None:
            return jnp.asarray(self.command, float)
        first, second = jax.random.split(key)
        drawn = jax.random.uniform(first, (3,), float, -1, 1) * jnp.asarray(LARGEST, float)
        return jnp.where(jax.random.uniform(second, ()) > 0.1, drawn, 0.0)

    def control(self, action: Actions, physics: State, task: Pytree) -> Controls:
        return jnp.asarray(self.stance, action.dtype) + REACH * jnp.clip(action, -1, 1)

    def next_task(self, key: jax.Array, physics: State, task: Pytree) -> Pytree:
        left = task["left"] - 1
        drawn = each_world(self._command, key).astype(physics.q.dtype)
        command = jnp.where((left <= 0)[..., None], drawn, task["command"])
        return {"command": command, "left": jnp.where(left <= 0, self.command_steps, left)}

    def observe(self, physics: State, ctrl: Controls, task: Pytree) -> Observations:
        """Velocity, upward direction, command, joints from the stance, their speeds, servo targets: (..., 48)."""
        stance = jnp.asarray(self.stance, physics.q.dtype)
        joints = physics.q[..., 7:] - stance
        turning, moving = physics.qd[..., :3], physics.qd[..., 3:6]
        aimed = (ctrl - stance) / REACH
        parts = [moving, 0.25 * turning, upright(physics.q), task["command"], joints, 0.05 * physics.qd[..., 6:], aimed]
        return jnp.concatenate([jnp.asarray(x, physics.q.dtype) for x in parts], -1)

    def judge(self, before: State, ctrl: Controls, after: State, task: Pytree) -> Judgement:
        command, up = task["command"], upright(after.q)
        moving, turning = after.qd[..., 3:6], after.qd[..., :3]
        slip = ((moving[..., :2] - command[..., :2]) ** 2).sum(-1)
        twist = (turning[..., 2] - command[..., 2]) ** 2
        follow, turn = jnp.exp(-slip / SHARPNESS), jnp.exp(-twist / SHARPNESS)
        rocking = 2.0 * moving[..., 2] ** 2 + 0.05 * (turning[..., :2] ** 2).sum(-1) + 5.0 * (1 - up[..., 2])
        joints = self.control(ctrl, before, task) - after.q[..., 7:]
        effort = 2e-4 * ((STIFFNESS * joints) ** 2).sum(-1) + 1e-4 * (after.qd[..., 6:] ** 2).sum(-1)
        fallen = (up[..., 2] < 0.5) | (after.q[..., 2] < 0.15) | ~jnp.isfinite(after.q).all(-1)
        reward = self.dt * jnp.maximum(2.0 * follow + turn - rocking - 0.1 * effort, 0.0)
        metrics = {"reward_follow": follow, "reward_turn": turn, "velocity_error": jnp.sqrt(slip)}
        return reward, fallen, metrics

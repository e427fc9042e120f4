"""Reacher: a flat arm of two links that brings its tip to a target, as gymnasium's Reacher-v5."""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from kinetree._types import Pytree
from kinetree.dynamics import forward_kinematics
from kinetree.model import Model, State

from .description import BodySpec, Capsule, JointSpec, Robot, sphere
from .env import Controls, Env, Judgement, Observations

HEIGHT = 0.01  # m, at which all of it lies
FARTHEST = 0.2  # m, of targets from the middle


def _robot() -> Robot:
    link = Capsule((0.0, 0.0, 0.0), (0.1, 0.0, 0.0), 0.01)
    target = (
        JointSpec("target_x", "slide", (1.0, 0.0, 0.0), range=(-0.27, 0.27)),
        JointSpec("target_y", "slide", (0.0, 1.0, 0.0), range=(-0.27, 0.27)),
    )
    bodies = [
        BodySpec("body0", None, (0, 0, HEIGHT), (JointSpec("joint0", armature=1.0, damping=1.0),), (link,)),
        BodySpec(
            "body1", "body0", (0.1, 0, 0), (JointSpec("joint1", range=(-3, 3), armature=1.0, damping=1.0),), (link,)
        ),
        BodySpec("fingertip", "body1", (0.11, 0, 0), (), (sphere((0, 0, 0), 0.01),)),
        BodySpec("target", None, (0, 0, HEIGHT), target, (sphere((0, 0, 0), 0.009),)),
    ]
    return Robot(
        bodies,
        motors={"joint0": 200, "joint1": 200},
        start={"target_x": 0.1, "target_y": -0.1},
        surface={"contype": 0, "conaffinity": 0},
        timestep=0.01,
        integrator="RK4",
    )


@dataclass(frozen=True, eq=False)
class Reacher(Env):
    """Bring the tip to the target."""

    time_limit: int | None = 50
    frame_skip: int = field(default=2, kw_only=True)

    def robot(self) -> Model:
        return _robot().model()

    def start(self, key: jax.Array) -> tuple[State, Pytree]:
        angles, place, speed = jax.random.split(key, 3)
        radius, turn = jax.random.uniform(place, (2,), float)
        turn = 2 * jnp.pi * turn
        target = FARTHEST * jnp.sqrt(radius) * jnp.stack([jnp.cos(turn), jnp.sin(turn)])  # uniform in the disc
        q = jnp.concatenate([jax.random.uniform(angles, (2,), float, -0.1, 0.1), target])
        qd = jnp.concatenate([jax.random.uniform(speed, (2,), float, -0.005, 0.005), jnp.zeros(2)])
        return self.physics_at(q, qd), ()

    def _missing(self, q: Any) -> Any:
        """The way from the target to the tip, (..., 3)."""
        position = forward_kinematics(self.model, q).position
        tip, target = (self.model.body_index(name) for name in ("fingertip", "target"))
        return position[..., tip, :] - position[..., target, :]

    def observe(self, physics: State, ctrl: Controls, task: Pytree) -> Observations:
        angles, target = physics.q[..., :2], physics.q[..., 2:]
        missing = self._missing(physics.q)[..., :2]
        return jnp.concatenate([jnp.cos(angles), jnp.sin(angles), target, physics.qd[..., :2], missing], -1)

    def judge(self, before: State, ctrl: Controls, after: State, task: Pytree) -> Judgement:
        distance, effort = jnp.sqrt((self._missing(after.q) ** 2).sum(-1)), (ctrl**2).sum(-1)
        metrics = {"reward_dist": -distance, "reward_ctrl": -effort}
        return -distance - effort, jnp.zeros(distance.shape, bool), metrics

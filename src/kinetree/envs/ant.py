"""Ant: four legs on a ball. Robot, observations and rewards are those of gymnasium's Ant-v5.

Contact forces are those at the state that is seen. Gymnasium's are those of the last stage of the last step.
"""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._types import Pytree
from kinetree.model import Model, State

from .description import BodySpec, Capsule, JointSpec, Robot, sphere
from .env import Controls, Judgement, Observations, Runner, jittered
from .free_base import at_mujoco, mujoco_contact_forces, mujoco_observation

RADIUS = 0.08  # m, of the legs
SURFACE = {"friction": (1.0, 0.5, 0.5), "margin": 0.01, "conaffinity": 0}
# name of the leg, where it points, axis of the ankle, range of the ankle in degrees
LEGS = (
    ("front_left", (1, 1), (-1.0, 1.0, 0.0), (30, 70)),
    ("front_right", (-1, 1), (1.0, 1.0, 0.0), (-70, -30)),
    ("back", (-1, -1), (-1.0, 1.0, 0.0), (-70, -30)),
    ("right_back", (1, -1), (1.0, 1.0, 0.0), (30, 70)),
)


def _robot() -> Robot:
    bodies = [BodySpec("torso", None, (0, 0, 0.75), (JointSpec("root", "free"),), (sphere((0, 0, 0), 0.25),))]
    for number, (name, (x, y), axis, degrees) in enumerate(LEGS, 1):
        out = (0.2 * x, 0.2 * y, 0.0)
        upper, lower = Capsule((0, 0, 0), out, RADIUS), Capsule((0, 0, 0), (2 * out[0], 2 * out[1], 0.0), RADIUS)
        limits = tuple(np.deg2rad(degrees))
        hip = JointSpec(f"hip_{number}", range=tuple(np.deg2rad((-30, 30))), armature=1.0, damping=1.0)
        ankle = JointSpec(f"ankle_{number}", axis=axis, range=limits, armature=1.0, damping=1.0)  # type: ignore[arg-type]
        bodies += [
            BodySpec(f"{name}_leg", "torso", (0, 0, 0), (), (upper,)),
            BodySpec(f"aux_{number}", f"{name}_leg", out, (hip,), (upper,)),
            BodySpec(f"foot_{number}", f"aux_{number}", out, (ankle,), (lower,)),
        ]
    return Robot(
        bodies,
        motors={f"{joint}_{leg}": 150.0 for leg in (4, 1, 2, 3) for joint in ("hip", "ankle")},
        density=5.0,
        floor=SURFACE | {"conaffinity": 1},
        surface=SURFACE,
        timestep=0.01,
        integrator="RK4",
    )


@dataclass(frozen=True, eq=False)
class Ant(Runner):
    """Run along x, upright, with little effort."""

    control_weight: float = field(default=0.5, kw_only=True)
    healthy_reward: float = field(default=1.0, kw_only=True)
    contact_weight: float = field(default=5e-4, kw_only=True)
    contact_force_range: tuple[float, float] = field(default=(-1.0, 1.0), kw_only=True)  # N, N m
    contact_forces: bool = field(default=True, kw_only=True)  # True if observations have them
    healthy_height: tuple[float, float] = field(default=(0.2, 1.0), kw_only=True)  # m

    def robot(self) -> Model:
        return _robot().model()

    def start(self, key: jax.Array) -> tuple[State, Pytree]:
        return at_mujoco(self, *jittered(self, key, 0.1)), ()

    def _forces(self, physics: State, ctrl: Any) -> Any:
        """Forces on all bodies, (..., 6 n)."""
        forces = jnp.clip(mujoco_contact_forces(self.model, physics, ctrl), *self.contact_force_range)
        return forces.reshape(*forces.shape[:-2], -1)

    def observe(self, physics: State, ctrl: Controls, task: Pytree) -> Observations:
        """Position, velocity, contact forces."""
        seen = mujoco_observation(self.model, physics)
        return jnp.concatenate([seen, self._forces(physics, ctrl)], -1) if self.contact_forces else seen

    def observe_first(self, physics: State, ctrl: Controls, task: Pytree) -> Observations:
        """In gymnasium observations have no contact forces at the start."""
        seen = mujoco_observation(self.model, physics)
        none = jnp.zeros((*physics.batch, 6 * self.model.n_bodies), seen.dtype)
        return jnp.concatenate([seen, none], -1) if self.contact_forces else seen

    def judge(self, before: State, ctrl: Controls, after: State, task: Pytree) -> Judgement:
        speed = (after.q[..., 0] - before.q[..., 0]) / self.dt
        low, high = self.healthy_height
        height = after.q[..., 2]
        finite = jnp.isfinite(after.q).all(-1) & jnp.isfinite(after.qd).all(-1)
        healthy = finite & (low <= height) & (height <= high)
        touch = self.contact_weight * (self._forces(after, ctrl) ** 2).sum(-1) if self.contact_weight else None
        return self.running(speed, ctrl, healthy, touch)

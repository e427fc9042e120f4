"""Half-cheetah: a flat runner. Robot, observations and rewards are those of gymnasium's HalfCheetah-v5."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from kinetree._types import Pytree
from kinetree.model import Model, State

from .description import BodySpec, Capsule, JointSpec, Robot, rod
from .env import Controls, Judgement, Observations, Runner, jittered

RADIUS = 0.046  # m, of all limbs
LIMP = (0.0, 0.8, 0.01, 0.5, 2.0)  # solimp of contacts: soft at first touch
LIMP_LIMIT = (0.0, 0.8, 0.03, 0.5, 2.0)
SURFACE = {"friction": (0.4, 0.1, 0.1), "solimp": LIMP, "conaffinity": 0}


def _limb(
    name: str, parent: str, position: Any, shape: Capsule, range: Any, stiffness: float, damping: float
) -> BodySpec:
    axis = (0.0, 1.0, 0.0)
    joint = JointSpec(name, axis=axis, range=range, armature=0.1, damping=damping, stiffness=stiffness)
    return BodySpec(name, parent, position, (joint,), (shape,))


def _robot() -> Robot:
    torso = BodySpec(
        "torso",
        None,
        (0.0, 0.0, 0.7),
        (
            JointSpec("rootx", "slide", (1.0, 0.0, 0.0)),
            JointSpec("rootz", "slide", (0.0, 0.0, 1.0)),
            JointSpec("rooty", "hinge", (0.0, 1.0, 0.0)),
        ),
        (Capsule((-0.5, 0.0, 0.0), (0.5, 0.0, 0.0), RADIUS), rod((0.6, 0.0, 0.1), 0.15, 0.87, RADIUS)),
    )

    def part(center: Any, half_length: float, angle: float) -> Capsule:
        return rod(center, half_length, angle, RADIUS)

    bodies = [
        torso,
        _limb("bthigh", "torso", (-0.5, 0, 0), part((0.1, 0, -0.13), 0.145, -3.8), (-0.52, 1.05), 240, 6),
        _limb("bshin", "bthigh", (0.16, 0, -0.25), part((-0.14, 0, -0.07), 0.15, -2.03), (-0.785, 0.785), 180, 4.5),
        _limb("bfoot", "bshin", (-0.28, 0, -0.14), part((0.03, 0, -0.097), 0.094, -0.27), (-0.4, 0.785), 120, 3),
        _limb("fthigh", "torso", (0.5, 0, 0), part((-0.07, 0, -0.12), 0.133, 0.52), (-1, 0.7), 180, 4.5),
        _limb("fshin", "fthigh", (-0.14, 0, -0.24), part((0.065, 0, -0.09), 0.106, -0.6), (-1.2, 0.87), 120, 3),
        _limb("ffoot", "fshin", (0.13, 0, -0.18), part((0.045, 0, -0.07), 0.07, -0.6), (-0.5, 0.5), 60, 1.5),
    ]
    return Robot(
        bodies,
        motors={"bthigh": 120, "bshin": 90, "bfoot": 60, "fthigh": 120, "fshin": 60, "ffoot": 30},
        total_mass=14.0,
        floor=SURFACE | {"conaffinity": 1},
        surface=SURFACE,
        limit_solimp=LIMP_LIMIT,
        timestep=0.01,
    )


@dataclass(frozen=True, eq=False)
class HalfCheetah(Runner):
    """Run forward, with little effort."""

    def robot(self) -> Model:
        return _robot().model()

    def start(self, key: jax.Array) -> tuple[State, Pytree]:
        return self.physics_at(*jittered(self, key, 0.1)), ()

    def observe(self, physics: State, ctrl: Controls, task: Pytree) -> Observations:
        return jnp.concatenate([physics.q[..., 1:], physics.qd], -1)

    def judge(self, before: State, ctrl: Controls, after: State, task: Pytree) -> Judgement:
        speed = (after.q[..., 0] - before.q[..., 0]) / self.dt
        return self.running(speed, ctrl)

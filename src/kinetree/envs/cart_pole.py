"""Cart-pole: swing a pole up that hangs from a cart, and keep it there."""

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp

from kinetree._types import Pytree
from kinetree.model import Model, State

from .description import BodySpec, Capsule, JointSpec, Robot
from .env import Controls, Env, Judgement, Observations

FARTHEST = 2.4  # m, of the cart from the middle
POLE = 0.6  # m


def _robot() -> Robot:
    cart = Capsule((-0.1, 0.0, 0.0), (0.1, 0.0, 0.0), 0.05)
    pole = Capsule((0.0, 0.0, 0.0), (0.0, 0.0, -POLE), 0.02)
    bodies = [
        BodySpec("cart", None, (0.0, 0.0, 0.0), (JointSpec("slider", "slide", (1.0, 0.0, 0.0), damping=0.1),), (cart,)),
        BodySpec(
            "pole", "cart", (0.0, 0.0, 0.0), (JointSpec("hinge", "hinge", (0.0, 1.0, 0.0), damping=0.005),), (pole,)
        ),
    ]
    touches_nothing = {"contype": 0, "conaffinity": 0}
    return Robot(bodies, motors={"slider": 30.0}, surface=touches_nothing, timestep=0.01, integrator="implicitfast")


@dataclass(frozen=True, eq=False)
class CartPole(Env):
    """The pole hangs at angle zero. A step earns up to one: pole up, cart in the middle, little effort."""

    time_limit: int | None = 250
    frame_skip: int = field(default=4, kw_only=True)

    def robot(self) -> Model:
        return _robot().model()

    def start(self, key: jax.Array) -> tuple[State, Pytree]:
        first, second = jax.random.split(key)
        q = jax.random.uniform(first, (2,), float, -0.2, 0.2)
        return self.physics_at(q, 0.1 * jax.random.normal(second, (2,), float)), ()

    def observe(self, physics: State, ctrl: Controls, task: Pytree) -> Observations:
        x, angle = physics.q[..., 0], physics.q[..., 1]
        seen = [x / FARTHEST, jnp.cos(angle), jnp.sin(angle), 0.3 * physics.qd[..., 0], 0.1 * physics.qd[..., 1]]
        return jnp.stack(seen, -1)

    def judge(self, before: State, ctrl: Controls, after: State, task: Pytree) -> Judgement:
        x, angle = after.q[..., 0], after.q[..., 1]
        upright = 0.5 * (1 - jnp.cos(angle))
        centred = 0.5 * (1 + jnp.exp(-(x**2)))
        easy = 0.9 + 0.1 * jnp.exp(-(ctrl[..., 0] ** 2))
        still = 0.5 * (1 + jnp.exp(-0.05 * after.qd[..., 1] ** 2))
        metrics = {"upright": upright, "centred": centred}
        return upright * centred * easy * still, jnp.abs(x) > FARTHEST, metrics

"""Humanoid: a man of capsules. Robot, observations and rewards are those of gymnasium's Humanoid-v5.

Contact forces are those at the state that is seen. Gymnasium's are those of the last stage of the last step.
"""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._types import Pytree
from kinetree.constrain import actuator_force
from kinetree.dynamics import center_of_mass, forward_kinematics
from kinetree.model import Model, State, integrate

from .description import BodySpec, Capsule, JointSpec, Robot, sphere
from .env import Controls, Judgement, Observations, Runner, jittered
from .free_base import at_mujoco, mujoco_contact_forces, mujoco_observation

X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
BENT = (1.0, 0.0, -0.002, 0.0)  # quaternion of waist and pelvis, not of unit length in the file
SURFACE = {"condim": 1, "margin": 0.001}


def _joint(
    name: str, axis: Any, degrees: Any, armature: float, stiffness: float, damping: float = 5.0, anchor: Any = (0, 0, 0)
) -> JointSpec:
    low, high = np.deg2rad(degrees)
    return JointSpec(name, "hinge", axis, anchor, (low, high), armature, damping, stiffness)


def _leg(side: str, sign: float) -> list[BodySpec]:
    """`sign` is −1 on the right, 1 on the left."""
    outward = tuple(-sign * x for x in X), tuple(-sign * z for z in Z)
    hips = (
        _joint(f"{side}_hip_x", outward[0], (-25, 5), 0.01, 10),
        _joint(f"{side}_hip_z", outward[1], (-60, 35), 0.01, 10),
        _joint(f"{side}_hip_y", Y, (-110, 20), 0.008 if sign < 0 else 0.01, 20),
    )
    knee = _joint(f"{side}_knee", (0.0, -1.0, 0.0), (-160, -2), 0.006, 0 if sign < 0 else 1, 1.0, (0, 0, 0.02))
    return [
        BodySpec(
            f"{side}_thigh",
            "pelvis",
            (0, sign * 0.1, -0.04),
            hips,
            (Capsule((0, 0, 0), (0, -sign * 0.01, -0.34), 0.06),),
        ),
        BodySpec(
            f"{side}_shin",
            f"{side}_thigh",
            (0, -sign * 0.01, -0.403),
            (knee,),
            (Capsule((0, 0, 0), (0, 0, -0.3), 0.049),),
        ),
        BodySpec(f"{side}_foot", f"{side}_shin", (0, 0, -0.45), (), (sphere((0, 0, 0.1), 0.075),)),
    ]


def _arm(side: str, sign: float) -> list[BodySpec]:
    degrees = (-85, 60) if sign < 0 else (-60, 85)
    shoulder = (
        _joint(f"{side}_shoulder1", (2.0, -sign, 1.0), degrees, 0.0068, 1, 1.0),
        _joint(f"{side}_shoulder2", (0.0, sign, 1.0), degrees, 0.0051, 1, 1.0),
    )
    elbow = _joint(f"{side}_elbow", (0.0, -1.0, -sign), (-90, 50), 0.0028, 0, 1.0)
    end = sign * 0.16
    lower = Capsule((0.01, -sign * 0.01, 0.01), (0.17, -sign * 0.17, 0.17), 0.031)
    return [
        BodySpec(
            f"{side}_upper_arm",
            "torso",
            (0, sign * 0.17, 0.06),
            shoulder,
            (Capsule((0, 0, 0), (0.16, end, -0.16), 0.04),),
        ),
        BodySpec(
            f"{side}_lower_arm",
            f"{side}_upper_arm",
            (0.18, sign * 0.18, -0.18),
            (elbow,),
            (lower, sphere((0.18, -sign * 0.18, 0.18), 0.04)),
        ),
    ]


def _robot() -> Robot:
    trunk = (
        Capsule((0, -0.07, 0), (0, 0.07, 0), 0.07),
        sphere((0, 0, 0.19), 0.09),
        Capsule((-0.01, -0.06, -0.12), (-0.01, 0.06, -0.12), 0.06),
    )
    waist = (
        _joint("abdomen_z", Z, (-45, 45), 0.02, 20, anchor=(0, 0, 0.065)),
        _joint("abdomen_y", Y, (-75, 30), 0.02, 10, anchor=(0, 0, 0.065)),
    )
    hips = (_joint("abdomen_x", X, (-35, 35), 0.02, 10, anchor=(0, 0, 0.1)),)
    bent = tuple(np.array(BENT) / np.linalg.norm(BENT))
    bodies = [
        BodySpec("torso", None, (0, 0, 1.4), (JointSpec("root", "free"),), trunk),
        BodySpec("lwaist", "torso", (-0.01, 0, -0.26), waist, (Capsule((0, -0.06, 0), (0, 0.06, 0), 0.06),), bent),
        BodySpec("pelvis", "lwaist", (0, 0, -0.165), hips, (Capsule((-0.02, -0.07, 0), (-0.02, 0.07, 0), 0.09),), bent),
        *_leg("right", -1.0),
        *_leg("left", 1.0),
        *_arm("right", -1.0),
        *_arm("left", 1.0),
    ]
    gears = {"hip_x": 100, "hip_z": 100, "hip_y": 300, "knee": 200}
    motors = {"abdomen_y": 100, "abdomen_z": 100, "abdomen_x": 100}
    motors |= {f"{side}_{joint}": gear for side in ("right", "left") for joint, gear in gears.items()}
    motors |= {f"{side}_{j}": 25 for side in ("right", "left") for j in ("shoulder1", "shoulder2", "elbow")}
    return Robot(
        bodies,
        motors=motors,
        control_range=(-0.4, 0.4),
        floor={"friction": (1.0, 0.1, 0.1), "margin": 0.001},
        surface=SURFACE,
        timestep=0.003,
        integrator="RK4",
    )


def _body_inertia(model: Model, q: Any) -> tuple[Any, Any, Any]:
    """Inertias of all bodies about the common centre of mass, in world axes: moments (..., n, 6), m d, m."""
    pose = forward_kinematics(model, q)
    I = model.inertia
    mass = jnp.asarray(I.mass, q.dtype)
    own = jnp.stack([jnp.asarray(x, q.dtype) for x in I.h], -1) / mass[:, None]  # centre of mass in the body
    about = jnp.stack([jnp.asarray(x, q.dtype) for x in I.I], -1)
    R = pose.rotation
    xx, yy, zz, xy, xz, yz = (about[:, k] for k in range(6))
    matrix = jnp.stack([jnp.stack([xx, xy, xz], -1), jnp.stack([xy, yy, yz], -1), jnp.stack([xz, yz, zz], -1)], -2)
    matrix = matrix - mass[:, None, None] * _squares(own)
    center = pose.position + (R * own[:, None, :]).sum(-1)
    d = center - center_of_mass(model, q)[..., None, :]
    turned = jnp.einsum("...ij,...jk,...lk->...il", R, jnp.broadcast_to(matrix, R.shape), R)
    whole = turned + mass[:, None, None] * _squares(d)
    moments = jnp.stack([whole[..., i, j] for i, j in ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))], -1)
    return moments, mass[:, None] * d, jnp.broadcast_to(mass[:, None], (*d.shape[:-1], 1))


def _body_velocity(model: Model, physics: State) -> Any:
    """Velocities of all bodies, (..., n, 6): angular, then linear at the common centre of mass."""

    def after(time: Any) -> Any:
        return forward_kinematics(model, integrate(model, physics.q, physics.qd, time))

    zero = jnp.zeros((), physics.q.dtype)
    pose, rate = jax.jvp(after, (zero,), (zero + 1,))
    spin = jnp.einsum("...ij,...kj->...ik", rate.rotation, pose.rotation)
    angular = jnp.stack([spin[..., 2, 1], spin[..., 0, 2], spin[..., 1, 0]], -1)
    away = center_of_mass(model, physics.q)[..., None, :] - pose.position
    return jnp.concatenate([angular, rate.position + jnp.cross(angular, away)], -1)


def _squares(d: Any) -> Any:
    """|d|² − d dᵀ, (..., 3, 3)."""
    return (d * d).sum(-1)[..., None, None] * jnp.eye(3, dtype=d.dtype) - d[..., :, None] * d[..., None, :]


@dataclass(frozen=True, eq=False)
class Humanoid(Runner):
    """Walk along x, upright, with little effort."""

    forward_weight: float = field(default=1.25, kw_only=True)
    healthy_reward: float = field(default=5.0, kw_only=True)
    contact_weight: float = field(default=5e-7, kw_only=True)
    contact_cost_range: tuple[float, float] = field(default=(-np.inf, 10.0), kw_only=True)
    contact_forces: bool = field(default=True, kw_only=True)  # True if observations have them
    healthy_height: tuple[float, float] = field(default=(1.0, 2.0), kw_only=True)  # m

    def robot(self) -> Model:
        return _robot().model()

    def start(self, key: jax.Array) -> tuple[State, Pytree]:
        return at_mujoco(self, *jittered(self, key, 0.01, normal_speed=False)), ()

    def _bodies(self) -> np.ndarray:
        """The bodies of the file: the last ones of their chains."""
        return np.array([i for i, name in enumerate(self.model.names) if "/" not in name])

    def _forces(self, physics: State, ctrl: Any) -> Any:
        return mujoco_contact_forces(self.model, physics, ctrl)[..., self._bodies(), :]

    def observe(self, physics: State, ctrl: Controls, task: Pytree) -> Observations:
        """Position, velocity, inertias and velocities of bodies about the centre of mass, forces."""
        return self._seen(physics, ctrl, self._forces(physics, ctrl) if self.contact_forces else None)

    def observe_first(self, physics: State, ctrl: Controls, task: Pytree) -> Observations:
        """In gymnasium observations have no contact forces at the start."""
        none = jnp.zeros((*physics.batch, len(self._bodies()), 6), physics.q.dtype)
        return self._seen(physics, ctrl, none if self.contact_forces else None)

    def _seen(self, physics: State, ctrl: Controls, pushed: Any) -> Observations:
        q, bodies = physics.q, self._bodies()
        inertia = jnp.concatenate([x[..., bodies, :] for x in _body_inertia(self.model, q)], -1)
        velocity = _body_velocity(self.model, physics)[..., bodies, :]
        force = actuator_force(self.model, q, physics.qd, jnp.asarray(ctrl, q.dtype))[..., 6:]
        inertia, velocity, *pushed = (
            x.reshape(*x.shape[:-2], -1) for x in (inertia, velocity, pushed) if x is not None
        )
        return jnp.concatenate([mujoco_observation(self.model, physics), inertia, velocity, force, *pushed], -1)

    def judge(self, before: State, ctrl: Controls, after: State, task: Pytree) -> Judgement:
        start, end = (center_of_mass(self.model, s.q)[..., 0] for s in (before, after))
        speed = (end - start) / self.dt
        low, high = self.healthy_height
        healthy = (low < after.q[..., 2]) & (after.q[..., 2] < high)
        touch = None
        if self.contact_weight:
            squares = (self._forces(after, ctrl) ** 2).sum((-1, -2))
            touch = jnp.clip(self.contact_weight * squares, *self.contact_cost_range)
        return self.running(speed, ctrl, healthy, touch)

"""Momentum of bodies and of the subtrees that they carry, and its rate; in world axes, moments about the origin."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from kinetree.constrain.carried import Carried, ends
from kinetree.model import Model
from kinetree.spatial import Inertia, Motion, Scalar, Vec3


class BodyMotions(NamedTuple):
    """All bodies, (bodies, batch)."""

    mass: Scalar
    center: Vec3  # of mass
    linear: Vec3  # momentum
    angular: Vec3
    force: Vec3  # the rate of momentum, in a world that accelerates upwards
    moment: Vec3

    @staticmethod
    def of(model: Model, rows: Carried, position_of: np.ndarray) -> "BodyMotions":
        """From the poses and motions of the rows."""
        dtype = rows.pose.position.x.dtype
        numbers = np.arange(model.n_bodies)
        frames = model.frames
        place = jnp.stack([jnp.asarray(c, dtype) for c in frames.r], -1)
        still = np.tile([1.0, 0.0, 0.0, 0.0], (model.n_bodies, 1))
        end = ends(model, rows, numbers, place, still, position_of)
        to_row = [jnp.asarray(c, dtype)[:, None] for c in frames.E]

        def inward(v: Vec3) -> Vec3:
            """From world axes to the body's."""
            local = end.orientation.to_child(v)
            return type(frames.E)(*to_row) @ local

        def outward(v: Vec3) -> Vec3:
            return end.orientation.turn(type(frames.E)(*to_row).to_parent(v))

        body = Inertia(*_wide(model.inertia, dtype))
        omega, linear = inward(end.omega), inward(end.linear)
        v = Motion(omega, linear)
        a = Motion(inward(end.alpha), inward(end.acceleration) - omega.cross(linear))
        p, f = body @ v, body @ a
        moment = f.angular + omega.cross(p.angular) + linear.cross(p.linear)
        force = f.linear + omega.cross(p.linear)
        heavy = body.mass > 0
        center = end.position + outward(body.h * (1 / jnp.where(heavy, body.mass, 1.0)))
        p_world, f_world = outward(p.linear), outward(force)
        return BodyMotions(
            body.mass + jnp.zeros_like(end.position.x),
            center,
            p_world,
            outward(p.angular) + end.position.cross(p_world),
            f_world,
            outward(moment) + end.position.cross(f_world),
        )


def _wide(inertia: Inertia, dtype: Any) -> Any:
    def wide(x: Any) -> Any:
        return jnp.asarray(x, dtype)[:, None]

    return wide(inertia.mass), Vec3(*map(wide, inertia.h)), type(inertia.I)(*map(wide, inertia.I))


def _sum(within: np.ndarray, v: Vec3) -> Vec3:
    return Vec3(*(jnp.einsum("sb,bn->sn", jnp.asarray(within, c.dtype), c) for c in v))


def wrenches(bodies: BodyMotions, within: np.ndarray) -> tuple[Vec3, Vec3]:
    """Moment and force that give subtrees their motion."""
    return _sum(within, bodies.moment), _sum(within, bodies.force)


class Momenta(NamedTuple):
    """Momenta of subtrees."""

    center: Vec3
    velocity: Vec3  # of the centre of mass
    spin: Vec3  # angular momentum about it


def momenta(bodies: BodyMotions, within: np.ndarray) -> Momenta:
    """The momenta of subtrees of bodies."""
    mass = jnp.einsum("sb,bn->sn", jnp.asarray(within, bodies.mass.dtype), bodies.mass)
    scale = 1 / jnp.where(mass > 0, mass, 1.0)
    center = _sum(within, Vec3(*(c * bodies.mass for c in bodies.center))) * scale
    linear, angular = _sum(within, bodies.linear), _sum(within, bodies.angular)
    return Momenta(center, linear * scale, angular - center.cross(linear))

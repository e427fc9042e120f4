"""Forces of a fluid on the bodies that move in it: viscous ones, and drag that grows with the square of the speed."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from kinetree.dynamics.schedules.arranged import arranged, by_position, row_poses, row_velocities
from kinetree.model import Model
from kinetree.model.fluid import Fluid
from kinetree.spatial import Quaternion, Scalar, Vec3
from kinetree.tree import layout, pick

from .carried import columns


def fluid_wrenches(model: Model, fluid: Fluid, q: Any, qd: Any) -> Any:
    """Forces on the bodies, (batch, n_bodies, 6), in world axes about the world's origin, moment first.

    Reference: MuJoCo's mj_inertiaBoxFluidModel.
    """
    laid = layout(model.tree, "levels")
    at = arranged(laid, model, q)
    rows = np.asarray(laid.position_of)[model.structure.row_of_body[list(fluid.bodies)]]
    pose, velocity = (pick(x, rows) for x in (row_poses(laid, at), row_velocities(laid, at, by_position(laid, qd))))
    dtype = q.dtype
    place, turn = Vec3(*columns(fluid.position, dtype)), Quaternion(*columns(fluid.orientation, dtype))
    wind = Vec3(*(jnp.asarray(fluid.wind, dtype)[k] + jnp.zeros_like(velocity.linear.x) for k in range(3)))
    linear = velocity.linear + velocity.angular.cross(place) - pose.orientation.conjugate().turn(wind)
    back = turn.conjugate()
    thick = jnp.asarray(fluid.density, dtype), jnp.asarray(fluid.viscosity, dtype)
    moment, force = drag(*thick, Vec3(*columns(fluid.size, dtype)), back.turn(velocity.angular), back.turn(linear))
    to_world = pose.orientation * turn
    moment, force = to_world.turn(moment), to_world.turn(force)
    moment = moment + (pose.position + pose.orientation.turn(place)).cross(force)
    six = jnp.stack([*moment, *force], -1)  # (boxes, batch, 6)
    there = jnp.zeros((model.n_bodies, *six.shape[1:]), dtype).at[np.array(fluid.bodies)].add(six)
    return jnp.swapaxes(there, 0, 1)


def drag(density: Scalar, viscosity: Scalar, size: Vec3, omega: Vec3, v: Vec3) -> tuple[Vec3, Vec3]:
    """Moment and force on boxes that turn and move in a fluid at rest, in their own axes."""
    x, y, z = size
    diameter = (x + y + z) / 3  # diameter of the ball that replaces the box in viscous flow
    areas, arms = Vec3(y * z, x * z, x * y), Vec3(_arm(x, y, z), _arm(y, x, z), _arm(z, x, y))

    def against(speed: Scalar, viscous: Scalar, quadratic: Scalar) -> Scalar:
        return -speed * (viscosity * viscous + density * quadratic * jnp.abs(speed))

    cubed = diameter * diameter * diameter
    moment = Vec3(*(against(w, math.pi * cubed, a / 64) for w, a in zip(omega, arms, strict=True)))
    force = Vec3(*(against(u, 3 * math.pi * diameter, a / 2) for u, a in zip(v, areas, strict=True)))
    return moment, force


def _arm(along: Scalar, one: Scalar, other: Scalar) -> Scalar:
    one, other = one * one, other * other
    return along * (one * one + other * other)

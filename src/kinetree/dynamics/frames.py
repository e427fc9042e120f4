"""Frames: how a body, or a frame fixed to one, moves.

Links, bodies on fixed joints and sites are all bodies of the model, asked for by number or by name. A motion is given
in one of three ways, angular part first:
    "world"    world coordinates, linear part at the world's origin: the spatial vector of the book
    "local"    the frame's own coordinates, at its own origin
    "aligned"  world coordinates, at the frame's own origin
and an acceleration is in each case the time derivative of the velocity: spatial for the first two, for the third the
classical acceleration of the origin.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._unknown import unknown
from kinetree.model import Model, Placement, coupled
from kinetree.model.arguments import evaluate
from kinetree.model.coordinates import velocity_product_shift
from kinetree.spatial import Motion, Rates, Rotation, Vec3
from kinetree.tree import Layout, layout, outward

from .algorithms.poses import carried
from .algorithms.rnea import RNEA
from .kinematics import poses_by_row
from .recursion import Row
from .schedules.arranged import Arranged, arranged, by_position, row_poses, row_velocities
from .schedules.operators import outward_operator

WAYS = ("world", "local", "aligned")


def frame_number(model: Model, body: int | str) -> np.int32:
    """Which body a number or a name means."""
    if isinstance(body, str):
        return np.int32(model.body_index(body))
    if not 0 <= int(body) < model.n_bodies:
        raise ValueError(f"body {body} is outside 0 … {model.n_bodies - 1}")
    return np.int32(body)


def way_number(frame: str) -> np.int32:
    """Which way to give motions a name means. A number, so that one compiled program serves all three."""
    if frame not in WAYS:
        raise ValueError(unknown("frame", frame, WAYS))
    return np.int32(WAYS.index(frame))


def pick(rows: Any, index: Any) -> Any:
    """One row of everything."""
    return jax.tree.map(lambda x: x[index], rows)


def with_base(laid: Layout, by_place: Any) -> Any:
    """Row order with the base first, from data by position."""
    return poses_by_row(laid, by_place)


class Frame(NamedTuple):
    """A frame in the world, and in the row that carries it; components (batch,) or ()."""

    E: Rotation  # from world to frame coordinates
    p: Vec3  # its origin, in the world
    E_row: Rotation  # from row to frame coordinates
    r_row: Vec3  # its origin, in the row's frame


def place_frame(laid: Layout, model: Model, at: Arranged, body: Any) -> Frame:
    """Where a body is."""
    pose: Placement = pick(with_base(laid, row_poses(laid, at)), carrier(model, body) + 1)
    own = jax.tree.map(lambda x: jnp.asarray(x, pose.position.x.dtype)[body], model.frames)
    return Frame(*carried(pose, own), own.E, own.r)


def axes_and_point(E: Rotation, p: Vec3, way: Any) -> tuple[Rotation, Vec3]:
    """For a frame in the world: rotation from world coordinates to those wanted, and the point wanted, in the world."""
    own, origin = way == WAYS.index("local"), way == WAYS.index("world")
    plain = Rotation.identity_like(p.x)
    axes = Rotation(*(jnp.where(own, a, b) for a, b in zip(E, plain, strict=True)))
    return axes, Vec3(*(jnp.where(origin, jnp.zeros_like(c), c) for c in p))


def carrier(model: Model, body: Any) -> Any:
    """The row that carries a body; −1 for the base."""
    return jnp.asarray(model.structure.row_of_body, jnp.int32)[body]


def _linear_velocity(laid: Layout, model: Model, at: Arranged, qd: Any, body: Any, frame: Frame) -> Motion:
    """Velocity of the frame at its own origin, in world coordinates."""
    v = pick(with_base(laid, row_velocities(laid, at, by_position(laid, qd))), carrier(model, body) + 1)
    to_world = frame.E.T.after(frame.E_row)
    return Motion(to_world @ v.angular, to_world @ (v.linear + v.angular.cross(frame.r_row)))


@jax.jit
def _velocity(laid: Layout, model: Model, q: Any, qd: Any, body: Any, way: Any) -> Any:
    at = arranged(laid, model, q)
    frame = place_frame(laid, model, at, body)
    omega, linear = _linear_velocity(laid, model, at, qd, body, frame)
    E, point = axes_and_point(frame.E, frame.p, way)
    return Motion(E @ omega, E @ (linear + omega.cross(point - frame.p))).array()


def row_rates(laid: Layout, model: Model, at: Arranged, qd: Any, qdd: Any, base: Rates) -> Rates:
    """Rates of every position, from velocities and accelerations (batch, nv)."""
    of_rows = qdd - velocity_product_shift(model.structure, qd.T).T
    row = Row(at=at.placed, axis=at.rows.axis, qd=by_position(laid, qd), qdd=by_position(laid, of_rows))
    return outward(outward_operator(RNEA.passes[0]), laid, row, base)


@jax.jit
def _acceleration(laid: Layout, model: Model, q: Any, qd: Any, qdd: Any, body: Any, way: Any) -> Any:
    at = arranged(laid, model, q)
    frame = place_frame(laid, model, at, body)
    zero = Vec3.zero_like(at.gravity.x)
    moving = row_rates(laid, model, at, qd, qdd, Rates(zero, zero, zero))
    omega, alpha, a = pick(with_base(laid, moving), carrier(model, body) + 1)
    a = a + alpha.cross(frame.r_row) + omega.cross(omega.cross(frame.r_row))
    to_world = frame.E.T.after(frame.E_row)
    omega, alpha, a = to_world @ omega, to_world @ alpha, to_world @ a
    # spatial acceleration at the point wanted; at the frame's own origin ω × v more makes it the classical one
    v = _linear_velocity(laid, model, at, qd, body, frame).linear
    E, point = axes_and_point(frame.E, frame.p, way)
    spatial = a - omega.cross(v) + alpha.cross(point - frame.p)
    classical = way == WAYS.index("aligned")
    linear = Vec3(*(jnp.where(classical, x, y) for x, y in zip(a, spatial, strict=True)))
    return Motion(E @ alpha, E @ linear).array()


@coupled("unchanged")
def frame_velocity(model: Model, q: Any, qd: Any, body: int | str, frame: str = "world") -> Any:
    """Velocity of a body or of a frame fixed to one.

    Arguments:
        model: the mechanism.
        q, qd: (..., nq), (..., nv).
        body: number or name.
        frame: "world", "local" or "aligned": in which coordinates, at which point (see above).

    Returns:
        (..., 6), angular part first.
    """
    number, way = frame_number(model, body), way_number(frame)
    laid = layout(model.tree, "paths")
    return evaluate(lambda q, qd: _velocity(laid, model, q, qd, number, way), q=(q, (model.nq,)), qd=(qd, (model.nv,)))


@coupled("unchanged")
def frame_acceleration(model: Model, q: Any, qd: Any, qdd: Any, body: int | str, frame: str = "world") -> Any:
    """Time derivative of `frame_velocity` along the motion q, qd, qdd. Gravity has no part in it.

    Arguments:
        model: the mechanism.
        q, qd, qdd: (..., nq), (..., nv), (..., nv).
        body: number or name.
        frame: "world" and "local": spatial acceleration; "aligned": classical acceleration of the frame's origin.

    Returns:
        (..., 6), angular part first.
    """
    number, way = frame_number(model, body), way_number(frame)
    laid = layout(model.tree, "paths")
    nv = (model.nv,)
    return evaluate(
        lambda q, qd, qdd: _acceleration(laid, model, q, qd, qdd, number, way),
        q=(q, (model.nq,)),
        qd=(qd, nv),
        qdd=(qdd, nv),
    )

"""Frames: how a body, or a frame fixed to one, moves.

Links, bodies on fixed joints and sites are all bodies of the model, asked for by number or by name. A motion is given
in one of three ways, angular part first:
    "world"    world coordinates, linear part at the world's origin: the spatial vector of the book
    "local"    the frame's own coordinates, at its own origin
    "aligned"  world coordinates, at the frame's own origin
and an acceleration is in each case the time derivative of the velocity: spatial for the first two, for the third the
classical acceleration of the origin.
"""

from collections.abc import Callable
from operator import index
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._types import Array, Float
from kinetree._unknown import require_word
from kinetree.model import Model, Placement
from kinetree.model.arguments import evaluate_for
from kinetree.model.coordinates import velocity_product_shift
from kinetree.spatial import Motion, Rates, Rotation, Vec3
from kinetree.tree import Layout, layout, outward

from .algorithms.frames import WAYS, frame_acceleration_of, frame_change, frame_motion, frame_velocity_of
from .algorithms.poses import carried
from .algorithms.rnea import RNEA
from .directly import directly
from .kinematics import poses_by_row
from .recursion import Row
from .schedules.arranged import Arranged, Recursions, arranged, by_position, row_poses, row_velocities
from .schedules.choose import IN_ORDER, call_of, choose
from .schedules.lane_algorithm import LaneAlgorithm
from .schedules.lanes import lane_program_of
from .schedules.operators import outward_operator


def frame_number(model: Model, body: int | str) -> np.int32:
    """Which body a number or a name means."""
    if isinstance(body, str):
        return np.int32(model.body_index(body))
    try:
        number = index(body)
    except TypeError:
        raise TypeError(f"body must be a number or a name, not {body!r}") from None
    if not 0 <= number < model.n_bodies:
        raise ValueError(f"body {body} is outside 0 … {model.n_bodies - 1}")
    return np.int32(number)


def way_number(frame: str) -> np.int32:
    """Which way to give motions a name means. A number, so that one compiled program serves all three."""
    require_word("frame", frame, WAYS)
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
    return frame_motion(frame.E, frame.p, omega, linear, way).array()


def row_rates(laid: Layout, model: Model, at: Arranged, qd: Any, qdd: Any, base: Rates) -> Rates:
    """Rates of every position, from velocities and accelerations (batch, nv)."""
    if isinstance(laid, Recursions):
        return laid.rates(qd, qdd, base)
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
    v = _linear_velocity(laid, model, at, qd, body, frame).linear
    return frame_change(frame.E, frame.p, omega, v, (alpha, a), way).array()


Chosen = tuple[LaneAlgorithm, tuple[int, ...]]


def _velocity_at_once(model: Model, body: int | str, frame: str) -> Chosen:
    algorithm = frame_velocity_of(int(way_number(frame)))
    return lane_program_of(algorithm, model), (int(frame_number(model, body)),)


def _acceleration_at_once(model: Model, body: int | str, frame: str) -> Chosen:
    algorithm = frame_acceleration_of(int(way_number(frame)))
    return lane_program_of(algorithm, model), (int(frame_number(model, body)),)


def _by_tree(function: Callable[..., Any], model: Model, states: tuple, number: Any, way: Any) -> Any:
    """By XLA over the tree, for any model."""
    coupling, whole = model.coupling, model.uncoupled
    if coupling is not None:
        states = (coupling.widen_q(states[0]), *map(coupling.widen_v, states[1:]))
    return function(layout(model.tree, "paths"), whole, *states, number, way)


def _of_states(model: Model, states: tuple, made: Callable[..., Chosen], by_xla: Any, asked: tuple) -> Any:
    """(batch, 6): in lanes where states are walked in lanes, else over the tree."""
    body, frame = asked
    if model.nv and choose(call_of(model, states), walks=False).schedule in IN_ORDER:
        program, about = made(model, body, frame)
        return program(model, *states, about=about)[0]
    return _by_tree(by_xla, model, states, frame_number(model, body), way_number(frame))


@directly(_velocity_at_once)
def frame_velocity(
    model: Model, q: Float[Array, "... nq"], qd: Float[Array, "... nv"], body: int | str, frame: str = "world"
) -> Float[Array, "... 6"]:
    """Velocity of a body or of a frame fixed to one.

    Arguments:
        model: the mechanism.
        q, qd: (..., nq), (..., nv).
        body: number or name.
        frame: "world", "local" or "aligned": in which coordinates, at which point (see above).

    Returns:
        (..., 6), angular part first.
    """
    asked = int(frame_number(model, body)), WAYS[way_number(frame)]
    return evaluate_for(
        model, lambda *states: _of_states(model, states, _velocity_at_once, _velocity, asked), q=q, qd=qd
    )


@directly(_acceleration_at_once)
def frame_acceleration(
    model: Model,
    q: Float[Array, "... nq"],
    qd: Float[Array, "... nv"],
    qdd: Float[Array, "... nv"],
    body: int | str,
    frame: str = "world",
) -> Float[Array, "... 6"]:
    """Time derivative of `frame_velocity` along the motion q, qd, qdd. Gravity has no part in it.

    Arguments:
        model: the mechanism.
        q, qd, qdd: (..., nq), (..., nv), (..., nv).
        body: number or name.
        frame: "world" and "local": spatial acceleration; "aligned": classical acceleration of the frame's origin.

    Returns:
        (..., 6), angular part first.
    """
    asked = int(frame_number(model, body)), WAYS[way_number(frame)]
    return evaluate_for(
        model,
        lambda *states: _of_states(model, states, _acceleration_at_once, _acceleration, asked),
        q=q,
        qd=qd,
        qdd=qdd,
    )

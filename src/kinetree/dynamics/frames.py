"""Frames: how a body, or a frame fixed to one, moves.

Links, bodies on fixed joints and sites are all bodies of the model, named by number or by name. A motion is given in
one of three ways, angular part first:
    "world"    world coordinates, linear part at the world's origin: the spatial vector of the book
    "local"    the frame's own coordinates, at its own origin
    "aligned"  world coordinates, at the frame's own origin
and an acceleration is in each case the time derivative of the velocity: spatial for the first two, for the third the
classical acceleration of the origin.
"""

from collections.abc import Callable
from functools import partial
from operator import index
from typing import Any

import jax.numpy as jnp
import numpy as np

from kinetree._types import Array, Float
from kinetree._unknown import require_word
from kinetree.model import Model
from kinetree.model.coordinates import velocity_product_shift
from kinetree.spatial import Rates
from kinetree.tree import Layout, outward, pick

from .algorithms.frames import WAYS, frame_acceleration_of, frame_velocity_of
from .algorithms.rnea import RNEA
from .directly import directly
from .recursion import Algorithm, Row
from .schedules.arranged import Arranged, OwnMotions, by_position
from .schedules.lane_algorithm import LaneAlgorithm
from .schedules.lanes import lane_program_of
from .schedules.operators import outward_operator
from .schedules.run import output_of


def frame_number(model: Model, body: int | str) -> np.int32:
    """The number of a body, from its number or name."""
    if isinstance(body, str):
        return np.int32(model.body_index(body))
    try:
        number = index(body)
    except TypeError:
        raise TypeError(f"body must be a number or a name, not {body!r}") from None
    if not 0 <= number < model.n_bodies:
        there = f"outside 0 … {model.n_bodies - 1}" if model.n_bodies else "none of this model, which has no bodies"
        raise ValueError(f"body {body} is {there}")
    return np.int32(number)


def way_number(frame: str) -> np.int32:
    """The number of a way to give motions, from its name. One compiled program serves all three."""
    require_word("frame", frame, WAYS)
    return np.int32(WAYS.index(frame))


def with_base(laid: Layout, by_place: Any) -> Any:
    """Data in row order with the base first, from data by position: row i is at i + 1."""
    order = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.asarray(laid.position_of)])
    return pick(by_place, order)


def row_rates(laid: Layout, model: Model, at: Arranged, qd: Any, qdd: Any, base: Rates) -> Rates:
    """Rates of every position, from velocities and accelerations (batch, nv)."""
    if isinstance(laid, OwnMotions):
        return laid.rates(qd, qdd, base)
    of_rows = qdd - velocity_product_shift(model.structure, qd.T).T
    row = Row(at=at.placed, axis=at.rows.axis, qd=by_position(laid, qd), qdd=by_position(laid, of_rows))
    return outward(outward_operator(RNEA.passes[0]), laid, row, base)


Chosen = tuple[LaneAlgorithm, tuple[int, ...]]


def _at_once(of: Callable[[int], Algorithm], model: Model, body: int | str, frame: str) -> Chosen:
    return lane_program_of(of(int(way_number(frame))), model), (int(frame_number(model, body)),)


def _motion(of: Callable[[int], Algorithm], model: Model, body: int | str, frame: str, **given: Any) -> Any:
    """The motion, (..., 6), from the arrays of states; `of` gives the algorithm for one of the ways."""
    return output_of(of(int(way_number(frame))), model, about=int(frame_number(model, body)), **given)


@directly(partial(_at_once, frame_velocity_of))
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
    return _motion(frame_velocity_of, model, body, frame, q=q, qd=qd)


@directly(partial(_at_once, frame_acceleration_of))
def frame_acceleration(
    model: Model,
    q: Float[Array, "... nq"],
    qd: Float[Array, "... nv"],
    qdd: Float[Array, "... nv"],
    body: int | str,
    frame: str = "world",
) -> Float[Array, "... 6"]:
    """Time derivative of `frame_velocity` along the motion q, qd, qdd, without gravity.

    Arguments:
        model: the mechanism.
        q, qd, qdd: (..., nq), (..., nv), (..., nv).
        body: number or name.
        frame: "world" and "local": spatial acceleration; "aligned": classical acceleration of the frame's origin.

    Returns:
        (..., 6), angular part first.
    """
    return _motion(frame_acceleration_of, model, body, frame, q=q, qd=qd, qdd=qdd)

"""Jacobians of bodies and frames: velocity = J qd.

Column i is what row i's axis does at the point in question, if row i is on the way from the base to the body:
    angular  turn_i z_i          linear  slide_i z_i + turn_i z_i × (point − p_i)
with z_i and p_i the axis and origin of the row in the world (RBDA eq. 8.8; the difference of points is taken first, so
a robot far from the origin loses nothing).
"""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree._types import Array, Float
from kinetree.model import Model, Placement
from kinetree.model.arguments import evaluate_for
from kinetree.spatial import Transform, Vec3
from kinetree.tree import Layout, layout, pick, restore

from .algorithms.frames import axes_and_point
from .algorithms.poses import carried
from .directly import directly
from .frames import frame_number, way_number, with_base
from .jacobian_lanes import jacobian_column, jacobian_lanes
from .schedules.arranged import arranged, row_poses
from .schedules.choose import IN_ORDER, call_of, choose
from .schedules.lane_algorithm import LaneAlgorithm
from .schedules.lane_coupling import serving
from .schedules.lane_rows import kind_of
from .schedules.record import note


@jax.jit
def _jacobian(laid: Layout, model: Model, q: Any, body: Any, way: Any) -> Any:
    at = arranged(laid, model, q)
    row = jnp.asarray(model.structure.row_of_body, jnp.int32)[body]  # that carries the body; −1 for the base
    by_place = row_poses(laid, at)
    on: Placement = pick(with_base(laid, by_place), row + 1)
    own: Transform = jax.tree.map(lambda x: jnp.asarray(x, q.dtype)[body], model.frames)
    E, point = axes_and_point(*carried(on, own), way)
    rows, pose = restore(laid, (at.rows, by_place))
    moved = jacobian_column(pose, rows.axis, E, Vec3(*(c[None, :] for c in point)))
    carries = _carries(model, row)
    columns = jnp.where(carries[:, None, None], moved.array(), jnp.zeros((), q.dtype))
    return jnp.transpose(columns, (1, 2, 0))


def _program(model: Model, way: int) -> LaneAlgorithm:
    kind = kind_of(model)
    return serving(jacobian_lanes(kind.quaternions, kind.roots, way), model)


def _at_once(model: Model, body: int | str, frame: str) -> tuple[LaneAlgorithm, tuple[int, ...]]:
    return _program(model, int(way_number(frame))), (int(frame_number(model, body)),)


def _across_states(model: Model, q: Any, body: int, way: int, schedule: str) -> Any:
    return _program(model, way)(model, q, schedule=schedule, about=(body,))[0].reshape(-1, 6, model.nv)


def _carries(model: Model, row: Any) -> Any:
    """(rows,): which rows are `row` or its ancestors; none for the base."""
    lp, rp = jnp.asarray(model.tree.lp), jnp.asarray(model.tree.rp)
    return (row >= 0) & (lp <= lp[row]) & (rp[row] <= rp)


@directly(_at_once)
def jacobian(
    model: Model, q: Float[Array, "... nq"], body: int | str, frame: str = "world", *, schedule: str = "auto"
) -> Float[Array, "... 6 nv"]:
    """Jacobian of a body or of a frame fixed to one.

    Arguments:
        model: the mechanism.
        q: (..., nq).
        body: number or name of a body, link or site.
        frame: in which coordinates, at which point: "world" (at the world's origin), "local" (the frame's own) or
            "aligned" (world coordinates, at the frame's origin).
        schedule: "auto", "lanes", "sequential", "levels" or "paths".

    Returns:
        J, (..., 6, nv), angular part first, with `frame_velocity` = J qd.

    Reference: Featherstone 2008 §8.1.
    """
    number, way = frame_number(model, body), way_number(frame)

    def compute(q: Any) -> Any:
        choice = choose(call_of(model, (q,)), schedule, walks=False)
        note("jacobian", choice)
        chosen = choice.schedule
        if model.nv == 0:
            return jnp.zeros((q.shape[0], 6, 0), q.dtype)
        if chosen in IN_ORDER:
            return _across_states(model, q, int(number), int(way), chosen)
        if model.coupling is None:
            return _jacobian(layout(model.tree, chosen), model, q, number, way)
        whole = model.coupling.widen_q(q)
        return model.coupling.narrow(_jacobian(layout(model.tree, chosen), model.uncoupled, whole, number, way))

    return evaluate_for(model, compute, q=q)

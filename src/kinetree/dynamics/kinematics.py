"""Forward kinematics: where the bodies are."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from kinetree.model import Model, Placement, coupled
from kinetree.model.arguments import evaluate
from kinetree.tree import Layout, layout

from .algorithms.kinematics import KINEMATICS
from .schedule import IN_ORDER, resolve_schedule
from .schedules.lanes import lane_program_of
from .schedules.layouts import over_layout


class Pose(NamedTuple):
    """Orientation of every body, (..., n, 3, 3) from body to world coordinates, and its origin, (..., n, 3)."""

    rotation: Any
    position: Any


def poses_by_row(laid: Layout, poses: Placement) -> Placement:
    """Row order, with the base first: row i is at i + 1."""
    order = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.asarray(laid.position_of)])
    return jax.tree.map(lambda x: x[order], poses)


@jax.jit
def _body_poses(laid: Layout, model: Model, q: Any) -> Pose:
    found = over_layout(KINEMATICS, laid, model, {"q": q})
    return Pose(*(jnp.swapaxes(found[n].array(), 0, 1) for n in ("rotation", "position")))


def _across_states(model: Model, q: Any, schedule: str) -> Pose:
    R, p = lane_program_of(KINEMATICS, model)(model, q, schedule=schedule)
    n = q.shape[0], model.n_bodies  # in full: nothing can be told of −1 where there are no bodies
    return Pose(R.reshape(*n, 3, 3), p.reshape(*n, 3))


@coupled("unchanged")
def forward_kinematics(model: Model, q: Any, *, schedule: str = "auto") -> Pose:
    """Pose of every body in the world.

    Arguments:
        model: the mechanism.
        q: (..., nq).
        schedule: "auto", "lanes", "sequential", "levels" or "paths".

    Returns:
        Pose, with `.rotation` (..., n, 3, 3), body to world, and `.position` (..., n, 3).
    """

    def compute(q: Any) -> Pose:
        chosen = resolve_schedule(schedule, model.tree, q.shape[0])
        if chosen in IN_ORDER:
            return _across_states(model, q, chosen)
        return _body_poses(layout(model.tree, chosen), model, q)

    return evaluate(compute, q=(q, (model.nq,)))

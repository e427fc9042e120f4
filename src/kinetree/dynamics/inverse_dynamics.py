"""Inverse dynamics: the forces that a motion needs."""

from functools import partial
from typing import Any

import numpy as np

from kinetree._arrays import dtype_of
from kinetree._types import Array, Float
from kinetree.model import Model

from .algorithms.rnea import BIAS, GRAVITY, RNEA
from .directly import directly
from .schedules.lanes import lane_program_of
from .schedules.run import output_of
from .sharded.tree import ShardedTree, require_plain_call


@directly(partial(lane_program_of, RNEA))
def inverse_dynamics(
    model: Model | ShardedTree,
    q: Float[Array, "... nq"],
    qd: Float[Array, "... nv"],
    qdd: Float[Array, "... nv"],
    f_ext: Float[Array, "... bodies 6"] | None = None,
    *,
    schedule: str = "auto",
) -> Float[Array, "... nv"]:
    """Generalised forces that produce the accelerations `qdd` in the state `q`, `qd`.

    tau = H qdd + C − tau_passive − forces on bodies. tau_passive are the forces of the joints' springs and dampers.

    Arguments:
        model: the mechanism, or a tree over several devices (`kinetree.shard_tree`), without `f_ext`.
        q, qd, qdd: (..., nq), (..., nv), (..., nv); leading axes are batches and broadcast.
        f_ext: (..., n_bodies, 6) forces on the bodies in world coordinates, moment about the world origin first.
        schedule: "auto", "lanes" (rows in order, states side by side, in native code), "sequential" (the same loop in
            XLA, the baseline), "levels", "paths" or "euler".

    Returns:
        tau, (..., nv).

    Reference: Lynghus 2026 §5; Featherstone 2008 table 5.1.
    """
    if isinstance(model, ShardedTree):
        require_plain_call(f_ext, schedule)
        return model.inverse_dynamics(q, qd, qdd)
    return output_of(RNEA, model, schedule, q=q, qd=qd, qdd=qdd, f_ext=f_ext)


def zero_rates(model: Model, like: Any) -> Any:
    """Velocities or accelerations of zero, in the dtype of `like`, also if JAX is in 32-bit mode."""
    return np.zeros(model.nv, dtype_of(like))


@directly(lambda model, external=False: lane_program_of(BIAS, model.without_passive, external))
def bias_force(
    model: Model,
    q: Float[Array, "... nq"],
    qd: Float[Array, "... nv"],
    f_ext: Float[Array, "... bodies 6"] | None = None,
    *,
    schedule: str = "auto",
) -> Float[Array, "... nv"]:
    """C of the equation of motion: Coriolis, centrifugal and gravity terms, less applied forces; no passive ones."""
    return inverse_dynamics(model.without_passive, q, qd, zero_rates(model, qd), f_ext, schedule=schedule)


@directly(lambda model: lane_program_of(GRAVITY, model.without_passive))
def gravity_force(model: Model, q: Float[Array, "... nq"], *, schedule: str = "auto") -> Float[Array, "... nv"]:
    """Forces that hold the mechanism at rest against gravity, without springs."""
    rest = zero_rates(model, q)
    return inverse_dynamics(model.without_passive, q, rest, rest, schedule=schedule)

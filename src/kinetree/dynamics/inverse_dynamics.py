"""Inverse dynamics: the forces that a motion takes."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from kinetree.model import Model, coupled
from kinetree.model.arguments import evaluate
from kinetree.model.coordinates import armature_shift, velocity_product_shift
from kinetree.spatial import Vec3
from kinetree.tree import Layout, layout, restore
from kinetree.tree.stages import Stages

from . import closed_form
from .arranged import applied_forces, arranged, by_position
from .directly import directly
from .lane_rows import kind_of
from .passive import passive_by_row
from .rnea import rnea
from .rnea_blocks import rnea_plan
from .rnea_euler import rnea_euler
from .rnea_lanes import rnea_of
from .rnea_stages import rnea_over_stages
from .schedule import IN_ORDER, resolve_schedule
from .staged import by_stages, one_at_a_time, row_coordinates, use_stages


def felt_by_armature(model: Model, qd: Any, qdd: Any) -> Any:
    """The accelerations, (batch, nv), that armatures resist."""
    rows = jax.tree.map(lambda x: jnp.asarray(x, qd.dtype)[:, None], model.rows)
    return qdd + armature_shift(model.structure, rows, qd.T).T


@jax.jit
def _over_the_tree(laid: Layout, model: Model, q: Any, qd: Any, qdd: Any, f_ext: Any) -> Any:
    at = arranged(laid, model, q)
    of_rows = qdd - velocity_product_shift(model.structure, qd.T).T
    applied = None if f_ext is None else applied_forces(laid, model, at, f_ext)
    tau = rnea(laid, at.rows, at.placed, by_position(laid, qd), by_position(laid, of_rows), at.gravity, applied)
    return restore(laid, tau).T + jnp.asarray(model.rows.armature, q.dtype) * felt_by_armature(model, qd, qdd)


def _native(hinges: bool, laid: Stages, constants: tuple, model: Model, q: Any, qd: Any, qdd: Any) -> Any:
    constants, own = row_coordinates(laid, constants, model, q)
    of_rows = qdd - velocity_product_shift(model.structure, qd[:, None])[:, 0]
    gravity = Vec3(*(jnp.asarray(g, q.dtype) for g in model.gravity))
    felt = felt_by_armature(model, qd[None], qdd[None])[0]
    return rnea_over_stages(laid, constants, gravity, (own, qd, of_rows), felt, hinges)


def _by_xla(model: Model, q: Any, qd: Any, qdd: Any) -> Any:
    return _over_the_tree(layout(model.tree, "paths"), model, q[None], qd[None], qdd[None], None)[0]


_OVER_STAGES = {hinges: one_at_a_time(partial(_native, hinges), _by_xla) for hinges in (False, True)}


def _across_states(model: Model, q: Any, qd: Any, qdd: Any, f_ext: Any, schedule: str) -> Any:
    program = rnea_of(model, f_ext is not None)
    extra = () if f_ext is None else (f_ext.reshape(len(f_ext), -1),)

    def run(*state: Any) -> Any:
        return program(model, *state, *extra, schedule=schedule)[0]

    if schedule == "lanes" and closed_form.serves(model, q, f_ext):
        run = closed_form.inverse(model, run)
    return run(q, qd, qdd)


def _by_blocks(model: Model, *state: Any) -> Any:
    """One state of a huge tree, on the cores of a CPU; None where that can not be."""
    if jax.default_backend() != "cpu" or any(isinstance(x, Tracer) for x in state):
        return None
    plan = rnea_plan(model, np.dtype(state[0].dtype))
    if plan is None:
        return None
    tau = plan(*(np.asarray(x)[0] for x in state))[None]
    return tau if isinstance(state[0], np.ndarray) else jnp.asarray(tau)


def _by_schedule(model: Model, q: Any, qd: Any, qdd: Any, f_ext: Any, schedule: str) -> Any:
    chosen = resolve_schedule(schedule, model.tree, q.shape[0])
    if model.nv == 0:
        return jnp.zeros((q.shape[0], 0), q.dtype)
    if schedule in ("auto", "paths") and q.shape[0] == 1 and f_ext is None:
        tau = _by_blocks(model, q, qd, qdd)
        if tau is not None:
            return tau
    if chosen in IN_ORDER:
        return _across_states(model, q, qd, qdd, f_ext, chosen)
    if chosen == "euler":
        return rnea_euler(model, q, qd, qdd, f_ext)
    if chosen == "paths" and (laid := use_stages(model.tree, q.shape[0], f_ext)) is not None:
        return by_stages(_OVER_STAGES[kind_of(model).hinges], laid, model, q, qd, qdd)
    return _over_the_tree(layout(model.tree, chosen), model, q, qd, qdd, f_ext)


@directly(rnea_of)
@coupled("force")
def inverse_dynamics(model: Model, q: Any, qd: Any, qdd: Any, f_ext: Any = None, *, schedule: str = "auto") -> Any:
    """Generalised forces that produce the accelerations `qdd` in the state `q`, `qd`.

    tau = H qdd + C − tau_passive − forces on bodies: what springs and dampers of the joints do, nothing else has to.

    Arguments:
        model: the mechanism.
        q, qd, qdd: (..., nq), (..., nv), (..., nv); leading axes are batches and broadcast.
        f_ext: (..., n_bodies, 6) forces on the bodies in world coordinates, moment about the world origin first.
        schedule: "auto", "lanes" (rows in order, states side by side, in native code), "sequential" (the same loop in
            XLA, the baseline), "levels", "paths" or "euler".

    Returns:
        tau, (..., nv).

    Reference: Lynghus 2026 §5; Featherstone 2008 table 5.1.
    """

    def compute(q: Any, qd: Any, qdd: Any, f_ext: Any) -> Any:
        tau = _by_schedule(model, q, qd, qdd, f_ext, schedule)
        return tau if model.passive is None else tau - passive_by_row(model, q, qd)

    nv = (model.nv,)
    return evaluate(compute, q=(q, (model.nq,)), qd=(qd, nv), qdd=(qdd, nv), f_ext=(f_ext, (model.n_bodies, 6)))


def zero_rates(model: Model, like: Any) -> Any:
    """Velocities or accelerations of zero, in the dtype of `like`, which JAX could not give in its 32-bit mode."""
    dtype = like.dtype if isinstance(like, jax.Array) else np.result_type(np.asarray(like), np.float32)
    return np.zeros(model.nv, dtype)


def bias_force(model: Model, q: Any, qd: Any, f_ext: Any = None, *, schedule: str = "auto") -> Any:
    """C of the equation of motion: Coriolis, centrifugal and gravity terms, less applied forces; no passive ones."""
    return inverse_dynamics(model.without_passive, q, qd, zero_rates(model, qd), f_ext, schedule=schedule)


def gravity_force(model: Model, q: Any, *, schedule: str = "auto") -> Any:
    """Forces that hold the mechanism at rest against gravity; springs have no part in them."""
    rest = zero_rates(model, q)
    return inverse_dynamics(model.without_passive, q, rest, rest, schedule=schedule)

"""The articulated-body algorithm: forward dynamics in three passes over the rows, under any schedule.

Outward, velocities; inward, articulated inertias and biases; outward, accelerations (RBDA table 7.1). Row by row and
level by level the steps are the classical ones (articulated.py). Under `paths` long stretches of tree are taken at
once, by the elements of articulated_element.py on the way in and by affine maps of accelerations, a ↦ P X a + g, on
the way out: O(log n) rounds.
"""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree.model import Axis, Model
from kinetree.model.coordinates import velocity_product_shift
from kinetree.spatial import ArticulatedInertia, Vec3
from kinetree.tree import Layout, inward, layout, outward, restore
from kinetree.tree.stages import Stages

from . import closed_form
from .aba_lanes import aba_of
from .aba_operators import ACCELERATION, ARTICULATED, Accelerated, JointedRow
from .aba_stages import aba_over_stages
from .arranged import Arranged, applied_forces, arranged, by_position, row_velocities
from .articulated import (
    Articulated,
    ArticulatedRow,
    base_acceleration,
    own_bias,
    pivot,
    velocity_product,
)
from .lane_rows import FEW_ROWS
from .schedule import IN_ORDER, resolve_schedule
from .staged import by_stages, one_at_a_time, row_coordinates, use_stages


def articulated_rows(laid: Layout, model: Model, at: Arranged, qd: Any, tau: Any, f_ext: Any) -> ArticulatedRow:
    """All that the inward pass needs, by position; the first pass."""
    tau = shifted(model, tau, qd)
    qd = by_position(laid, qd)
    v = row_velocities(laid, at, qd)
    bias = own_bias(at.rows.inertia, v)
    if f_ext is not None:
        bias = bias - applied_forces(laid, model, at, f_ext)
    inertia: ArticulatedInertia = at.rows.inertia.articulated()
    own = Articulated.exact(jax.tree.map(lambda x: jnp.broadcast_to(x, qd.shape), inertia), bias)
    armature = jnp.broadcast_to(at.rows.armature, qd.shape)
    axis = Axis(*(jnp.broadcast_to(x, qd.shape) for x in at.rows.axis))
    c = velocity_product(v, axis, qd)
    return ArticulatedRow(at.placed.transform, axis, armature, own, c, by_position(laid, tau))


def articulated_bodies(laid: Layout, at: Arranged, rows: ArticulatedRow) -> Articulated:
    """Articulated inertia and bias of every position; the second pass."""
    return rows.own + inward(ARTICULATED, laid, rows, Articulated.zero_like(at.gravity.x))


def accelerations(laid: Layout, at: Arranged, rows: ArticulatedRow, whole: Articulated) -> Accelerated:
    """Accelerations of every position, given its articulated body; the last pass."""
    joint = pivot(rows.axis, rows.armature, rows.tau, whole)
    base = Accelerated(base_acceleration(at.gravity), jnp.zeros_like(at.gravity.x))
    return outward(ACCELERATION, laid, JointedRow(rows.X, rows.axis, rows.c, joint), base)


@jax.jit
def _over_the_tree(laid: Layout, model: Model, q: Any, qd: Any, tau: Any, f_ext: Any) -> Any:
    at = arranged(laid, model, q)
    rows = articulated_rows(laid, model, at, qd, tau, f_ext)
    moving = accelerations(laid, at, rows, articulated_bodies(laid, at, rows))
    return unshifted(model, restore(laid, moving.qdd).T, qd)


@jax.jit
def shifted(model: Model, tau: Any, qd: Any) -> Any:
    """Forces on the rows, (batch, nv), less what armature resists of accelerations that the rows have not."""
    armature, slide = (jnp.asarray(x, tau.dtype) for x in (model.rows.armature, model.rows.slide))
    # (1 + slide): what the rows lack themselves, and `armature_shift`
    return tau - armature * (1 + slide) * velocity_product_shift(model.structure, qd.T).T


@jax.jit
def unshifted(model: Model, qdd: Any, qd: Any) -> Any:
    """Accelerations of the joints, (batch, nv), from those of the rows: quaternion joints take their shift back."""
    return qdd + velocity_product_shift(model.structure, qd.T).T


def _native(laid: Stages, constants: tuple, model: Model, q: Any, qd: Any, tau: Any) -> Any:
    constants, own = row_coordinates(laid, constants, model, q)
    gravity = Vec3(*(jnp.asarray(g, q.dtype) for g in model.gravity))
    qdd = aba_over_stages(laid, constants, gravity, own, qd, shifted(model, tau[None], qd[None])[0])
    return unshifted(model, qdd[None], qd[None])[0]


def _by_xla(model: Model, q: Any, qd: Any, tau: Any) -> Any:
    return _over_the_tree(layout(model.tree, "paths"), model, q[None], qd[None], tau[None], None)[0]


_OVER_STAGES = one_at_a_time(_native, _by_xla)


def _across_states(model: Model, q: Any, qd: Any, tau: Any, f_ext: Any, schedule: str) -> Any:
    extra = () if f_ext is None else (f_ext.reshape(len(f_ext), -1),)
    on_gpu = schedule == "lanes" and isinstance(q, jax.Array) and jax.default_backend() == "gpu"
    program = aba_of(model, f_ext is not None, again=on_gpu and model.tree.n > FEW_ROWS)

    def run(*state: Any) -> Any:
        return program(model, *state, *extra, schedule=schedule)[0]

    if schedule == "lanes" and closed_form.serves(model, q, f_ext):
        run = closed_form.forward(model, run)
    return run(q, qd, tau)


def forward_dynamics_aba(model: Model, q: Any, qd: Any, tau: Any, f_ext: Any, *, schedule: str = "auto") -> Any:
    """Accelerations, (batch, nv)."""
    chosen = resolve_schedule(schedule, model.tree, q.shape[0])
    if chosen == "euler":
        raise ValueError(
            "articulated inertias have no inverse, which schedule 'euler' needs: choose lanes, levels or paths"
        )
    if chosen in IN_ORDER:
        return _across_states(model, q, qd, tau, f_ext, chosen)
    if chosen == "paths" and (laid := use_stages(model.tree, q.shape[0], f_ext)) is not None:
        return by_stages(_OVER_STAGES, laid, model, q, qd, tau)
    return _over_the_tree(layout(model.tree, chosen), model, q, qd, tau, f_ext)

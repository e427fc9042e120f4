"""Forward dynamics by the articulated-body algorithm (algorithms/aba.py), under any schedule."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from kinetree.model import Model
from kinetree.model.coordinates import velocity_product_shift
from kinetree.spatial import Vec3
from kinetree.tree import Layout, layout
from kinetree.tree.stages import Stages

from . import closed_form
from .algorithms.aba import ABA, ABA_AGAIN
from .lane_rows import FEW_ROWS, kind_of
from .positive import require_solution
from .schedule import IN_ORDER, resolve_schedule
from .schedules.lanes import lane_program_of
from .schedules.layouts import over_layout
from .schedules.stages import Plan, over_stages
from .staged import by_stages, one_at_a_time, row_coordinates, use_stages


@jax.jit
def _over_the_tree(laid: Layout, model: Model, q: Any, qd: Any, tau: Any, f_ext: Any) -> Any:
    return over_layout(ABA, laid, model, {"q": q, "qd": qd, "tau": tau}, f_ext)["qdd"]


@jax.jit
def shifted(model: Model, tau: Any, qd: Any) -> Any:
    """Forces on the rows, (batch, nv): armature resists the joint's acceleration, of which the rows lack the shift."""
    return tau - jnp.asarray(model.rows.armature, tau.dtype) * velocity_product_shift(model.structure, qd.T).T


@jax.jit
def unshifted(model: Model, qdd: Any, qd: Any) -> Any:
    """Accelerations of the joints, (batch, nv), from those of the rows: quaternion joints take their shift back."""
    return qdd + velocity_product_shift(model.structure, qd.T).T


def _native(hinges: bool, laid: Stages, constants: tuple, model: Model, q: Any, qd: Any, tau: Any) -> Any:
    constants, own = row_coordinates(laid, constants, model, q)
    gravity = Vec3(*(jnp.asarray(g, q.dtype) for g in model.gravity))
    given = {"q": own, "qd": qd, "tau": shifted(model, tau[None], qd[None])[0]}
    qdd = over_stages(Plan(ABA, hinges), laid, constants, gravity, given)["qdd"]
    return unshifted(model, qdd[None], qd[None])[0]


def _by_xla(model: Model, q: Any, qd: Any, tau: Any) -> Any:
    return _over_the_tree(layout(model.tree, "paths"), model, q[None], qd[None], tau[None], None)[0]


_OVER_STAGES = {hinges: one_at_a_time(partial(_native, hinges), _by_xla) for hinges in (False, True)}


def _across_states(model: Model, q: Any, qd: Any, tau: Any, f_ext: Any, schedule: str) -> Any:
    extra = () if f_ext is None else (f_ext.reshape(len(f_ext), -1),)
    on_gpu = schedule == "lanes" and isinstance(q, jax.Array) and jax.default_backend() == "gpu"
    again = on_gpu and model.tree.n > FEW_ROWS
    program = lane_program_of(ABA_AGAIN if again else ABA, model, f_ext is not None)

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
        return require_solution(_across_states(model, q, qd, tau, f_ext, chosen), "aba")
    if chosen == "paths" and (laid := use_stages(model.tree, q.shape[0], f_ext)) is not None:
        return require_solution(by_stages(_OVER_STAGES[kind_of(model).hinges], laid, model, q, qd, tau), "aba")
    return require_solution(_over_the_tree(layout(model.tree, chosen), model, q, qd, tau, f_ext), "aba")

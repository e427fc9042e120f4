"""Forward dynamics with loads on the joints: (H + diag(load)) qdd + C = tau. Each state has its own loads.

A load acts as rotor inertia; on a free joint it resists the acceleration of the origin in the world. So this is the
articulated-body algorithm with d = Sᵀ U + armature + load.
Implicit integrators use it: their dampers and servos at the end of a step are loads h ∂f/∂qd.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from kinetree.model import Model
from kinetree.model.coordinates import armature_shift

from .algorithms.aba import aba_of
from .firmness import is_firm
from .inverse_dynamics import inverse_dynamics
from .loops.forward import closed_answer
from .mass_matrix import mass_matrix
from .matrices.dense import solve_positive
from .schedules.run import run


def loaded_forward_dynamics(model: Model, q: Any, qd: Any, tau: Any, f_ext: Any, load: Any) -> Any:
    """Accelerations, (batch, nv), from (batch, ...) arrays; `load` has one number for each joint of the free model."""
    if model.nv == 0:
        return jnp.zeros_like(qd)
    if model.loops is not None:
        free = loaded_forward_dynamics(model.without_loops, q, qd, tau, f_ext, load)
        return closed_answer(model, with_load(load), q, qd, free).qdd
    load = jnp.broadcast_to(load, (q.shape[0], load.shape[-1]))
    if model.coupling is not None:
        H = jnp.asarray(mass_matrix(model, q)) + model.coupling.narrow_matrix(jax.vmap(jnp.diag)(load))
        rows = jax.tree.map(lambda x: x[:, None], model.rows)
        shift = armature_shift(model.structure, rows, model.coupling.widen_v(qd).T).T
        held = inverse_dynamics(model, q, qd, jnp.zeros_like(qd), f_ext) + model.coupling.narrow(load * shift)
        return solve_positive(H, tau - held)
    return run(aba_of(is_firm(model), loaded=True), model, {"q": q, "qd": qd, "tau": tau, "load": load}, f_ext)["qdd"]


def with_load(load: Any) -> Callable[..., Any]:
    """`loaded_forward_dynamics` with these loads as a function of states; several states may share a load."""

    def solve(model: Model, q: Any, qd: Any, tau: Any, f_ext: Any) -> Any:
        return loaded_forward_dynamics(model, q, qd, tau, f_ext, jnp.repeat(load, max(1, len(q) // len(load)), 0))

    return solve

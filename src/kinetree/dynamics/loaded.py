"""Forward dynamics with loads on the joints: (H + diag(load)) qdd + C = tau, each state with loads of its own.

A load is to a joint what rotor inertia is: on a free joint it resists the acceleration of the origin in the world. So
this is the articulated-body algorithm with d = Sᵀ U + armature + load.
Implicit integrators use it: their dampers and servos at the end of a step are loads h ∂f/∂qd.
"""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree.model import Model
from kinetree.model.coordinates import armature_shift, velocity_product_shift
from kinetree.tree import Layout, layout, restore

from .aba import accelerations, articulated_bodies, articulated_rows, unshifted
from .aba_lanes import aba_of
from .arranged import arranged, by_position
from .dense import solve_positive
from .inverse_dynamics import inverse_dynamics
from .mass_matrix import mass_matrix
from .passive import passive_by_row
from .schedule import IN_ORDER, choose_schedule


@jax.jit
def _over_the_tree(laid: Layout, model: Model, q: Any, qd: Any, tau: Any, f_ext: Any, load: Any) -> Any:
    at = arranged(laid, model, q)
    slide = jnp.asarray(model.rows.slide, q.dtype)
    tau = tau - load * (1 + slide) * velocity_product_shift(model.structure, qd.T).T
    rows = articulated_rows(laid, model, at, qd, tau, f_ext)
    rows = rows._replace(armature=rows.armature + by_position(laid, load))
    moving = accelerations(laid, at, rows, articulated_bodies(laid, at, rows))
    return unshifted(model, restore(laid, moving.qdd).T, qd)


def loaded_forward_dynamics(model: Model, q: Any, qd: Any, tau: Any, f_ext: Any, load: Any) -> Any:
    """Accelerations, (batch, nv), from (batch, ...) arrays; `load` has one number for each joint of the free model."""
    if model.nv == 0:
        return jnp.zeros_like(qd)
    load = jnp.broadcast_to(load, (q.shape[0], load.shape[-1]))
    if model.coupling is not None:
        H = jnp.asarray(mass_matrix(model, q)) + model.coupling.narrow_matrix(jax.vmap(jnp.diag)(load))
        shift = armature_shift(model.structure, model.rows, model.coupling.widen_v(qd).T).T
        held = inverse_dynamics(model, q, qd, jnp.zeros_like(qd), f_ext) + model.coupling.narrow(load * shift)
        return solve_positive(H, tau - held)
    if model.passive is not None:
        tau = tau + passive_by_row(model, q, qd)
    model = model.without_passive
    schedule = choose_schedule(model.tree, q.shape[0])
    if schedule in IN_ORDER:
        extra = () if f_ext is None else (f_ext.reshape(len(f_ext), -1),)
        program = aba_of(model, f_ext is not None, loaded=True)
        qdd = program(model, q, qd, tau, *extra, load, schedule=schedule)[0]
    else:
        qdd = _over_the_tree(layout(model.tree, schedule), model, q, qd, tau, f_ext, load)
    return qdd

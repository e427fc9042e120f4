"""Quantities of the whole mechanism: mass centre, energies, momentum.

Bodies fixed to the base belong to the base: they do not move and are not counted.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.model import Model, coupled
from kinetree.model.arguments import evaluate
from kinetree.spatial import Vec3
from kinetree.tree import layout

from .algorithms.totals import TOTALS, Totals
from .passive import spring_energy
from .schedule import IN_ORDER, resolve_schedule
from .schedules.euler import over_euler_tour
from .schedules.lanes import lane_program_of
from .schedules.layouts import over_layout


def _center_of_mass(model: Model, t: Totals, q: Any, qd: Any) -> Any:
    return (t.moment * (1 / jnp.asarray(model.rows.inertia.mass, q.dtype).sum())).array()


def _potential_energy(model: Model, t: Totals, q: Any, qd: Any) -> Any:
    falling = -t.moment.dot(Vec3.from_array(jnp.asarray(model.gravity, q.dtype)))
    return falling if model.passive is None else falling + spring_energy(model, q)


def _kinetic_energy(model: Model, t: Totals, q: Any, qd: Any) -> Any:
    rotors = jnp.asarray(model.rows.armature, q.dtype) * qd**2
    return 0.5 * (t.twice_kinetic + rotors.sum(-1))


def _momentum(model: Model, t: Totals, q: Any, qd: Any) -> Any:
    return t.momentum.array()


_of_totals = jax.jit(lambda quantity, *given: quantity(*given), static_argnums=0)


@partial(jax.jit, static_argnums=(0, 1))
def _over_the_tree(quantity: Any, schedule: str, model: Model, q: Any, qd: Any) -> Any:
    inputs = {"q": q, "qd": qd}
    if schedule == "euler":
        totals = over_euler_tour(TOTALS, model, inputs)
    else:
        totals = over_layout(TOTALS, layout(model.tree, schedule), model, inputs)
    return quantity(model, totals["totals"], q, qd)


def _in_lanes(model: Model, q: Any, qd: Any, schedule: str) -> Totals:
    (found,) = lane_program_of(TOTALS, model)(model, q, qd, schedule=schedule)
    return jax.tree.unflatten(jax.tree.structure(TOTALS.outputs["totals"]), [found[:, k] for k in range(10)])


def _by_schedule(quantity: Any, schedule: str, model: Model, q: Any, qd: Any = None) -> Any:
    chosen = resolve_schedule(schedule, model.tree, q.shape[0])
    if qd is None:  # what does not depend on it takes any
        qd = (np if isinstance(q, np.ndarray) else jnp).zeros((q.shape[0], model.nv), q.dtype)
    if model.nv == 0:
        return _of_totals(quantity, model, Totals.zero_like(jnp.zeros(q.shape[0], q.dtype)), q, qd)
    if chosen in IN_ORDER:
        return _of_totals(quantity, model, _in_lanes(model, q, qd, chosen), q, qd)
    return _over_the_tree(quantity, chosen, model, q, qd)


def center_of_mass_by_batch(model: Model, q: Any) -> Any:
    """(batch, 3), walked by paths: for passes over the tree that need it on their way."""
    return _over_the_tree(_center_of_mass, "paths", model, q, jnp.zeros((q.shape[0], model.nv), q.dtype))


def _evaluate(quantity: Any, schedule: str, model: Model, q: Any, qd: Any = None) -> Any:
    given = {"q": (q, (model.nq,))} | ({} if qd is None else {"qd": (qd, (model.nv,))})
    return evaluate(partial(_by_schedule, quantity, schedule, model), **given)


@coupled("unchanged")
def center_of_mass(model: Model, q: Any, *, schedule: str = "auto") -> Any:
    """Centre of mass of the moving bodies, (..., 3), in world coordinates; schedules as of `inverse_dynamics`."""
    return _evaluate(_center_of_mass, schedule, model, q)


@coupled("unchanged")
def potential_energy(model: Model, q: Any, *, schedule: str = "auto") -> Any:
    """−m g·c, zero with the centre of mass at the world origin, and ½ k stretch² of the joints' springs."""
    return _evaluate(_potential_energy, schedule, model, q)


@coupled("unchanged")
def kinetic_energy(model: Model, q: Any, qd: Any, *, schedule: str = "auto") -> Any:
    """½ Σ v·I v, and ½ armature qd² of the joints' rotors."""
    return _evaluate(_kinetic_energy, schedule, model, q, qd)


@coupled("unchanged")
def momentum(model: Model, q: Any, qd: Any, *, schedule: str = "auto") -> Any:
    """Spatial momentum, (..., 6), angular part about the world origin first, in world coordinates."""
    return _evaluate(_momentum, schedule, model, q, qd)

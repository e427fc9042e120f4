"""Quantities of the whole mechanism: mass centre, energies, momentum.

Bodies fixed to the base belong to the base: they do not move and are not counted.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from kinetree._arrays import library
from kinetree._types import Array, Float
from kinetree.model import Model, coupled
from kinetree.model.arguments import evaluate_for
from kinetree.spatial import Vec3

from .algorithms.totals import TOTALS, Totals
from .algorithms.wholes import CENTER_OF_MASS, KINETIC_ENERGY, MOMENTUM, POTENTIAL_ENERGY, POTENTIAL_WITH_SPRINGS
from .directly import directly
from .passive import spring_energy
from .recursion import Algorithm
from .schedules.choose import check_schedule
from .schedules.lane_rows import kind_of
from .schedules.lanes import lane_program_of
from .schedules.run import run


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


def _totals(model: Model, q: Any, qd: Any, schedule: str) -> Totals:
    if model.nv == 0:
        return Totals.zero_like(jnp.zeros(q.shape[0], q.dtype))
    found = run(TOTALS, model, {"q": q, "qd": qd}, schedule=schedule)["totals"]
    tree = jax.tree.structure(TOTALS.outputs["totals"])
    return jax.tree.unflatten(tree, [found[:, k] for k in range(tree.num_leaves)])


def _by_schedule(quantity: Any, schedule: str, model: Model, q: Any, qd: Any = None) -> Any:
    check_schedule(schedule)
    if qd is None:  # what does not depend on it takes any
        qd = library(q).zeros((q.shape[0], model.nv), q.dtype)
    return _of_totals(quantity, model, _totals(model, q, qd, schedule), q, qd)


def _potential_passes(model: Model) -> Algorithm:
    return POTENTIAL_WITH_SPRINGS if kind_of(model).springs else POTENTIAL_ENERGY


def center_of_mass_by_batch(model: Model, q: Any) -> Any:
    """(batch, 3), walked by paths: for passes over the tree that need it on their way."""
    qd = jnp.zeros((q.shape[0], model.nv), q.dtype)
    return _center_of_mass(model, _totals(model, q, qd, "paths"), q, qd)


def _evaluate(quantity: Any, schedule: str, model: Model, q: Any, qd: Any = None) -> Any:
    given = {"q": q} | ({} if qd is None else {"qd": qd})
    return evaluate_for(model, partial(_by_schedule, quantity, schedule, model), **given)


@directly(partial(lane_program_of, CENTER_OF_MASS))
@coupled("unchanged")
def center_of_mass(model: Model, q: Float[Array, "... nq"], *, schedule: str = "auto") -> Float[Array, "... 3"]:
    """Centre of mass of the moving bodies, (..., 3), in world coordinates; schedules as of `inverse_dynamics`."""
    return _evaluate(_center_of_mass, schedule, model, q)


@directly(lambda model: lane_program_of(_potential_passes(model), model))
@coupled("unchanged")
def potential_energy(model: Model, q: Float[Array, "... nq"], *, schedule: str = "auto") -> Float[Array, "..."]:
    """−m g·c, zero with the centre of mass at the world origin, and ½ k stretch² of the joints' springs."""
    return _evaluate(_potential_energy, schedule, model, q)


@directly(partial(lane_program_of, KINETIC_ENERGY))
@coupled("unchanged")
def kinetic_energy(
    model: Model, q: Float[Array, "... nq"], qd: Float[Array, "... nv"], *, schedule: str = "auto"
) -> Float[Array, "..."]:
    """½ Σ v·I v, and ½ armature qd² of the joints' rotors."""
    return _evaluate(_kinetic_energy, schedule, model, q, qd)


@directly(partial(lane_program_of, MOMENTUM))
@coupled("unchanged")
def momentum(
    model: Model, q: Float[Array, "... nq"], qd: Float[Array, "... nv"], *, schedule: str = "auto"
) -> Float[Array, "... 6"]:
    """Spatial momentum, (..., 6), angular part about the world origin first, in world coordinates."""
    return _evaluate(_momentum, schedule, model, q, qd)

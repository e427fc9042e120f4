"""Quantities of the whole mechanism: mass centre, energies, momentum.

Bodies fixed to the base belong to the base: they do not move and are not counted.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from kinetree.model import Model, Placement, coupled
from kinetree.model.arguments import evaluate
from kinetree.spatial import Force, Inertia, Motion, Vec3
from kinetree.tree import Layout, layout, outward

from .arranged import Arranged, arranged, by_position, row_poses
from .passive import spring_energy
from .poses import VELOCITY
from .schedule import layout_schedule


class Moving(NamedTuple):
    """Every row's inertia, pose and velocity by position, with the cells that hold no row emptied."""

    inertia: Inertia
    pose: Placement
    velocity: Motion | None
    gravity: Vec3


def _moving(laid: Layout, model: Model, q: Any, qd: Any) -> Moving:
    at = arranged(laid, model, q)
    holds = jnp.zeros(laid.positions, q.dtype).at[laid.position_of].set(1)[:, None]
    inertia = jax.tree.map(lambda x: x * holds, at.rows.inertia)
    velocity = None if qd is None else row_velocities(laid, at, by_position(laid, qd))
    return Moving(inertia, row_poses(laid, at), velocity, at.gravity)


def row_velocities(laid: Layout, at: Arranged, qd: Any) -> Motion:
    """Spatial velocity of every position, in its own coordinates."""
    return outward(VELOCITY, laid, (at.placed.transform, at.rows.axis.times(qd)), Motion.zero_like(at.gravity.x))


def _mass_and_moment(m: Moving) -> tuple[Any, Vec3]:
    moment = m.pose.position * m.inertia.mass + m.pose.orientation.turn(m.inertia.h)
    return m.inertia.mass.sum(0), Vec3(*(c.sum(0) for c in moment))


@jax.jit
def center_of_mass_by_batch(laid: Layout, model: Model, q: Any) -> Any:
    mass, moment = _mass_and_moment(_moving(laid, model, q, None))
    return (moment * (1 / mass)).array()


@jax.jit
def _potential_energy(laid: Layout, model: Model, q: Any) -> Any:
    m = _moving(laid, model, q, None)
    falling = -m.gravity.dot(_mass_and_moment(m)[1])
    return falling if model.passive is None else falling + spring_energy(model, q)


@jax.jit
def _kinetic_energy(laid: Layout, model: Model, q: Any, qd: Any) -> Any:
    at = arranged(laid, model, q)
    v = row_velocities(laid, at, by_position(laid, qd))
    twice = v.dot(at.rows.inertia @ v)
    rotors = jnp.asarray(model.rows.armature, q.dtype) * qd**2
    return 0.5 * (twice[laid.position_of].sum(0) + rotors.sum(-1))


@jax.jit
def _momentum(laid: Layout, model: Model, q: Any, qd: Any) -> Any:
    m = _moving(laid, model, q, qd)
    assert m.velocity is not None
    world: Force = m.pose.transform.force_to_parent(m.inertia @ m.velocity)
    return Force(*(Vec3(*(c.sum(0) for c in part)) for part in world)).array()


def _evaluate(function: Any, model: Model, q: Any, qd: Any = None) -> Any:
    laid = layout(model.tree, layout_schedule(model.tree))
    given = {"q": (q, (model.nq,))} | ({} if qd is None else {"qd": (qd, (model.nv,))})
    return evaluate(lambda *states: function(laid, model, *states), **given)


@coupled("unchanged")
def center_of_mass(model: Model, q: Any) -> Any:
    """Centre of mass of the moving bodies, (..., 3), in world coordinates."""
    return _evaluate(center_of_mass_by_batch, model, q)


@coupled("unchanged")
def potential_energy(model: Model, q: Any) -> Any:
    """−m g·c, zero with the centre of mass at the world origin, and ½ k stretch² of the joints' springs."""
    return _evaluate(_potential_energy, model, q)


@coupled("unchanged")
def kinetic_energy(model: Model, q: Any, qd: Any) -> Any:
    """½ Σ v·I v, and ½ armature qd² of the joints' rotors."""
    return _evaluate(_kinetic_energy, model, q, qd)


@coupled("unchanged")
def momentum(model: Model, q: Any, qd: Any) -> Any:
    """Spatial momentum, (..., 6), angular part about the world origin first, in world coordinates."""
    return _evaluate(_momentum, model, q, qd)

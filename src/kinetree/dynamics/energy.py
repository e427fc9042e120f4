"""Quantities of the whole mechanism: mass centre, energies, momentum.

Bodies fixed to the base belong to the base: they do not move and are not counted.
"""

from functools import partial
from typing import Any

import jax.numpy as jnp

from kinetree._types import Array, Float
from kinetree.model import Model, coupled
from kinetree.model.arguments import evaluate_for

from .algorithms.wholes import CENTER_OF_MASS, KINETIC_ENERGY, MOMENTUM, POTENTIAL_ENERGY, POTENTIAL_WITH_SPRINGS
from .directly import directly
from .passive import spring_energy
from .recursion import Algorithm
from .schedules.choose import check_schedule
from .schedules.lane_rows import kind_of
from .schedules.lanes import lane_program_of
from .schedules.run import run


def of_whole(model: Model, algorithm: Algorithm, schedule: str = "auto", **given: Any) -> Any:
    """The one output of an algorithm about the whole mechanism."""
    check_schedule(schedule)
    (name,) = algorithm.outputs

    def compute(*states: Any) -> Any:
        if model.nv == 0:
            (shape,) = lane_program_of(algorithm, model).output_shapes(model)
            return jnp.zeros((len(states[0]), *shape), states[0].dtype)
        return run(algorithm, model, dict(zip(given, states, strict=True)), schedule=schedule)[name]

    return evaluate_for(model, compute, **given)


def _potential_passes(model: Model) -> Algorithm:
    return POTENTIAL_WITH_SPRINGS if kind_of(model).springs else POTENTIAL_ENERGY


@directly(partial(lane_program_of, CENTER_OF_MASS))
@coupled("unchanged")
def center_of_mass(model: Model, q: Float[Array, "... nq"], *, schedule: str = "auto") -> Float[Array, "... 3"]:
    """Centre of mass of the moving bodies, (..., 3), in world coordinates; schedules as of `inverse_dynamics`."""
    return of_whole(model, CENTER_OF_MASS, schedule, q=q)


@directly(lambda model: lane_program_of(_potential_passes(model), model))
@coupled("unchanged")
def potential_energy(model: Model, q: Float[Array, "... nq"], *, schedule: str = "auto") -> Float[Array, "..."]:
    """−m g·c, zero with the centre of mass at the world origin, and ½ k stretch² of the joints' springs."""
    falling = of_whole(model, POTENTIAL_ENERGY, schedule, q=q)
    return falling if model.passive is None else falling + evaluate_for(model, partial(spring_energy, model), q=q)


@directly(partial(lane_program_of, KINETIC_ENERGY))
@coupled("unchanged")
def kinetic_energy(
    model: Model, q: Float[Array, "... nq"], qd: Float[Array, "... nv"], *, schedule: str = "auto"
) -> Float[Array, "..."]:
    """½ Σ v·I v, and ½ armature qd² of the joints' rotors."""
    return of_whole(model, KINETIC_ENERGY, schedule, q=q, qd=qd)


@directly(partial(lane_program_of, MOMENTUM))
@coupled("unchanged")
def momentum(
    model: Model, q: Float[Array, "... nq"], qd: Float[Array, "... nv"], *, schedule: str = "auto"
) -> Float[Array, "... 6"]:
    """Spatial momentum, (..., 6), angular part about the world origin first, in world coordinates."""
    return of_whole(model, MOMENTUM, schedule, q=q, qd=qd)

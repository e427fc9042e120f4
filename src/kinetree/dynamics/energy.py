"""Quantities of the whole mechanism: mass centre, energies, momentum, and the matrices of momentum.

Bodies fixed to the base belong to the base: they do not move and are not counted.

Column i of the centroidal momentum matrix is the momentum of row i's subtree at unit rate, F_i = Iᶜ_i S_i, taken to
the centre of mass (Orin, Goswami & Lee 2013, eq. 27): the linear part over the total mass is the Jacobian of the
centre of mass.
"""

from functools import partial

from kinetree._types import Array, Float
from kinetree.model import Model, coupled
from kinetree.model.arguments import evaluate_for

from .algorithms.wholes import (
    CENTER_OF_MASS,
    CENTROIDAL_MATRIX,
    CENTROIDAL_MOMENTUM,
    COM_JACOBIAN,
    KINETIC_ENERGY,
    MOMENTUM,
    POTENTIAL_ENERGY,
    POTENTIAL_WITH_SPRINGS,
)
from .directly import directly
from .passive import spring_energy
from .recursion import Algorithm
from .schedules.lane_rows import kind_of
from .schedules.lanes import lane_program_of
from .schedules.run import output_of


def _potential_passes(model: Model) -> Algorithm:
    return POTENTIAL_WITH_SPRINGS if kind_of(model).springs else POTENTIAL_ENERGY


@directly(partial(lane_program_of, CENTER_OF_MASS))
@coupled("unchanged")
def center_of_mass(model: Model, q: Float[Array, "... nq"], *, schedule: str = "auto") -> Float[Array, "... 3"]:
    """Centre of mass of the moving bodies, (..., 3), in world coordinates; schedules as of `inverse_dynamics`."""
    return output_of(CENTER_OF_MASS, model, schedule, q=q)


@directly(lambda model: lane_program_of(_potential_passes(model), model))
@coupled("unchanged")
def potential_energy(model: Model, q: Float[Array, "... nq"], *, schedule: str = "auto") -> Float[Array, "..."]:
    """−m g·c, zero with the centre of mass at the world origin, and ½ k stretch² of the joints' springs."""
    falling = output_of(POTENTIAL_ENERGY, model, schedule, q=q)
    return falling if model.passive is None else falling + evaluate_for(model, partial(spring_energy, model), q=q)


@directly(partial(lane_program_of, KINETIC_ENERGY))
@coupled("unchanged")
def kinetic_energy(
    model: Model, q: Float[Array, "... nq"], qd: Float[Array, "... nv"], *, schedule: str = "auto"
) -> Float[Array, "..."]:
    """½ Σ v·I v, and ½ armature qd² of the joints' rotors."""
    return output_of(KINETIC_ENERGY, model, schedule, q=q, qd=qd)


@directly(partial(lane_program_of, MOMENTUM))
@coupled("unchanged")
def momentum(
    model: Model, q: Float[Array, "... nq"], qd: Float[Array, "... nv"], *, schedule: str = "auto"
) -> Float[Array, "... 6"]:
    """Spatial momentum, (..., 6), angular part about the world origin first, in world coordinates."""
    return output_of(MOMENTUM, model, schedule, q=q, qd=qd)


@directly(partial(lane_program_of, CENTROIDAL_MATRIX))
@coupled("force")
def centroidal_momentum_matrix(model: Model, q: Float[Array, "... nq"]) -> Float[Array, "... 6 nv"]:
    """The matrix A with `centroidal_momentum` = A qd.

    Arguments:
        model: the mechanism.
        q: (..., nq).

    Returns:
        A, (..., 6, nv), angular part first, in world axes about the centre of mass.

    Reference: Orin, Goswami & Lee 2013.
    """
    return output_of(CENTROIDAL_MATRIX, model, q=q)


@directly(partial(lane_program_of, CENTROIDAL_MOMENTUM))
@coupled("unchanged")
def centroidal_momentum(model: Model, q: Float[Array, "... nq"], qd: Float[Array, "... nv"]) -> Float[Array, "... 6"]:
    """Momentum of the moving bodies about their centre of mass, (..., 6), angular part first, in world axes."""
    return output_of(CENTROIDAL_MOMENTUM, model, q=q, qd=qd)


@directly(partial(lane_program_of, COM_JACOBIAN))
@coupled("force")
def com_jacobian(model: Model, q: Float[Array, "... nq"]) -> Float[Array, "... 3 nv"]:
    """Jacobian of the centre of mass, (..., 3, nv), in world axes."""
    return output_of(COM_JACOBIAN, model, q=q)

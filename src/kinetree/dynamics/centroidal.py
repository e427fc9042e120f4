"""Momentum about the centre of mass, its matrix, and the Jacobian of the centre of mass.

Column i of the centroidal momentum matrix is the momentum of row i's subtree at unit rate, F_i = Iᶜ_i S_i, taken to
the centre of mass (Orin, Goswami & Lee 2013, eq. 27): the linear part over the total mass is the Jacobian of the
centre of mass.
"""

from functools import partial

from kinetree._types import Array, Float
from kinetree.model import Model, coupled

from .algorithms.wholes import CENTROIDAL_MATRIX, CENTROIDAL_MOMENTUM, COM_JACOBIAN
from .directly import directly
from .energy import of_whole
from .schedules.lanes import lane_program_of


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
    return of_whole(model, CENTROIDAL_MATRIX, q=q)


@directly(partial(lane_program_of, CENTROIDAL_MOMENTUM))
@coupled("unchanged")
def centroidal_momentum(model: Model, q: Float[Array, "... nq"], qd: Float[Array, "... nv"]) -> Float[Array, "... 6"]:
    """Momentum of the moving bodies about their centre of mass, (..., 6), angular part first, in world axes."""
    return of_whole(model, CENTROIDAL_MOMENTUM, q=q, qd=qd)


@directly(partial(lane_program_of, COM_JACOBIAN))
@coupled("force")
def com_jacobian(model: Model, q: Float[Array, "... nq"]) -> Float[Array, "... 3 nv"]:
    """Jacobian of the centre of mass, (..., 3, nv), in world axes."""
    return of_whole(model, COM_JACOBIAN, q=q)

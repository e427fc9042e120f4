"""The drift of free joints: the linear part of their velocity turns with the body."""

from typing import Any

import jax.numpy as jnp

from kinetree.model import Structure
from kinetree.model.configuration import coordinate_columns
from kinetree.spatial import Vec3


def velocity_drift(structure: Structure, qd: Any) -> Any:
    """The drift of free joints, (batch, nv).

    Constraints act on x = qdd + drift, the derivative of velocities whose linear part does not turn with the body.
    """
    at, drift = coordinate_columns(structure), jnp.zeros_like(qd)
    if not at.free.size:
        return drift
    omega, linear = (Vec3(*(qd[:, c] for c in columns)) for columns in (at.omega[:, at.free], at.linear))
    return drift.at[:, at.linear].set(jnp.stack(omega.cross(linear), 1))

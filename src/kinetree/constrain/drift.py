"""The drift of free joints: the linear part of their velocity turns with the body."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from kinetree.model import Structure
from kinetree.spatial import Vec3


def velocity_drift(structure: Structure, qd: Any) -> Any:
    """The drift of free joints, (batch, nv).

    Constraints act on x = qdd + drift, the derivative of velocities whose linear part does not turn with the body.
    """
    free = structure.quaternion_joints
    first = free[free[:, 2] == 1, 0].astype(np.int64)
    drift = jnp.zeros_like(qd)
    if not len(first):
        return drift
    omega, linear = (Vec3(*(qd[:, first + k + j] for j in range(3))) for k in (0, 3))
    for j, x in enumerate(omega.cross(linear)):
        drift = drift.at[:, first + 3 + j].set(x)
    return drift

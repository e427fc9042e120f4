"""Free joints in MuJoCo's integrators: the linear velocity is in world axes, and the position moves straight along it.

In kinetree a free joint's velocity is a twist in body axes, and its position moves on a screw. MuJoCo adds to a linear
velocity in world axes. The two agree only in the limit of small steps. So MuJoCo's integrators are written in
velocities u, which are qd with linear parts in world axes. All functions take (batch, ...) arrays.
"""

from typing import Any

import jax.numpy as jnp

from kinetree.constrain.drift import velocity_drift
from kinetree.model import Model, coupled
from kinetree.model.configuration import coordinate_columns
from kinetree.spatial import Quaternion, Vec3


def _turned(model: Model, q: Any, qd: Any, to_world: bool) -> Any:
    at = coordinate_columns(model.structure)
    if not at.free.size:
        return qd
    here = Quaternion(*(q[:, c] for c in at.quaternion[:, at.free])).normalized()
    linear = Vec3(*(qd[:, c] for c in at.linear))
    turned = here.to_parent(linear) if to_world else here.to_child(linear)
    return qd.at[:, at.linear].set(jnp.stack(turned, 1))


@coupled("velocity")
def to_world(model: Model, q: Any, qd: Any) -> Any:
    """Velocities u from qd: linear parts of free joints in world axes."""
    return _turned(model, q, qd, True)


@coupled("velocity")
def to_body(model: Model, q: Any, qd: Any) -> Any:
    """Velocities qd from u, given as `qd`."""
    return _turned(model, q, qd, False)


@coupled("velocity")
def drift(model: Model, q: Any, qd: Any) -> Any:
    """u̇ − qdd in body axes: ω × v of free joints."""
    return velocity_drift(model.structure, qd)

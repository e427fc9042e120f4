"""Accelerations of a mechanism and the forces of its constraints: the one door between steps and dynamics."""

from typing import Any, NamedTuple

from kinetree.dynamics import forward_dynamics
from kinetree.model import Model


class Accelerated(NamedTuple):
    """What forces do to a mechanism."""

    qdd: Any  # (batch, nv)
    tau: Any  # (batch, nv), the forces that were given and those of the constraints


def constrained(model: Model, q: Any, qd: Any, tau: Any, f_ext: Any, warm_start: Any) -> Accelerated:
    """Accelerations under the forces tau, (batch, nv)."""
    return Accelerated(forward_dynamics(model, q, qd, tau, f_ext), tau)


def is_constrained(model: Model) -> bool:
    """Whether anything but the tree itself constrains the mechanism."""
    return False

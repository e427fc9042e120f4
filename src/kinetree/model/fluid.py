"""A fluid around the mechanism, which drags at its bodies, with MuJoCo's options density and viscosity.

Each body is replaced by the box that has its inertia (MuJoCo documentation, "Fluid forces", inertia model).
"""

from dataclasses import dataclass, field
from typing import Any

import jax


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Fluid:
    """Boxes are given in the frames of the rows that carry them; first axis over boxes."""

    density: Any  # ()
    viscosity: Any  # ()
    wind: Any  # (3,): velocity of the fluid in the world
    position: Any  # (n, 3): of the centres of mass
    orientation: Any  # (n, 4)
    size: Any  # (n, 3): whole lengths
    bodies: tuple[int, ...] = field(metadata={"static": True})

"""Models: bodies, joints and their rows."""

from . import pytree  # noqa: F401 - makes models known to JAX
from .actuators import Actuator, Actuators, Crank, Muscle
from .configuration import difference, home, integrate, neutral, random_state
from .coupling import Coupling, coupled
from .errors import ModelError
from .generate import auto_tree, chain_pieces
from .joints import Fixed, Free, Helical, Joint, Planar, Prismatic, Revolute, Spherical, Translation
from .loops import Loop, Loops
from .model import Model, Structure
from .physics import Limits, Passive
from .pieces import Pieces
from .placed import place_bodies
from .rows import Axis, Placement, Rows, place, relative_motion
from .scaled import scaled
from .sensor import Mount, Sensor, Side
from .shapes import with_ground, with_shapes
from .specialize import specialize
from .state import DEFAULT_STEPPING, Keyframes, State, Stepping, require_state
from .tendons import Pulley, Tendon, Via, Wrap
from .world import Shape, World

__all__ = [
    "DEFAULT_STEPPING",
    "Actuator",
    "Actuators",
    "Axis",
    "Coupling",
    "Crank",
    "Fixed",
    "Free",
    "Helical",
    "Joint",
    "Keyframes",
    "Limits",
    "Loop",
    "Loops",
    "Model",
    "ModelError",
    "Mount",
    "Muscle",
    "Passive",
    "Pieces",
    "Placement",
    "Planar",
    "Prismatic",
    "Pulley",
    "Revolute",
    "Rows",
    "Sensor",
    "Shape",
    "Side",
    "Spherical",
    "State",
    "Stepping",
    "Structure",
    "Tendon",
    "Translation",
    "Via",
    "World",
    "Wrap",
    "auto_tree",
    "chain_pieces",
    "coupled",
    "difference",
    "home",
    "integrate",
    "neutral",
    "place",
    "place_bodies",
    "random_state",
    "relative_motion",
    "require_state",
    "scaled",
    "specialize",
    "with_ground",
    "with_shapes",
]

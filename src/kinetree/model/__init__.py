"""Models: bodies, joints and their rows."""

from .configuration import difference, integrate, neutral, random_state
from .errors import ModelError
from .generate import auto_tree
from .joints import Fixed, Free, Helical, Joint, Planar, Prismatic, Revolute, Spherical, Translation
from .model import Model, Structure
from .rows import Axis, Placement, Rows, place, relative_motion

__all__ = [
    "Axis",
    "Fixed",
    "Free",
    "Helical",
    "Joint",
    "Model",
    "ModelError",
    "Placement",
    "Planar",
    "Prismatic",
    "Revolute",
    "Rows",
    "Spherical",
    "Structure",
    "Translation",
    "auto_tree",
    "difference",
    "integrate",
    "neutral",
    "place",
    "random_state",
    "relative_motion",
]

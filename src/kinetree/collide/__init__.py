"""Narrow-phase collision: from two shapes to their contact points, with MuJoCo's own points, frames and distances."""

from .field import MAX_CELLS, Cell, HeightField, patch_of
from .hull import Hull
from .pairs import COLLIDERS, KINDS, Collider, collider
from .shapes import Contact, Geom
from .support import radius_of_size

__all__ = [
    "COLLIDERS",
    "KINDS",
    "MAX_CELLS",
    "Cell",
    "Collider",
    "Contact",
    "Geom",
    "HeightField",
    "Hull",
    "collider",
    "patch_of",
    "radius_of_size",
]

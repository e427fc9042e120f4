"""Narrow-phase collision: from two shapes to their contact points, with MuJoCo's own points, frames and distances."""

from .hull import Hull
from .pairs import COLLIDERS, KINDS, Collider, collider
from .shapes import Contact, Geom

__all__ = ["COLLIDERS", "KINDS", "Collider", "Contact", "Geom", "Hull", "collider"]

"""Sensors: what a mechanism would measure of itself, as MuJoCo defines it."""

from .contact_forces import contact_forces
from .read import sensors, with_sensors

__all__ = ["contact_forces", "sensors", "with_sensors"]

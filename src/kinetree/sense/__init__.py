"""Sensors of a mechanism, as MuJoCo defines them."""

from .contact_forces import contact_forces
from .read import sensors, with_sensors

__all__ = ["contact_forces", "sensors", "with_sensors"]

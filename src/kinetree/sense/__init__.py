"""Sensors: what a mechanism would measure of itself, as MuJoCo defines it."""

from .read import sensors, with_sensors

__all__ = ["sensors", "with_sensors"]

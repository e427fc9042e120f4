"""Actuators: from controls and activations to generalised forces."""

from .activation import next_activation
from .force import Actuation, activation_rate, actuation

__all__ = ["Actuation", "activation_rate", "actuation", "next_activation"]

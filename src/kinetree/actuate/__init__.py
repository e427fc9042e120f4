"""Actuators at work: from controls and activations to generalised forces."""

from .activation import next_activation
from .force import Actuation, activation_rate, actuation, actuator_force

__all__ = ["Actuation", "actuation", "activation_rate", "actuator_force", "next_activation"]

"""Constraints: contact, joint limits and dry friction, as MuJoCo defines them."""

from .actuated import actuator_force
from .constrained import Constrained, Contacts, constrained_dynamics, constrained_inverse_dynamics, contacts

__all__ = [
    "Constrained",
    "Contacts",
    "actuator_force",
    "constrained_dynamics",
    "constrained_inverse_dynamics",
    "contacts",
]

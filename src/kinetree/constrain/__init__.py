"""Constraints: contact, joint limits and dry friction, as MuJoCo defines them."""

from kinetree.dynamics.loops.forward import offer

from .actuated import actuator_force
from .closed import natively_closed
from .constrained import Constrained, constrained_dynamics
from .inverse import constrained_inverse_dynamics
from .touch import Contacts, contacts

offer(natively_closed)

__all__ = [
    "Constrained",
    "Contacts",
    "actuator_force",
    "constrained_dynamics",
    "constrained_inverse_dynamics",
    "contacts",
]

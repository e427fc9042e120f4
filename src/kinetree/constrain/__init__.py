"""Constraints: contact, joint limits and dry friction, as MuJoCo defines them."""

from .constrained import Constrained, Contacts, constrained_dynamics, constrained_inverse_dynamics, contacts

__all__ = ["Constrained", "Contacts", "constrained_dynamics", "constrained_inverse_dynamics", "contacts"]

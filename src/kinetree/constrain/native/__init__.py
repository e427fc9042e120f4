"""The native body of constrained dynamics: one lane program, from a state to accelerations."""

from .features import not_served
from .plan import Plan
from .solve import Solved, solve

__all__ = ["Plan", "Solved", "not_served", "solve"]

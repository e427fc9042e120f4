"""The native body of constrained dynamics: one lane program, from a state to accelerations."""

from .features import not_served
from .plan import Plan
from .solve import Solved, Solver, solver_of

__all__ = ["Plan", "Solved", "Solver", "not_served", "solver_of"]

"""The native body of constrained dynamics: lane programs, from a state to accelerations, forces or contacts."""

from .features import not_known, not_served
from .plan import Plan
from .programs import Goal
from .solve import Solved, Solver, solver_of

__all__ = ["Goal", "Plan", "Solved", "Solver", "not_known", "not_served", "solver_of"]

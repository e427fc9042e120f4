"""Moving a mechanism through time: integrators, controllers, runs and their results."""

from . import controllers
from .advance import advance, initial_state
from .errors import SimulationError
from .integrators import INTEGRATORS, step
from .run import simulate
from .trajectory import Trajectory

__all__ = [
    "INTEGRATORS",
    "SimulationError",
    "Trajectory",
    "advance",
    "controllers",
    "initial_state",
    "simulate",
    "step",
]

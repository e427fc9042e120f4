"""Moving a mechanism through time: integrators, controllers, runs and their results."""

from . import controllers
from .advance import STEPS, advance, initial_state, step
from .errors import SimulationError
from .explain import explain
from .rollout import rollout
from .run import simulate
from .trajectory import Trajectory

__all__ = [
    "STEPS",
    "SimulationError",
    "Trajectory",
    "advance",
    "controllers",
    "explain",
    "initial_state",
    "rollout",
    "simulate",
    "step",
]

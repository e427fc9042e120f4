"""Learning: policies by proximal policy optimisation, in plain JAX."""

from .evaluate import Score, evaluate
from .networks import Policy
from .optimise import Adam, adam_start, adam_step
from .ppo import Report, Settings, train

__all__ = ["Adam", "Policy", "Report", "Score", "Settings", "adam_start", "adam_step", "evaluate", "train"]

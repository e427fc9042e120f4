"""What every public function of a model asks first."""

from typing import Any

import numpy as np

MAX_STEPS = 2**24  # steps in one call; native programs count them down in float32


def require_model(model: Any) -> None:
    """Refuse what is no model, such as the path of a file."""
    if not hasattr(model, "structure"):
        raise TypeError(f"model must be a kinetree.Model, such as kinetree.load makes, not a {type(model).__name__}")


def require_steps(name: str, count: Any) -> None:
    """Refuse what is no number of steps, or more than can be counted."""
    if not (isinstance(count, int | np.integer) and count >= 0):
        raise ValueError(f"{name} must be a number of steps, not {count!r}")
    if count > MAX_STEPS:
        raise ValueError(
            f"{name} must be at most {MAX_STEPS} in one call, not {count!r}; call again with the new state"
        )

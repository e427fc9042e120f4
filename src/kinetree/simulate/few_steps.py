"""A rollout of few steps of few worlds: one step after the other, by the builtin that `advance` has for them.

To prepare one native call for all steps takes longer than some hundred steps of a small robot.
"""

import math
from typing import Any

import numpy as np

from kinetree.model import Model, State

from .native import step_builtin

MAX_STEPS = 128  # steps of all worlds together; more go in one call [rollouts]


def few_steps(
    model: Model, state: State, controls: Any, f_ext: Any, steps: int, settings: dict[str, Any], record: Any
) -> tuple[State, Any] | None:
    """The state after the steps, and records; None where another way serves.

    Arguments:
        model: the mechanism.
        state: where it starts.
        controls: (steps, ..., nu), or None.
        f_ext: (..., n_bodies, 6), or None.
        steps: how many control steps.
        settings: of `advance`.
        record: names of what is kept of every control step, or None.
    """
    builtin = step_builtin(model)
    lanes = math.prod(state.batch)
    if builtin is None or not 0 < steps * lanes <= MAX_STEPS:
        return None
    batch, seen = state.batch, []
    for k in range(steps):
        seen.append(state)
        after = builtin(state, None if controls is None else controls[k], f_ext, **settings)
        if after is None or after.batch != batch:
            return None
        state = after
    ctrl = np.zeros((steps, *batch, model.nu)) if controls is None else np.array(controls)
    others = {"ctrl": ctrl, "done": np.zeros((steps, *batch), bool)}
    names = None if record is None else {n: others[n] if n in others else _together(seen, n) for n in record}
    return state, names


def _together(states: list[State], name: str) -> np.ndarray:
    return np.stack([getattr(s, name) for s in states])

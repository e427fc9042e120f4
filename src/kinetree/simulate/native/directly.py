"""Plain calls of `advance`: NumPy arrays of one type, controls given. A builtin makes the steps, found by one lookup.

The first call of a kind goes the long way (advance.py), which checks all arguments and leaves the builtin with the
model. The builtin refuses whatever is not plain, and such calls go the long way, too.
"""

from typing import Any, NamedTuple

import jax
import numpy as np

from kinetree.model import Model, State

from .step import Stepper

KEPT = "_direct_steps"  # beside the fields of a model, so that no copy with other numbers has it
MAX_KEPT = 64  # builtins of a model


class Direct(NamedTuple):
    """A builtin, and what its output means."""

    call: Any
    stepper: Stepper
    stateful: bool
    driven: bool


def keep_direct(model: Model, stepper: Stepper, key: tuple, like: Any) -> None:
    """Leave the builtin of a kind of calls with the model."""
    dt, count, _ = key
    if not isinstance(like, np.ndarray) or stepper.variant.external or not (dt is None or type(dt) is float):
        return
    kept = model.__dict__.setdefault(KEPT, {})
    if (*key, like.dtype) in kept or len(kept) >= MAX_KEPT:
        return
    call = stepper.direct(like.dtype, count)
    if call is not None:
        v = stepper.variant
        kept[*key, like.dtype] = Direct(call, stepper, v.stateful, "ctrl" in v.inputs)


def directly(
    model: Model, state: State, ctrl: Any, f_ext: Any, dt: Any, substeps: Any, integrator: str | None
) -> State | None:
    """The state after the steps, or None where the long way has to be taken."""
    kept, q = model.__dict__.get(KEPT), state.q
    if kept is None or f_ext is not None or type(q) is not np.ndarray or jax.config.jax_disable_jit:  # type: ignore[attr-defined]
        return None
    try:
        found = kept.get((dt, substeps, integrator, q.dtype))
    except TypeError:  # an argument that can not be hashed
        return None
    if found is None or type(state.time) is not np.ndarray or (ctrl is None and found.driven):
        return None
    given = (q, state.qd, state.warm_start, state.time.reshape(*state.time.shape, 1))
    whole = found.call(*given, *((ctrl,) if found.driven else ()), *((state.act,) if found.stateful else ()))
    return None if whole is None else found.stepper.split(whole, state.act)

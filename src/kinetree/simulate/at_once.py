"""A rollout by one native call, if all controls are known and nothing else happens between the steps."""

import math
from typing import Any

import jax
import numpy as np

from kinetree.model import State
from kinetree.model.arguments import is_traced
from kinetree.model.state import STATE_AXES

from .native import Stepper, can_roll, rolled


def at_once(
    stepper: Stepper, state: State, controls: Any, f_ext: Any, steps: int, substeps: int, record: Any, dtype: Any
) -> tuple[State, Any] | None:
    """The state after the steps, and records; None if XLA must compute: for traced arrays, or other devices.

    Arguments:
        stepper: the native program, bound to a model.
        state: where it starts.
        controls: (steps, ..., nu), or a function that gives none.
        f_ext: (..., n_bodies, 6), or None.
        steps, substeps: how many control steps, and steps to each.
        record: names of what is kept of every control step, or None.
        dtype: of the results.
    """
    given = None if callable(controls) else controls
    arrays = [x for x in (*jax.tree.leaves(state), given, f_ext) if x is not None]
    of_jax = [x for x in arrays if isinstance(x, jax.Array)]
    if steps == 0 or is_traced(arrays, stepper):
        return None
    devices = {d for x in of_jax for d in x.devices()}
    if len(devices) > 1 or any(d.platform != "cpu" for d in devices) or jax.config.jax_disable_jit:  # type: ignore[attr-defined]
        return None
    batches = state.batches + ([] if given is None else [np.shape(given)[1:-1]])
    batches += [] if f_ext is None else [np.shape(f_ext)[:-2]]
    batch = np.broadcast_shapes(*batches)
    lanes = math.prod(batch)
    if lanes == 0 or not can_roll(stepper, dtype, lanes * steps * substeps):
        return None

    def in_lanes(x: Any, n: int, first: tuple[int, ...] = ()) -> np.ndarray:
        """An array with all lanes; n axes come after those of the batch, and `first` ones before."""
        x = np.asarray(x, dtype)
        own, rest = x.shape[len(first) : x.ndim - n], x.shape[x.ndim - n :]
        x = x.reshape((*first, *(1,) * (len(batch) - len(own)), *own, *rest))
        return np.broadcast_to(x, (*first, *batch, *rest)).reshape((*first, lanes, *rest))

    ctrl = np.zeros((steps, lanes, stepper.plan.nu), dtype) if given is None else in_lanes(given, 1, (steps,))
    pushed = None if f_ext is None else in_lanes(f_ext, 2)
    end = State(**{name: in_lanes(getattr(state, name), n) for name, n in STATE_AXES.items()})
    seen: list[dict[str, Any]] = []
    for piece in rolled(stepper, end, ctrl, pushed, steps, substeps):
        end = piece.after
        seen.append({name: getattr(piece.before, name) for name in record or () if name in STATE_AXES})

    def whole(name: str) -> Any:
        if name not in STATE_AXES:
            none = np.zeros((steps, *batch, *ctrl.shape[2:]), dtype)
            return np.zeros((steps, *batch), bool) if name == "done" else none if given is None else np.array(given)
        x = seen[0][name] if len(seen) == 1 else np.concatenate([x[name] for x in seen])
        return x.reshape((steps, *batch, *x.shape[2:]))

    records = None if record is None else {name: whole(name) for name in record}
    result = jax.tree.map(lambda x: x.reshape((*batch, *x.shape[1:])), end), records
    return jax.tree.map(jax.numpy.asarray, result) if of_jax else result

"""Plain calls of `advance`: NumPy arrays of one type. A builtin makes the steps, found by one lookup.

The first call of a kind takes the ordinary path (advance.py), which checks all arguments and stores the builtin in the
model. The builtin refuses calls that are not plain, and these take the ordinary path, too.

Calls on float64 and few lanes enter no Python function: machine code takes the fields of the state, and makes the next
one (lanes/cpu/fields.py), with the program for the facts of the call (lanes/cpu/chooser.py).
"""

import math
from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from kinetree.lanes.cpu.chooser import chooser
from kinetree.lanes.cpu.fields import COLUMNS, MATRIX, SCALAR, Input, ResultField, over_fields
from kinetree.lanes.cpu.front import before_all
from kinetree.model import Model, State

from .stepper import Stepper

F = TypeVar("F", bound=Callable[..., Any])
KEPT = "_direct_steps"  # beside the fields of a model, so that no copy with other numbers has it
AT_ONCE = (
    "_advance",
    "_advances",
)  # likewise: a builtin that takes the arguments of `advance`, and those it chooses from
PARAMETERS = ("state", "ctrl", "f_ext", "dt", "substeps", "integrator")  # of `advance`, after the model
USUAL = (None, None, None, 1, None)  # of those, after the state
ARRAYS = 3  # of them are no facts
MAX_KEPT = 64  # builtins of a model
# steps in all lanes; a call of more has a builtin of its own, perhaps of a program written out for the model
OWN_BUILTIN_MIN_STEPS = 4096


class Direct(NamedTuple):
    """A builtin, and the parts of its output."""

    call: Any
    stepper: Stepper
    moving: Callable[[State], tuple]  # coordinates and velocities, and the first guess where there is one
    stateful: bool
    still: np.ndarray | None  # controls of zero, where there are controls
    pushed: tuple[int, int] | None  # the shape of forces on bodies, where there are some
    guessing: bool


def keep_direct(model: Model, stepper: Stepper, key: tuple, like: Any) -> None:
    """Store the builtin of a kind of calls in the model."""
    dt, count, integrator = key
    large = len(like) * count >= OWN_BUILTIN_MIN_STEPS
    if not isinstance(like, np.ndarray) or not (dt is None or type(dt) is float):
        return
    kept = model.__dict__.setdefault(KEPT, {})
    v = stepper.variant
    key = *key, like.dtype, large, v.external
    if key in kept or len(kept) >= MAX_KEPT:
        return
    call = stepper.direct(like.dtype, count, len(like))
    if call is not None:
        guessing = "warm_start" in v.inputs
        moving = attrgetter("q", "qd", *(("warm_start",) if guessing else ()))
        still = np.zeros(model.nu, like.dtype) if "ctrl" in v.inputs else None
        pushed = (model.n_bodies, 6) if v.external else None
        kept[key] = Direct(call, stepper, moving, v.stateful, still, pushed, guessing)
        if like.dtype == np.float64 and not large:
            _keep_at_once(model, (dt, count, integrator, v.external), kept[key], OWN_BUILTIN_MIN_STEPS // max(1, count))


def at_once(function: F) -> F:
    """`advance` behind the builtin that a model keeps for it."""
    return before_all(function, AT_ONCE[0])  # type: ignore[return-value]


def step_builtin(model: Model) -> Any:
    """The builtin that a model keeps for `advance`, if any. It returns None for calls that are not plain."""
    return model.__dict__.get(AT_ONCE[0])


def _keep_at_once(model: Model, key: tuple, found: Direct, most: int) -> None:
    """Leave with the model what needs no Python function around the builtin of a kind of calls."""
    stepper, nu = found.stepper, model.nu
    width, still = stepper.widths, np.zeros(nu)
    sources = {name: Input(name, 0, None, COLUMNS, width[name]) for name in ("q", "qd", "warm_start", "act")}
    sources |= {"time": Input("time", 0, None, SCALAR, 1), "ctrl": Input(None, 1, still, COLUMNS, nu)}
    sources["f_ext"] = Input(None, 2, None, MATRIX, width["f_ext"])
    inputs = [sources[name] for name in stepper.variant.inputs]
    # Inputs that the program does not read are still checked.
    inputs += [
        x._replace(passed=False) for name, x in sources.items() if name not in (*stepper.variant.inputs, "f_ext")
    ]
    parts = [
        ResultField(name, at if isinstance(at, int) else at.start, -1 if isinstance(at, int) else at.stop - at.start)
        for name, at in stepper.columns.items()
    ]
    kept = [name for name in State.__dataclass_fields__ if name not in stepper.columns]
    call = over_fields(found.call, State, inputs, parts, kept, stepper.width, max(1, most - 1))
    if call is None:
        return
    place, table_place = AT_ONCE
    table = model.__dict__.setdefault(table_place, {})
    table[key] = call
    if place not in model.__dict__:
        choose = chooser(table, PARAMETERS, USUAL, ARRAYS, ARRAYS)
        if choose is not None:
            model.__dict__[place] = choose


def directly(
    model: Model, state: State, ctrl: Any, f_ext: Any, dt: Any, substeps: Any, integrator: str | None
) -> State | None:
    """The state after the steps, or None if the call must take the ordinary path."""
    kept, q = getattr(model, KEPT, None), state.q
    if kept is None or type(q) is not np.ndarray or jax.config.jax_disable_jit:  # type: ignore[attr-defined]
        return None
    try:
        large = q.ndim > 1 and len(q) * substeps >= OWN_BUILTIN_MIN_STEPS
        found = kept.get((dt, substeps, integrator, q.dtype, large, f_ext is not None))
    except TypeError:  # an argument that can not be hashed
        return None
    if found is None or type(state.time) is not np.ndarray or (found.still is None and ctrl is not None):
        return None
    if not found.guessing and getattr(state.warm_start, "shape", None) != state.qd.shape:  # it is passed on as it is
        return None
    given = (*found.moving(state), state.time[..., None])
    if found.still is not None:
        given += (found.still if ctrl is None else ctrl,)
    if found.stateful:
        given += (state.act,)
    if found.pushed is not None:
        if type(f_ext) is not np.ndarray or f_ext.shape[-2:] != found.pushed:
            return None
        given += (f_ext.reshape(*f_ext.shape[:-2], math.prod(found.pushed)),)
    if q.ndim > 1:
        given = tuple(_for_all(x, q) for x in given)
    whole = found.call(*given)
    return None if whole is None else found.stepper.split(whole, state)


def _for_all(x: Any, like: np.ndarray) -> Any:
    """An array with a row for each lane; a single row of controls is repeated."""
    return np.broadcast_to(x, (len(like), len(x))) if type(x) is np.ndarray and x.ndim == 1 else x

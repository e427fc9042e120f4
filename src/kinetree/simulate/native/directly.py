"""Plain calls of `advance`: NumPy arrays of one type. A builtin makes the steps, found by one lookup.

The first call of a kind takes the ordinary path (advance.py), which checks all arguments and stores the builtin in the
model. From then on plain calls enter no Python function: machine code takes the fields of the state, and makes the next
one (lanes/cpu/fields.py), with the program for the facts of the call (lanes/cpu/chooser.py). The builtin refuses calls
that are not plain, and these take the ordinary path.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from kinetree.lanes.cpu.chooser import chooser
from kinetree.lanes.cpu.fields import COLUMNS, MATRIX, SCALAR, Input, ResultField, over_fields
from kinetree.lanes.cpu.front import before_all
from kinetree.model import Model, State

from .stepper import Stepper

F = TypeVar("F", bound=Callable[..., Any])
# Beside the fields of a model, so that no copy with other numbers has them: the builtin that takes the arguments of
# `advance`, those that it chooses from, and the same by the type of numbers.
AT_ONCE = "_advance"
BY_FACTS = "_advances"
BY_TYPE = "_direct_steps"
PARAMETERS = ("state", "ctrl", "f_ext", "dt", "substeps", "integrator")  # of `advance`, after the model
USUAL = (None, None, None, 1, None)  # of those, after the state
ARRAYS = 3  # of them are no facts
MAX_KEPT = 64  # builtins of a model
# steps in all lanes; a call of more has a builtin of its own, perhaps of a program written out for the model
OWN_BUILTIN_MIN_STEPS = 4096
ANY_LANES = 1 << 62


class Direct(NamedTuple):
    """A builtin for one type of numbers, and the most lanes that it takes."""

    call: Any
    most: int


def keep_direct(model: Model, stepper: Stepper, key: tuple, like: Any) -> None:
    """Store the builtin of a kind of calls in the model."""
    dt, count, _ = key
    large = len(like) * count >= OWN_BUILTIN_MIN_STEPS
    if not isinstance(like, np.ndarray) or not (dt is None or type(dt) is float):
        return
    kept = model.__dict__.setdefault(BY_TYPE, {})
    facts = *key, stepper.variant.external
    own = kept.setdefault(facts, {}) if facts in kept or len(kept) < MAX_KEPT else None
    if own is None or (like.dtype in own and (own[like.dtype].most == ANY_LANES or not large)):
        return
    call = stepper.direct(like.dtype, count, len(like))
    if call is None:
        return
    others = next((x.call for dtype, x in own.items() if dtype != like.dtype), None)
    most = ANY_LANES if large else max(1, OWN_BUILTIN_MIN_STEPS // max(1, count) - 1)
    whole = _over_states(model, stepper, like.dtype, call, most, others)
    if whole is None:
        return
    own[like.dtype] = Direct(whole, most)
    table = model.__dict__.setdefault(BY_FACTS, {})
    table[facts] = whole
    if AT_ONCE not in model.__dict__:
        choose = chooser(table, PARAMETERS, USUAL, ARRAYS, ARRAYS)
        if choose is not None:
            model.__dict__[AT_ONCE] = choose


def at_once(function: F) -> F:
    """`advance` behind the builtin that a model keeps for it."""
    return before_all(function, AT_ONCE)  # type: ignore[return-value]


def step_builtin(model: Model) -> Any:
    """The builtin that a model keeps for `advance`, if any. It returns None for calls that are not plain."""
    return model.__dict__.get(AT_ONCE)


def _over_states(model: Model, stepper: Stepper, dtype: np.dtype, call: Any, most: int, others: Any) -> Any:
    """The builtin on states around that of a program; None if there is none."""
    nu, width = model.nu, stepper.widths
    sources = {name: Input(name, 0, None, COLUMNS, width[name]) for name in ("q", "qd", "warm_start", "act")}
    sources |= {"time": Input("time", 0, None, SCALAR, 1)}
    sources |= {"ctrl": Input(None, 1, np.zeros(nu, dtype), COLUMNS, nu)}
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
    return over_fields(call, dtype, State, inputs, parts, kept, stepper.width, most, others)

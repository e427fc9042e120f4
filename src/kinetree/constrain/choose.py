"""The one place that decides which body solves for constraints: the native one, or XLA's."""

from typing import Any, NamedTuple

import numpy as np

from kinetree.lanes import native_enabled
from kinetree.lanes.kept.once import OncePerOwner
from kinetree.model import Model
from kinetree.model.arguments import is_known

from .native import Plan, Solver, not_served, solver_of
from .problem import MAX_ROWS
from .traced import in_numpy, not_bound

DTYPES = ("float32", "float64")
UNKNOWN = "which the native body does not know"


class Way(NamedTuple):
    """How constraints are solved for, or steps are made; `plan` is there where the native body serves."""

    plan: Any
    reason: str

    @property
    def body(self) -> str:
        """Which body serves: "native" or "xla", as in a `Choice`."""
        return "xla" if self.plan is None else "native"

    def __str__(self) -> str:
        return f"{'native lanes' if self.plan is not None else 'XLA'}: {self.reason}"


def refused(model: Model, dtype: Any) -> str:
    """Why the native body serves no call with such a model and type; empty where it may."""
    if not native_enabled():
        return "native bodies are switched off"
    if np.dtype(dtype).name not in DTYPES:
        return f"numbers are of type {np.dtype(dtype).name}"
    if model.loops is not None:
        return f"rigid loops, {UNKNOWN}"
    if model.nv > MAX_ROWS:
        return f"more than {MAX_ROWS} degrees of freedom: the tree is walked as a whole"
    return not_bound(model)


_ways: OncePerOwner[Way] = OncePerOwner()


def way_of(model: Model, dtype: Any = float) -> Way:
    """How the constraints of a model are solved for, in a type."""
    model = in_numpy(model)
    reason = refused(model, dtype)
    if not reason and model.coupling is not None:
        reason = f"mimic joints couple joints, {UNKNOWN}"
    if reason:
        return Way(None, reason)
    return _ways.get(model, None, lambda: _found(model)) if is_known(model) else _found(model)


def _found(model: Model) -> Way:
    plan = Plan(model)
    reason = not_served(model, plan)
    return Way(None, f"{reason}, {UNKNOWN}") if reason else Way(plan, "a lane to a world, each until it is done")


def solver_for(model: Model, dtype: Any, h: Any, external: bool, warm: bool, forces: bool = False) -> Solver | None:
    """The native program of a call, bound to a model; None where XLA serves. `forces`: those of contacts, too."""
    model = in_numpy(model)
    plan = way_of(model, dtype).plan
    return None if plan is None else solver_of(model, plan, dtype, h, external, warm, forces)

"""The one place that decides which body solves for constraints: the native one, or XLA's."""

from typing import Any, NamedTuple

import jax
import numpy as np

from kinetree.lanes import native_enabled
from kinetree.lanes.kept.once import OncePerOwner
from kinetree.model import Model

from .native import Plan, Solver, not_served, solver_of

MAX_ROWS = 1000  # Larger trees go by levels: a lane walks all rows one after the other.
DTYPES = ("float32", "float64")


class Way(NamedTuple):
    """How constraints are solved for; `plan` is there where the native body serves."""

    plan: Plan | None
    reason: str

    def __str__(self) -> str:
        return f"{'native lanes' if self.plan is not None else 'XLA'}: {self.reason}"


_ways: OncePerOwner[Way] = OncePerOwner()


def way_of(model: Model) -> Way:
    """How the constraints of a model are solved for."""
    if not native_enabled():
        return Way(None, "native bodies are switched off")
    if not all(isinstance(x, np.ndarray) for x in jax.tree.leaves(model)):
        return Way(None, "numbers of the model are JAX arrays, which may be traced")
    return _ways.get(model, None, lambda: _found(model))


def _found(model: Model) -> Way:
    if model.coupling is not None:
        return Way(None, "mimic joints couple joints, which the native body does not know")
    if model.loops is not None:
        return Way(None, "rigid loops, which the native body does not know")
    if model.nv > MAX_ROWS:
        return Way(None, f"more than {MAX_ROWS} degrees of freedom: levels of the tree side by side")
    plan = Plan(model)
    reason = not_served(model, plan)
    if reason:
        return Way(None, f"{reason}, which the native body does not know")
    return Way(plan, "a lane to a world, each until it is done")


def solver_for(model: Model, dtype: Any, h: Any, external: bool, warm: bool, forces: bool = False) -> Solver | None:
    """The native program of a call, bound to a model; None where XLA serves. `forces`: those of contacts, too."""
    if np.dtype(dtype).name not in DTYPES or isinstance(h, jax.Array):
        return None
    plan = way_of(model).plan
    return None if plan is None else solver_of(model, plan, dtype, float(h), external, warm, forces)

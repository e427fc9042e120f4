"""The only place that decides who solves for constraints: native code or XLA."""

from typing import Any, NamedTuple

import numpy as np

from kinetree.lanes import native_enabled
from kinetree.lanes.kept.once import OncePerOwner
from kinetree.model import Model
from kinetree.model.arguments import is_known

from .native import Goal, Plan, Solver, not_known, not_served, solver_of
from .problem import MAX_ROWS, has_crowd
from .traced import in_numpy, not_bound

DTYPES = ("float32", "float64")
UNKNOWN = "which the native body does not know"


class Way(NamedTuple):
    """How constraints are solved for, or steps are made. `plan` is given if native code serves."""

    plan: Any
    reason: str

    @property
    def body(self) -> str:
        """As in a `Choice`: "native" or "xla"."""
        return "xla" if self.plan is None else "native"

    def __str__(self) -> str:
        return f"{'native lanes' if self.plan is not None else 'XLA'}: {self.reason}"


def refused(model: Model, dtype: Any) -> str:
    """The reason why native code can not serve this model and type; empty if it can."""
    if not native_enabled():
        return "native bodies are switched off"
    if np.dtype(dtype).name not in DTYPES:
        return f"numbers are of type {np.dtype(dtype).name}"
    if has_crowd(model):
        return f"pairs of shapes that are found in each state, {UNKNOWN}"
    if model.nv > MAX_ROWS:
        return f"more than {MAX_ROWS} degrees of freedom: the tree is walked as a whole"
    return not_bound(model)


_ways: OncePerOwner[Way] = OncePerOwner()


def way_of(model: Model, dtype: Any = float, goal: Goal = Goal.DYNAMICS) -> Way:
    """How a question about the constraints of a model is answered, for a dtype."""
    model = in_numpy(model)
    reason = refused(model, dtype)
    if reason:
        return Way(None, reason)
    return _ways.get(model, goal, lambda: _found(model, goal)) if is_known(model) else _found(model, goal)


def _found(model: Model, goal: Goal) -> Way:
    plan, reason = Plan(model), ""
    if goal is Goal.DYNAMICS:
        reason = not_served(model, plan)
    elif goal is Goal.FORCES:
        reason = not_known(model, plan)
    elif not plan.touches:
        return Way(None, "nothing can touch, so lists are empty")
    if reason:
        return Way(None, f"{reason}, {UNKNOWN}")
    return Way(plan, "a lane to a world, each until it is done" if goal is Goal.DYNAMICS else "a lane to a world")


def solver_for(model: Model, dtype: Any, h: Any, **asked: Any) -> Solver | None:
    """The native program of a call, bound to a model; None if XLA serves. `asked`: fields of `ConstraintVariant`."""
    model = in_numpy(model)
    plan = way_of(model, dtype, asked.get("goal", Goal.DYNAMICS)).plan
    return None if plan is None else solver_of(model, plan, dtype, h, **asked)


def native_for(model: Model, dtype: Any, **asked: Any) -> tuple[Way, Solver | None]:
    """How a question is answered, and the native program, if any. If numbers are traced, it has derivatives."""
    if not (is_known(model) and native_enabled()):
        return _native_for(model, dtype, asked)
    return _natives.get(model, (dtype, *asked.items()), lambda: _native_for(model, dtype, asked))


_natives: OncePerOwner[tuple[Way, Solver | None]] = OncePerOwner()


def _native_for(model: Model, dtype: Any, asked: dict[str, Any]) -> tuple[Way, Solver | None]:
    way = way_of(model, dtype, asked.get("goal", Goal.DYNAMICS))
    solver = None if way.plan is None else solver_for(model, dtype, model.timestep, **asked)
    if solver is not None and not (solver.differentiable or is_known(in_numpy(model))):
        return Way(None, "derivatives by numbers that are traced"), None
    return way, solver

"""The one place that decides which body makes steps: the native one, or XLA's."""

from typing import Any, NamedTuple

import jax
import numpy as np

from kinetree.constrain.choose import DTYPES, MAX_ROWS, solver_for
from kinetree.constrain.native import Solver
from kinetree.lanes import native_enabled
from kinetree.lanes.kept.once import OncePerOwner
from kinetree.model import Model

from .plan import StepPlan
from .step import not_served
from .stepper import Stepper, stepper_of


class StepWay(NamedTuple):
    """How steps are made; `plan` is there where the native body serves."""

    plan: StepPlan | None
    reason: str

    def __str__(self) -> str:
        return f"{'native lanes' if self.plan is not None else 'XLA'}: {self.reason}"


_ways: OncePerOwner[StepWay] = OncePerOwner()


def way_of_step(model: Model, integrator: str) -> StepWay:
    """How a model makes steps."""
    if not native_enabled():
        return StepWay(None, "native bodies are switched off")
    if not all(isinstance(x, np.ndarray) for x in jax.tree.leaves(model)):
        return StepWay(None, "numbers of the model are JAX arrays, which may be traced")

    def find() -> StepWay:
        if model.coupling is not None:
            return StepWay(None, "mimic joints couple joints, which the native body does not know")
        if model.loops is not None:
            return StepWay(None, "rigid loops, which the native body does not know")
        if model.nv > MAX_ROWS:
            return StepWay(None, f"more than {MAX_ROWS} degrees of freedom: levels of the tree side by side")
        plan = StepPlan(model, integrator)
        reason = not_served(model, plan, integrator)
        if reason:
            return StepWay(None, f"{reason}, which the native body does not know")
        return StepWay(plan, "a lane to a world, whole steps")

    return _ways.get(model, integrator, find)


class Bound(NamedTuple):
    """Programs that were bound to the numbers of a model before it was traced: for whole steps, or for constraints."""

    stepper: Stepper | None
    solver: Solver | None


BOUND = "_bound"  # where a model that is being traced has them


def bound_to(model: Model, integrator: str, dtype: Any, h: Any, external: bool) -> Bound:
    """The programs of a call."""
    stepper = stepper_for(model, integrator, dtype, h, external)
    return Bound(stepper, None if stepper is not None else step_solver(model, dtype, h, external))


def with_bound(model: Model, bound: Bound) -> Model:
    """A model that is being traced, with the programs that were bound to its numbers before."""
    model.__dict__[BOUND] = bound
    return model


def step_solver(model: Model, dtype: Any, h: Any, external: bool) -> Solver | None:
    """The native program for constraints, within steps that XLA makes; None where XLA solves them, too."""
    if BOUND in model.__dict__:
        return model.__dict__[BOUND].solver
    return solver_for(model, dtype, h, external, True)


_steppers: OncePerOwner[Stepper] = OncePerOwner()


def stepper_for(
    model: Model, integrator: str, dtype: Any, h: Any, external: bool, forced: bool = False
) -> Stepper | None:
    """The native program of a call, bound to a model; None where XLA serves."""
    if BOUND in model.__dict__:
        return model.__dict__[BOUND].stepper
    if np.dtype(dtype).name not in DTYPES or isinstance(h, jax.Array):
        return None
    key = integrator, np.dtype(dtype).name, float(h), external, forced
    plan = way_of_step(model, integrator).plan
    if plan is None:
        return None
    return _steppers.get(model, key, lambda: stepper_of(model, plan, integrator, dtype, key[2], external, forced))

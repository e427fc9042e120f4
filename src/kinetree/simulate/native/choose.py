"""The only place that decides who makes steps: native code or XLA."""

from typing import Any, NamedTuple

import numpy as np

from kinetree.constrain.choose import UNKNOWN, Way, refused, solver_for
from kinetree.constrain.native import Solver
from kinetree.constrain.traced import in_numpy
from kinetree.lanes.kept.once import OncePerOwner
from kinetree.lanes.target import facts
from kinetree.model import Model
from kinetree.model.arguments import is_known, is_traced

from .plan import StepPlan
from .step import not_served
from .stepper import Stepper, stepper_of

_ways: OncePerOwner[Way] = OncePerOwner()


def way_of_step(model: Model, integrator: str, dtype: Any = float) -> Way:
    """How a model makes steps, for a dtype."""
    if BOUND in model.__dict__:
        stepper = model.__dict__[BOUND].stepper
        return Way(None if stepper is None else stepper.plan, "decided before the model was traced")
    model = in_numpy(model)
    reason = refused(model, dtype)

    def find() -> Way:
        plan = StepPlan(model, integrator)
        reason = not_served(model, plan, integrator)
        return Way(None, f"{reason}, {UNKNOWN}") if reason else Way(plan, "a lane to a world, whole steps")

    if reason:
        return Way(None, reason)
    return _ways.get(model, integrator, find) if is_known(model) else find()


def way_of_rollout(model: Model, integrator: str, dtype: Any = float, traced: bool = False) -> Way:
    """How a rollout with known controls is made: all steps in one native call, or one after the other in a loop."""
    step = way_of_step(model, integrator, dtype)
    if step.plan is None or traced or not facts().serves_numpy:
        return step
    return Way(step.plan, "a lane to a world, all steps in one call (a few steps one by one)")


class BoundPrograms(NamedTuple):
    """Programs that were bound to the numbers of a model before it was traced: for whole steps, or for constraints.

    Both are given if derivatives of a step are made from those of the accelerations inside it.
    """

    stepper: Stepper | None
    solver: Solver | None


BOUND = "_bound"  # the attribute of a traced model with these programs


def bound_to(model: Model, integrator: str, dtype: Any, h: Any, external: bool) -> BoundPrograms:
    """The programs of a call."""
    stepper = stepper_for(model, integrator, dtype, h, external)
    whole = stepper is not None and stepper.differentiable
    return BoundPrograms(stepper, None if whole else step_solver(model, dtype, h, external))


def with_bound(model: Model, bound: BoundPrograms) -> Model:
    """A traced model, with the programs that were bound to its numbers earlier."""
    model.__dict__[BOUND] = bound
    return model


def step_solver(model: Model, dtype: Any, h: Any, external: bool) -> Solver | None:
    """The native program for constraints, within steps by XLA; None if XLA solves them, too."""
    if BOUND in model.__dict__:
        return model.__dict__[BOUND].solver
    return solver_for(model, dtype, h, external=external, warm=True)


_steppers: OncePerOwner[Stepper] = OncePerOwner()


def stepper_for(
    model: Model, integrator: str, dtype: Any, h: Any, external: bool, slopes: bool = True
) -> Stepper | None:
    """The native program of a call, bound to a model; None if XLA serves.

    `slopes`: with the constants of its derivatives, whose tables take longer than all others.
    """
    if BOUND in model.__dict__:
        return model.__dict__[BOUND].stepper
    model = in_numpy(model)
    plan = way_of_step(model, integrator, dtype).plan
    if plan is None:
        return None
    if is_traced(h) or not is_known(model):
        return stepper_of(model, plan, integrator, dtype, h, external, slopes)
    key = integrator, np.dtype(dtype).name, float(h), external, slopes
    return _steppers.get(model, key, lambda: stepper_of(model, plan, integrator, dtype, *key[2:]))

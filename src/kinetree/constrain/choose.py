"""The one place that decides which body solves for constraints: the native one, or XLA's."""

from typing import NamedTuple

import jax
from jax.core import Tracer

from kinetree.lanes import native_enabled
from kinetree.lanes.kept.once import OncePerOwner
from kinetree.model import Model

from .native import Plan, not_served
from .problem import couples


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
    if any(isinstance(x, Tracer) for x in jax.tree.leaves(model)):
        return _found(model)
    return _ways.get(model, None, lambda: _found(model))


def _found(model: Model) -> Way:
    if couples(model):
        return Way(None, "a constraint touches two moving bodies, which the native body does not know")
    plan = Plan(model.uncoupled)
    reason = not_served(model, plan)
    if reason:
        return Way(None, f"{reason}, which the native body does not know")
    return Way(plan, "a lane to a world, each until it is done")

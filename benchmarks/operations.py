"""Multiplications and additions that our own programs do for a body: counted in their steps, not typed in."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

import kinetree as kt
from kinetree.dynamics.algorithms.aba import aba_of
from kinetree.dynamics.algorithms.rnea import RNEA
from kinetree.dynamics.schedules.lanes import lane_program_of
from kinetree.lanes.llvm.emit import trace
from kinetree.theory import Operations

PRODUCTS, SUMS = ("mul", "div", "square", "integer_pow"), ("add", "sub")


def of_steps(jaxprs: Iterable[Any]) -> Operations:
    """Products (quotients among them) and sums of traced steps; changes of sign are free."""
    found: Counter[str] = Counter(e.primitive.name for j in jaxprs for e in _equations(j.jaxpr))
    return Operations(sum(found[name] for name in PRODUCTS), sum(found[name] for name in SUMS))


def _equations(jaxpr: Any) -> Iterable[Any]:
    for equation in jaxpr.eqns:
        inner = equation.params.get("jaxpr")
        if inner is None:
            yield equation
        else:
            yield from _equations(inner.jaxpr)


def of_a_body(algorithm: str) -> Operations:
    """One body of a chain of hinges with any placement; the algorithm is inverse_dynamics or forward_dynamics."""
    model = kt.auto_tree(8, skew=0.3)
    chosen = RNEA if algorithm == "inverse_dynamics" else aba_of(firm=True)
    with jax.enable_x64(True):
        loops = lane_program_of(chosen, model).program.loops
        return of_steps(trace(loop, np.float64) for loop in loops)

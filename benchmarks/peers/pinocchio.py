"""Pinocchio: its functions over batches with a number of threads, and its functions of one state, called in a loop."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pinocchio as pin

import kinetree as kt

from ..measure import Problem
from ..reference import rotation_matrices
from .description import about_center
from .way import Way, states

PACKAGE = "pin"


def build(model: kt.Model) -> Any:
    """The same tree, joint by joint."""
    theirs = pin.Model()
    theirs.gravity.linear = np.asarray(model.gravity, float)
    rotations = rotation_matrices(np.stack(model.rows.orientation, -1))
    positions = np.stack(model.rows.position, -1)
    for i, parent in enumerate(model.parent):
        placed = pin.SE3(rotations[i], positions[i])
        joint = theirs.addJoint(int(parent) + 1, pin.JointModelRZ(), placed, model.joint_names[i])
        theirs.appendBodyToJoint(joint, pin.Inertia(*about_center(model.rows.inertia, i)), pin.SE3.Identity())
    return theirs


def ways(problem: Problem, threads: int) -> Iterator[Way]:
    """In float64 only, as its Python functions are."""
    if problem.case.dtype != "float64":
        return
    model = build(problem.model)
    if problem.case.batch > 1 and problem.case.algorithm in PARALLEL:
        yield _in_parallel(problem, model, threads)
    if problem.case.algorithm in SINGLE:
        yield _one_by_one(problem, model)


PARALLEL = {"inverse_dynamics": pin.rneaInParallel, "forward_dynamics": pin.abaInParallel}


def _in_parallel(problem: Problem, model: Any, threads: int) -> Way:
    pool = pin.ModelPool(model, threads)
    given = [np.asfortranarray(x.T) for x in states(problem)]  # a column to a state
    out = np.zeros_like(given[0], order="F")
    function = PARALLEL[problem.case.algorithm]

    def call() -> np.ndarray:
        function(threads, pool, *given, out)
        return out

    return Way("in parallel", threads, call, lambda: call().T.copy())


SINGLE = {
    "inverse_dynamics": pin.rnea,
    "forward_dynamics": pin.aba,
    "inverse_dynamics_derivatives": pin.computeRNEADerivatives,
    "forward_dynamics_derivatives": pin.computeABADerivatives,
}


def _one_by_one(problem: Problem, model: Any) -> Way:
    data, function = model.createData(), SINGLE[problem.case.algorithm]
    each = list(zip(*(list(x) for x in states(problem)), strict=True))

    def call() -> None:
        for state in each:
            function(model, data, *state)

    def result() -> Any:
        kept = [jax.tree.map(np.array, function(model, data, *state)) for state in each]
        return kept[0] if problem.case.batch == 1 else jax.tree.map(lambda *parts: np.stack(parts), *kept)

    return Way("one by one", 1, call, result)

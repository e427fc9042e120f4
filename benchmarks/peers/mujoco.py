"""MuJoCo: one state after the other, from Python; it has no batches of inverse or forward dynamics."""

from collections.abc import Callable, Iterator
from typing import Any

import mujoco
import numpy as np

import kinetree as kt

from ..measure import Problem
from .description import urdf
from .way import Way, states

PACKAGE = "mujoco"


def build(model: kt.Model) -> tuple[Any, list[int]]:
    """MuJoCo's model, without contacts or limits, and where each of our joints stands in it."""
    theirs = mujoco.MjModel.from_xml_string(urdf(model))
    theirs.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT | mujoco.mjtDisableBit.mjDSBL_ACTUATION
    return theirs, [int(theirs.joint(name).dofadr[0]) for name in model.joint_names]


def ways(problem: Problem, threads: int) -> Iterator[Way]:
    """In float64 only."""
    if problem.case.dtype != "float64" or problem.case.algorithm not in ("inverse_dynamics", "forward_dynamics"):
        return
    model, order = build(problem.model)
    data = mujoco.MjData(model)
    inverse = problem.case.algorithm == "inverse_dynamics"
    function: Callable[..., Any] = mujoco.mj_inverse if inverse else mujoco.mj_forward
    third, out = (data.qacc, data.qfrc_inverse) if inverse else (data.qfrc_applied, data.qacc)
    each = list(zip(*(list(x[:, np.argsort(order)]) for x in states(problem)), strict=True))
    position, velocity = data.qpos, data.qvel

    def solve(q: np.ndarray, qd: np.ndarray, x: np.ndarray) -> None:
        position[:], velocity[:], third[:] = q, qd, x
        function(model, data)

    def call() -> None:
        for state in each:
            solve(*state)

    def result() -> np.ndarray:
        kept = []
        for state in each:
            solve(*state)
            kept.append(out[order])
        return kept[0] if problem.case.batch == 1 else np.stack(kept)

    yield Way("one by one", 1, call, result)

"""frax: recursions as products with masks of ancestors, in JAX."""

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..measure import Problem
from .description import urdf
from .way import Way, mapped

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it advises on flags of XLA for calls of one state
    from frax.core.robot import Robot

PACKAGE = "frax"


def ways(problem: Problem, threads: int) -> Iterator[Way]:
    """It reads files only, and gravity enters its RNEA as the base's acceleration upward, linear part first."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tree.urdf"
        path.write_text(urdf(problem.model))
        robot = Robot(str(path), joint_ordering=list(problem.model.joint_names))
    upward = jnp.asarray(np.concatenate([-np.asarray(problem.model.gravity), np.zeros(3)]), problem.case.dtype)

    def inverse_dynamics(q: Any, qd: Any, qdd: Any) -> Any:
        return robot.rnea(q, qd, qdd, upward, None)

    def forward_dynamics(q: Any, qd: Any, tau: Any) -> Any:
        return robot.forward_dynamics(q, qd, tau, None)

    functions = {"inverse_dynamics": inverse_dynamics, "forward_dynamics": forward_dynamics}
    if problem.case.algorithm in functions:
        yield mapped(problem, threads, functions[problem.case.algorithm])

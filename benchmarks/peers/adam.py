"""adam: functions of a floating base in JAX; a base that is held fixed leaves their lower right blocks."""

from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
from adam.jax import KinDynComputations

from ..measure import Problem
from .description import urdf
from .way import Way, mapped

PACKAGE = "adam-robotics"


def ways(problem: Problem, threads: int) -> Iterator[Way]:
    """Its mass matrix and its bias; it has no inverse dynamics with accelerations."""
    dtype = jnp.dtype(problem.case.dtype)
    gravity = np.concatenate([problem.model.gravity, np.zeros(3)])
    names = list(problem.model.joint_names)
    robot = KinDynComputations(urdf(problem.model), joints_name_list=names, dtype=dtype, gravity=gravity)
    robot.rbdalgos.math.factory._device = None  # it would pin traced arrays to a device, which JAX refuses
    standing, still = jnp.eye(4, dtype=dtype), jnp.zeros(6, dtype)

    def mass_and_bias(q: Any, qd: Any) -> tuple[Any, Any]:
        return robot.mass_matrix(standing, q)[6:, 6:], robot.bias_force(standing, q, still, qd)[6:]

    def inverse_dynamics(q: Any, qd: Any, qdd: Any) -> Any:
        H, C = mass_and_bias(q, qd)
        return H @ qdd + C

    def forward_dynamics(q: Any, qd: Any, tau: Any) -> Any:
        H, C = mass_and_bias(q, qd)
        return jnp.linalg.solve(H, tau - C)

    functions = {"inverse_dynamics": inverse_dynamics, "forward_dynamics": forward_dynamics}
    if problem.case.algorithm in functions:
        yield mapped(problem, threads, functions[problem.case.algorithm])

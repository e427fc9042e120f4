"""JaxSim: its RNEA and its ABA, in JAX."""

from collections.abc import Iterator
from typing import Any

import jaxsim.api as js

from ..measure import Problem
from .description import sdf
from .way import Way, mapped

PACKAGE = "jaxsim"


def ways(problem: Problem, threads: int) -> Iterator[Way]:
    """The state is made into its data inside the call, kinematics included, as its functions want it."""
    gravity = float(-problem.model.gravity[2])
    model = js.model.JaxSimModel.build_from_model_description(sdf(problem.model), is_urdf=False, gravity=gravity)
    order = [list(model.joint_names()).index(name) for name in problem.model.joint_names]

    def data(q: Any, qd: Any) -> Any:
        return js.data.JaxSimModelData.build(model=model, joint_positions=q, joint_velocities=qd)

    def inverse_dynamics(q: Any, qd: Any, qdd: Any) -> Any:
        return js.model.inverse_dynamics(model, data(q, qd), joint_accelerations=qdd)[1]

    def forward_dynamics(q: Any, qd: Any, tau: Any) -> Any:
        return js.model.forward_dynamics_aba(model, data(q, qd), joint_forces=tau)[1]

    functions = {"inverse_dynamics": inverse_dynamics, "forward_dynamics": forward_dynamics}
    if problem.case.algorithm in functions:
        yield mapped(problem, threads, functions[problem.case.algorithm], order)

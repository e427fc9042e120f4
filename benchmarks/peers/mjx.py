"""MJX: MuJoCo's kinematics, recursions and factors in JAX, without the rest of its pipeline."""

from collections.abc import Iterator
from typing import Any

from mujoco import mjx
from mujoco.mjx._src import smooth

from ..measure import Problem
from .mujoco import build
from .way import Way, mapped

PACKAGE = "mujoco-mjx"


def ways(problem: Problem, threads: int) -> Iterator[Way]:
    """In the case's dtype: `make_data` follows the arrays it is given."""
    plain, order = build(problem.model)
    model = mjx.put_model(plain)
    empty = mjx.make_data(model)

    def placed(q: Any, qd: Any) -> Any:
        return smooth.com_pos(model, smooth.kinematics(model, empty.replace(qpos=q, qvel=qd)))

    def inverse_dynamics(q: Any, qd: Any, qdd: Any) -> Any:
        moving = smooth.com_vel(model, placed(q, qd).replace(qacc=qdd))
        return smooth.rne(model, moving, flg_acc=True).qfrc_bias

    def forward_dynamics(q: Any, qd: Any, tau: Any) -> Any:
        factored = smooth.com_vel(model, smooth.factor_m(model, smooth.crb(model, placed(q, qd))))
        return smooth.solve_m(model, factored, tau - smooth.rne(model, factored).qfrc_bias)

    functions = {"inverse_dynamics": inverse_dynamics, "forward_dynamics": forward_dynamics}
    if problem.case.algorithm in functions:
        yield mapped(problem, threads, functions[problem.case.algorithm], order)

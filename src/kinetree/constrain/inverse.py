"""Inverse dynamics with constraints: `kinetree.constrained_inverse_dynamics`."""

from functools import partial
from typing import Any

from kinetree._types import Array, Float
from kinetree._varying import jit
from kinetree.dynamics.schedules.arranged import by_position
from kinetree.dynamics.schedules.choose import note
from kinetree.model import Model, coupled
from kinetree.model.arguments import evaluate_for, is_known
from kinetree.model.world import InverseWeights
from kinetree.tree import restore

from .actuated import leaves_weight, weight_left
from .choose import native_for
from .constrained import held_force, timestep_of
from .drift import velocity_drift
from .joint_groups import Present, present
from .moving import natively
from .native import Goal, Solver
from .newton import at_motion, constraint_force
from .problem import layout_of, make_problem
from .two_lanes import two_lanes
from .weights import inverse_weights


@coupled("force")
def constrained_inverse_dynamics(
    model: Model,
    q: Float[Array, "... nq"],
    qd: Float[Array, "... nv"],
    qdd: Float[Array, "... nv"],
    f_ext: Float[Array, "... bodies 6"] | None = None,
) -> Float[Array, "... nv"]:
    """Forces on the joints that produce the accelerations `qdd` against contact, limits and friction.

    The inverse of `constrained_dynamics`, in closed form: constraint forces are functions of the acceleration. Weight
    that joints leave to actuators is part of these forces, as in MuJoCo's `mj_inverse`.

    Arguments:
        model: the mechanism and its world.
        q, qd, qdd: (..., nq), (..., nv), (..., nv).
        f_ext: (..., n_bodies, 6), as in `constrained_dynamics`.

    Returns:
        tau, (..., nv).
    """
    if model.loops is not None:
        raise ValueError("forces of rigid loops are no functions of the acceleration: use inverse_dynamics")
    has, step = present(model), timestep_of(model, None)

    def compute(q: Any, qd: Any, qdd: Any, f_ext: Any) -> Any:
        tau = held_force(model, has, q, qd, qdd, f_ext)
        way, solver = native_for(model, q.dtype, goal=Goal.FORCES, warm=True)
        note("constrained_inverse_dynamics", way)
        if solver is None:
            return by_xla(q, qd, tau, qdd)
        given = q, qd, tau, qdd
        return _unloaded(solver, *given) if is_known(given) else natively(_unloaded, by_xla, _moved, solver, *given)

    def by_xla(q: Any, qd: Any, tau: Any, qdd: Any) -> Any:
        return tau - _forces(has, model.alone, inverse_weights(model), q, qd, qdd, step(q.dtype))

    tau = evaluate_for(model, compute, q=q, qd=qd, qdd=qdd, f_ext=f_ext)
    return tau + weight_left(model, q) if leaves_weight(model) else tau  # the programs carry all compensated weight


def _unloaded(solver: Solver, q: Any, qd: Any, tau: Any, qdd: Any) -> Any:
    """Forces tau minus the forces of constraints at these accelerations."""
    return -solver(q, qd, -tau, warm=qdd).total


def _moved(solver: Solver, motions: Any, reached: Any, q: Any, qd: Any, tau: Any, qdd: Any) -> Any:
    return -solver.at_solution(q, qd, -tau, motions=motions, solution=qdd).total


@partial(jit, static_argnums=(0,))
@two_lanes
def _forces(has: Present, model: Model, weights: InverseWeights, q: Any, qd: Any, qdd: Any, least: Any) -> Any:
    """Jᵀ force of the constraints at given accelerations, (batch, nv)."""
    laid = layout_of(model, q)
    problem = make_problem(laid, model, has, weights, q, qd, qdd, least)
    x = by_position(laid, qdd + velocity_drift(model.structure, qd))
    w = at_motion(problem.tree, problem.groups, x)
    return restore(laid, constraint_force(problem.tree, problem.groups, w)).T

"""Accelerations and forces of a state, for sensors: contacts with their forces, and pushes on bodies."""

from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp

from kinetree._varying import jit
from kinetree.constrain import constrained_dynamics
from kinetree.constrain.actuated import driving_force
from kinetree.constrain.choose import solver_for
from kinetree.constrain.constrained import SCHEDULE, timestep_of
from kinetree.constrain.joint_groups import Present, present
from kinetree.constrain.moving import natively
from kinetree.constrain.native import Solver
from kinetree.constrain.problem import equalities_of, has_contacts, has_crowd
from kinetree.constrain.weights import inverse_weights
from kinetree.model import Model
from kinetree.model.arguments import is_traced
from kinetree.tree import layout

from .felt import Felt, felt_by_lanes
from .pulls import has_lines, pulls
from .pushes import PointPush, pushes, pushes_of


class Acting(NamedTuple):
    """Accelerations and forces of states, (batch, nv); points and pushes are (points, batch); of `model.uncoupled`."""

    qdd: Any
    felt: Felt | None = None
    push: PointPush | None = None
    pull: PointPush | None = None  # of tendons


def acting(model: Model, q: Any, qd: Any, act: Any, warm_start: Any, ctrl: Any, forces: bool = True) -> Acting:
    """Accelerations and forces with actuators and constraints. `forces`: also those of contacts and equalities."""
    given = q, qd, act, warm_start, ctrl
    if forces and has_crowd(model):
        raise ValueError(
            "forces of contacts are not reported for a crowd of shapes, whose pairs are found in each state"
        )
    if not forces or (not has_contacts(model) and equalities_of(model) is None):
        return Acting(acceleration(model, *given))
    equal = equalities_of(model)
    framed = equal is not None and equal.frames is not None  # lanes do not report the forces of such equalities
    solver = None if framed else solver_for(model, given[0].dtype, model.timestep, warm=True, forces=True)
    has = present(model.uncoupled)
    if solver is not None and not is_traced(solver, model, given):
        return _by_lanes(solver, model, *given)  # JAX would take milliseconds to flatten a model
    given = tuple(map(jnp.asarray, given))
    reference = partial(_by_xla, has)
    return reference(model, *given) if solver is None else natively(_by_lanes, reference, None, solver, model, *given)


def acceleration(model: Model, q: Any, qd: Any, act: Any, warm_start: Any, ctrl: Any) -> Any:
    """The acceleration of states with actuators and constraints, (batch, nv)."""
    given = {"ctrl": ctrl, "act": act} if model.actuators is not None else {}
    return constrained_dynamics(model, q, qd, warm_start=warm_start, **given).qdd


def _by_lanes(solver: Solver, model: Model, q: Any, qd: Any, act: Any, warm_start: Any, ctrl: Any) -> Acting:
    solved = solver(q, qd, driving_force(model, q, qd, ctrl, act), None, warm_start)
    if solved.points is None:
        return Acting(solved.qdd)
    felt = felt_by_lanes(solved)
    return Acting(solved.qdd, felt, pushes_of(felt))


def _by_xla(has: Present, model: Model, q: Any, qd: Any, act: Any, warm_start: Any, ctrl: Any) -> Acting:
    free, coupling = model.uncoupled, model.coupling
    qdd = wide = acceleration(model, q, qd, act, warm_start, ctrl)
    if coupling is not None:
        q, qd, wide = coupling.widen_q(q), coupling.widen_v(qd), coupling.widen_v(qdd)
    return Acting(qdd, *_pushed(has, free, inverse_weights(free), q, qd, wide, timestep_of(model, None)(q.dtype)))


def with_pulls(model: Model, now: Acting, q: Any, qd: Any, own: Any) -> Acting:
    """The same with the pulls of tendons, of a model without coupling; `own` are the forces of actuators."""
    if not has_lines(model):
        return now
    given = q, qd, now.qdd, own, timestep_of(model, None)(q.dtype)
    return now._replace(pull=pulls(present(model), model, inverse_weights(model), *given))


@partial(jit, static_argnums=(0,))
def _pushed(has: Present, model: Model, weights: Any, q: Any, qd: Any, qdd: Any, least: Any) -> Any:
    return pushes(layout(model.tree, SCHEDULE), model, has, weights, q, qd, qdd, least)

"""`kinetree.contact_forces`: what contacts do to each body."""

from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._types import AnyArray, Float
from kinetree.constrain import actuator_force
from kinetree.constrain.choose import solver_for
from kinetree.constrain.constrained import SCHEDULE, timestep_of
from kinetree.constrain.joint_groups import Present, present
from kinetree.constrain.native import Solver
from kinetree.constrain.native.contacts import POINT_REPORT
from kinetree.constrain.native.kinds import FORCE_REPORT
from kinetree.constrain.problem import equalities_of, has_contacts
from kinetree.constrain.weights import inverse_weights
from kinetree.model import Model, State, require_state
from kinetree.model.arguments import evaluate_for
from kinetree.model.required import require_model
from kinetree.tree import layout

from .pushes import pushes
from .read import acceleration


def contact_forces(
    model: Model, state: State, ctrl: Float[AnyArray, "... nu"] | None = None
) -> Float[AnyArray, "... bodies 6"]:
    """Forces on the bodies by contacts, and by equalities between frames.

    Arguments:
        model: the mechanism.
        state: where it is and how it moves.
        ctrl: controls (..., nu) of the actuators; zero if not given.

    Returns:
        (..., n_bodies, 6) in world coordinates: moment about the world origin, then force, as in `f_ext`. For a robot
        at rest `kt.contact_forces(model, state)[..., 5].sum(-1)` is its weight.
    """
    require_model(model)
    require_state(state)
    if ctrl is None:
        ctrl = np.zeros(model.nu, np.result_type(state.q) if isinstance(state.q, np.ndarray) else state.q.dtype)
    has, h = present(model.uncoupled), model.timestep
    reference = partial(_by_xla, has, model)

    def compute(q: Any, qd: Any, act: Any, time: Any, warm_start: Any, ctrl: Any) -> Any:
        given = tuple(map(jnp.asarray, (q, qd, act, warm_start, ctrl)))
        if not has_contacts(model) and equalities_of(model) is None:
            return jnp.zeros((len(q), model.n_bodies, 6), q.dtype)
        solver = solver_for(model, q.dtype, h, False, True, forces=True) if has_contacts(model) else None
        return reference(*given) if solver is None else _natively(reference, solver, model, *given)

    return evaluate_for(model, compute, **vars(state), ctrl=ctrl)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _natively(
    reference: Any, solver: Solver, model: Model, q: Any, qd: Any, act: Any, warm_start: Any, ctrl: Any
) -> Any:
    """By lanes; derivatives are those of XLA's."""
    solved = solver(q, qd, actuator_force(model, q, qd, ctrl, act), None, warm_start)
    count = prod(solved.points.shape[1:]) // POINT_REPORT  # said in numbers, since there may be no states
    seen = solved.points.reshape(len(q), count, POINT_REPORT)
    pushed = solved.pushes.reshape(len(q), count, 2, FORCE_REPORT // 2)
    force, moment = jnp.moveaxis((seen[..., 3:12].reshape(*seen.shape[:2], 1, 3, 3) * pushed[..., None]).sum(-2), 2, 0)
    moment = moment + jnp.cross(seen[..., :3], force)
    assert model.world is not None
    assert model.world.scene is not None
    bodies, pairs = np.array(model.world.scene.layout.bodies), solver.plan.all_points()[1]
    share = np.zeros((model.n_bodies + 1, len(pairs)))  # the last one is the base
    for number, pair in enumerate(solver.plan.pairs[k] for k in pairs):
        share[bodies[pair.second], number] += 1.0
        share[bodies[pair.first], number] -= 1.0
    whole = jnp.concatenate([moment, force], -1)
    return (jnp.asarray(share[:-1, :, None], q.dtype) * whole[:, None]).sum(2)


@_natively.defjvp
def _derivative(reference: Any, primals: Any, tangents: Any) -> Any:
    return jax.jvp(reference, primals[2:], tangents[2:])


def _by_xla(has: Present, model: Model, q: Any, qd: Any, act: Any, warm_start: Any, ctrl: Any) -> Any:
    free, coupling = model.uncoupled, model.coupling
    qdd = acceleration(model, q, qd, act, warm_start, ctrl)
    if coupling is not None:
        q, qd, qdd = coupling.widen_q(q), coupling.widen_v(qd), coupling.widen_v(qdd)
    return _pushed(has, free, inverse_weights(free), q, qd, qdd, timestep_of(model, None)(q.dtype))


@partial(jax.jit, static_argnums=0)
def _pushed(has: Present, model: Model, weights: Any, q: Any, qd: Any, qdd: Any, least: Any) -> Any:
    found = pushes(layout(model.tree, SCHEDULE), model, has, weights, q, qd, qdd, least)
    if found is None:
        return jnp.zeros((len(q), model.n_bodies, 6), q.dtype)
    moment, force = found.on(np.eye(model.n_bodies, dtype=bool))
    return jnp.moveaxis(jnp.stack([*moment, *force], 1), -1, 0)

"""Dynamics with constraints: accelerations under forces, contact, limits and friction."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from kinetree._arrays import dtype_of, library
from kinetree._types import AnyArray, Bool, Float, Int
from kinetree._varying import jit
from kinetree.dynamics import inverse_dynamics
from kinetree.dynamics.inverse_dynamics import zero_rates
from kinetree.dynamics.loops.rows import wrenches
from kinetree.dynamics.positive import require_solution
from kinetree.dynamics.schedules.arranged import by_position
from kinetree.dynamics.schedules.choose import note
from kinetree.dynamics.schedules.whole import Huge, huge
from kinetree.model import Coupling, Model
from kinetree.model.arguments import evaluate_for, is_known, require_shapes
from kinetree.model.required import require_model
from kinetree.model.world import InverseWeights, World
from kinetree.tree import restore

from .actuated import driving_force, leaves_weight, weight_carried, weight_left
from .choose import native_for
from .drift import velocity_drift
from .fluid import fluid_wrenches
from .joint_groups import Present, present
from .moving import natively
from .native import Solved, Solver
from .newton import at_motion, at_rest, constraint_force, minimise
from .noslip import all_forces, without_slip
from .problem import MAX_ROWS, layout_of, make_problem
from .tendons import tendon_force
from .touch import Contacts, contacts_of, found_points, no_points, reported_points
from .two_lanes import two_lanes
from .weights import inverse_weights

SCHEDULE = "levels"


class Constrained(NamedTuple):
    """Accelerations of a mechanism with constraints, and the forces of the constraints."""

    qdd: Float[AnyArray, "... nv"]
    tau_constraint: Float[AnyArray, "... nv"]  # all constraint forces, on the joints
    contacts: Contacts
    iterations: Int[AnyArray, "..."]  # of Newton's method
    converged: Bool[AnyArray, "..."]  # False if iterations, or the room for the pairs of a crowd, were not enough
    loop_forces: Float[AnyArray, "... loops 6"] | None = None  # on the second body of each rigid loop, as f_ext is


def constrained_dynamics(
    model: Model,
    q: Float[AnyArray, "... nq"],
    qd: Float[AnyArray, "... nv"],
    tau: Float[AnyArray, "... nv"] | None = None,
    f_ext: Float[AnyArray, "... bodies 6"] | None = None,
    *,
    ctrl: Float[AnyArray, "... nu"] | None = None,
    act: Float[AnyArray, "... na"] | None = None,
    warm_start: Float[AnyArray, "... nv"] | None = None,
) -> Constrained:
    """Accelerations under forces, contact, limits and dry friction: MuJoCo's soft constraints, solved to convergence.

    Rigid loops of the model are held exactly.

    Arguments:
        model: the mechanism and its world.
        q, qd: (..., nq), (..., nv); leading axes are batches and broadcast.
        tau: (..., nv), forces on the joints; none if not given.
        f_ext: (..., n_bodies, 6) forces on the bodies in world coordinates, moment about the world origin first.
        ctrl, act: controls and activations of the actuators, zero if only the other is given; their forces add to tau.
            Without both no actuator acts, and none carries weight.
        warm_start: (..., nv), accelerations to start from, such as those of the last time step.

    Returns:
        Constrained: .qdd, .tau_constraint, .contacts, .iterations, .converged, .loop_forces.

    Reference: MuJoCo documentation, "Computation"; Todorov 2014, "Convex and analytically-invertible dynamics with
    contacts and constraints".
    """
    require_model(model)
    if ctrl is not None or act is not None:
        ctrl = np.zeros(model.nu, dtype_of(q)) if ctrl is None else ctrl
        driven: Any = driving_force(model, q, qd, ctrl, act)
        if tau is not None:
            require_shapes(model, q=q, tau=tau, ctrl=ctrl)
            driven = library(tau, driven).asarray(tau) + driven
        tau = driven
    elif leaves_weight(model):  # the programs carry all compensated weight
        if tau is not None:
            require_shapes(model, q=q, tau=tau)
        tau = (0.0 if tau is None else library(q, tau).asarray(tau)) - weight_left(model, q)
    tau = zero_rates(model, qd) if tau is None else tau
    has, step = present(model.uncoupled), timestep_of(model, None)

    def compute(q: Any, qd: Any, tau: Any, f_ext: Any, warm: Any) -> Any:
        given = q, qd, tau, f_ext, warm
        way, solver = native_for(model, q.dtype, external=f_ext is not None, warm=warm is not None)
        note("constrained_dynamics", way)
        if solver is None:
            return by_xla(*given)
        if is_known(given):
            return _reported(solver, *given)[:-1]
        held = solver.no_forces(q)
        return natively(_reported, lambda *given: (*by_xla(*given), held), _moved, solver, *given)[:-1]

    def by_xla(q: Any, qd: Any, tau: Any, f_ext: Any, warm: Any) -> Any:
        return posed(model, has, q, qd, tau, f_ext, warm, step(q.dtype))[1]()

    given = {"q": q, "qd": qd, "tau": tau, "f_ext": f_ext, "warm_start": warm_start}
    qdd, forces, touch, *rest = evaluate_for(model, compute, **given)
    if isinstance(qdd, np.ndarray):
        # With a NaN position accelerations may be finite but wrong, as no contact is found.
        placed = np.where(np.isfinite(np.asarray(q)).all(-1, keepdims=True), qdd, np.nan)
        require_solution(model, "constrained_dynamics", placed, **given)
    return Constrained(qdd, forces, contacts_of(model, touch), *rest)


def _touch(found: Solved, q: Any) -> Any:
    return no_points(q) if found.points is None else reported_points(found.points)


def _reported(solver: Solver, *given: Any) -> Any:
    """The results of native code, in the form that XLA's have."""
    found, q = solver(*given), given[0]
    touch = _touch(found, q)
    loops = found.loops
    held = touch[0][:, :0, :1].repeat(6, -1) if loops is None else loops.reshape(len(q), loops.shape[-1] // 6, 6)
    return found.qdd, found.force, touch, found.iterations.astype(np.int32), found.converged, held, found.multipliers


def _moved(solver: Solver, motions: Any, reached: Any, q: Any, qd: Any, tau: Any, f_ext: Any, warm: Any) -> Any:
    """The same where accelerations are known; None for what has no derivative."""
    found = solver.at_solution(q, qd, tau, f_ext, motions=motions, solution=reached[0], multipliers=reached[-1])
    touch, loops = (*_touch(found, q)[:3], None), found.loops
    held = None if loops is None else loops.reshape(reached[-2].shape)
    return found.qdd, found.force, touch, None, None, held, None


def known_if_huge(model: Model, dtype: Any) -> Huge | None:
    """A huge model, if its numbers are known: native walks keep their constants with it."""
    return huge(model, dtype) if model.nv > MAX_ROWS else None


def posed(
    model: Model, has: Present, q: Any, qd: Any, tau: Any, f_ext: Any, warm: Any, least: Any
) -> tuple[Any, Callable[[], tuple]]:
    """All forces but those of constraints, (batch, rows), and a function that solves for these by XLA.

    The function returns accelerations and forces of the joints, and the rest of `solve_constraints`.
    """
    free, coupling = model.uncoupled, model.coupling
    if coupling is not None:
        q, qd, warm = coupling.widen_q(q), coupling.widen_v(qd), None if warm is None else coupling.widen_v(warm)
        tau = jnp.zeros_like(qd).at[:, coupling.kept_v].set(tau)
    b = tau - held_force(free, has, q, qd, -velocity_drift(free.structure, qd), f_ext)

    def solved() -> tuple:
        known = known_if_huge(free, q.dtype)
        state = q, qd, b, warm, least
        found = solve_constraints(has, free.alone, inverse_weights(free), *state, coupling=coupling, known=known)
        if coupling is None:
            return found
        return found[0][:, coupling.kept_v], coupling.narrow(found[1]), *found[2:]

    return b if coupling is None else coupling.narrow(b), solved


def timestep_of(model: Model, given: Any) -> Any:
    own = model.timestep if given is None else given
    safe = model.world is None or model.world.safe_reference
    return lambda dtype: jnp.asarray(2 * own if safe else 0.0, dtype)


def held_force(model: Model, has: Present, q: Any, qd: Any, qdd: Any, f_ext: Any) -> Any:
    """Forces without constraints: inverse dynamics minus forces of a fluid, of tendons, and of gravity compensation."""
    fluid = None if model.world is None else model.world.fluid
    if fluid is not None:
        dragged = fluid_wrenches(model, fluid, jnp.asarray(q), jnp.asarray(qd))
        f_ext = dragged if f_ext is None else f_ext + dragged
    tau = inverse_dynamics(model, q, qd, qdd, f_ext)
    if has.tendon_forces:
        tau = tau - _of_tendons(has, model, jnp.asarray(q), jnp.asarray(qd))
    carried = None if model.world is None else model.world.gravity_compensation
    if carried is None:
        return tau
    return tau - weight_carried(model, q, carried)


_of_tendons = jit(lambda has, model, q, qd: tendon_force(model, has, q, qd), static_argnums=(0,))


@partial(jit, static_argnums=(0,), static_argnames="coupling")
@two_lanes
def solve_constraints(
    has: Present,
    model: Model,
    weights: InverseWeights,
    q: Any,
    qd: Any,
    b: Any,
    warm: Any,
    least: Any,
    *,
    coupling: Coupling | None = None,
    known: Huge | None = None,
) -> Any:
    laid = layout_of(model, q, known)
    problem = make_problem(laid, model, has, weights, q, qd, b, least)
    tree, groups = problem.tree, problem.groups
    drift = velocity_drift(model.structure, qd)
    if warm is None:  # start at rest: rows with a pushing reference are active
        x, w = jnp.zeros_like(tree.b), at_rest(tree, groups)
    else:
        x = by_position(laid, warm + drift)
        w = at_motion(tree, groups, x)
    world = model.world or World()
    found = minimise(coupling, world.iterations, tree, groups, x, w)
    if world.noslip:
        held, kept, found = without_slip(coupling, world.iterations, tree, groups, found)
        force = all_forces((tree, held), kept, found)
    else:
        force = constraint_force(tree, groups, found.w, found.multipliers, inertial=False)
    qdd = restore(laid, found.x).T - drift
    touch = found_points(problem.found, problem.active, q, problem.crowded)
    loops = jnp.zeros((len(q), 0, 6), q.dtype)
    if model.loops is not None and problem.loops is not None and found.multipliers is not None:
        loops = wrenches(model.loops, problem.loops, found.multipliers.T)
    converged = found.converged & jnp.logical_not(problem.lost)
    return qdd, restore(laid, force).T, touch, found.iterations, converged, loops

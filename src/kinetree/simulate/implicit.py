"""Accelerations of steps that take velocity-dependent forces at their end, as MuJoCo's implicit integrators do.

With α the acceleration in world axes (world_axes.py), f all forces at the start of the step, and D = −∂f/∂u,
    (H + h D) α = f.
Joint damping, and servos on hinges and sliders, are diagonal: loads on the joints, one articulated-body pass
(dynamics/loaded.py). A servo on a ball or free joint adds h slope jᵀ j, of rank one, by the formula of Sherman and
Morrison. Tendons, and actuators on tendons and sites, couple joints: then the matrix itself is factorized. As in
MuJoCo, only entries between a row and a row that carries it are kept; entries between branches are dropped.
A free body that carries nothing that moves also uses the slope of its gyroscopic force, which is not symmetric: six
equations, solved separately. MuJoCo's `implicit` uses the slopes of all velocity products (slopes.py).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import there
from kinetree.actuate import Actuation
from kinetree.actuate.transmission import columns_of, gathered
from kinetree.constrain.joint_groups import Present, present
from kinetree.dynamics import factorize, forward_dynamics, mass_matrix, tendon_jacobian
from kinetree.dynamics.loaded import loaded_forward_dynamics, with_load
from kinetree.dynamics.loops.forward import closed_answer
from kinetree.dynamics.matrices.dense import solve_general, solve_spd
from kinetree.dynamics.tendons.lengths import tendons_of
from kinetree.model import Model

from .slopes import fluid_slope, related, smooth_slope
from .world_axes import drift


class Forces(NamedTuple):
    """The forces on a mechanism."""

    tau: Any  # (batch, nv), all joint forces except springs, dampers and constraints
    f_ext: Any  # (batch, n_bodies, 6), or None
    total: Any = None  # (batch, nv), f above with constraints; None without constraints
    has: Present | None = None  # the constraints that exist


def damped_acceleration(model: Model, q: Any, qd: Any, forces: Forces, h: Any) -> Any:
    """qdd (batch, nv) of a step h with joint damping taken at its end."""
    load = _damping(model, q, h)
    if forces.has is not None and forces.has.tendon_armature:
        matrix = _with_tendons(model, q, load, 0.0)
        return _factored(model, matrix, forces.total) - drift(model, q, qd)
    return _loaded(model, q, qd, forces, load)


def implicit_acceleration(model: Model, q: Any, qd: Any, forces: Forces, h: Any, acted: Actuation | None) -> Any:
    """Accelerations with the slopes of actuators, and of lone bodies' gyroscopic forces: MuJoCo's implicitfast."""
    load = _damping(model, q, h)
    braking: list[int] = []
    many: list[int] = []
    couples = False
    lone = lone_bodies(model)
    if acted is not None:
        at = columns_of(model)
        single = at.used.sum(1) == 1
        own = jnp.where(single[:, None], acted.moment * acted.moment, jnp.zeros((), q.dtype))
        load = load + gathered(at, own * (-h * acted.slope)[:, :, None])
        many = [int(i) for i in np.flatnonzero(~single) if _may_brake(model, int(i))]
        braking = [i for i in many if _wiring(model).joints[i] not in lone]
        couples = any(_wiring(model).joints[i] < 0 for i in many)
    strung = forces.has is not None and (forces.has.tendon_armature or forces.has.tendon_damping)
    if couples or strung or _flows(model):
        return _by_matrix(model, q, qd, forces, load, h, acted, many)
    qdd = _loaded(model, q, qd, forces, load)
    if not (braking or lone):
        return qdd
    ahead = drift(model, q, qd)
    alpha = qdd + ahead
    if acted is not None and braking:
        alpha = _braked(model, q, alpha, load, acted, h, braking)
    for body in lone:
        own = model.v_index(model.joint_names[body])
        A = _alone(model, qd, load, body)
        force = (A * alpha[:, None, own]).sum(-1)
        which = [] if acted is None else np.flatnonzero(np.array(_wiring(model).joints) == body).tolist()
        A = _with_actuators(model, A, h, acted, which, own)
        alpha = alpha.at[:, own].set(_tumbling(model, qd, A, force, h, body))
    return alpha - ahead


def _by_matrix(
    model: Model, q: Any, qd: Any, forces: Forces, load: Any, h: Any, acted: Actuation | None, many: list[int]
) -> Any:
    """Accelerations if tendons or actuators couple joints; `many` are actuators with several degrees of freedom."""
    matrix = _with_actuators(model, _with_tendons(model, q, load, h), h, acted, many)
    if _flows(model):
        matrix = matrix + h * fluid_slope(model, q, qd)
    ahead = drift(model, q, qd)
    total = _total(model, q, qd, forces)
    alpha = _factored(model, matrix, total)
    for body in lone_bodies(model):
        own = model.v_index(model.joint_names[body])
        alpha = alpha.at[:, own].set(_tumbling(model, qd, matrix[:, own, own], total[:, own], h, body))
    return alpha - ahead


def fully_implicit_acceleration(model: Model, q: Any, qd: Any, forces: Forces, h: Any, acted: Actuation | None) -> Any:
    """Accelerations with the slopes of all smooth forces, velocity products too: MuJoCo's implicit."""
    zero = jnp.zeros((1, model.nv), q.dtype)
    matrix = _with_tendons(model, q, zero, 0.0)
    many = [] if acted is None else [i for i in range(acted.slope.shape[1]) if _may_brake(model, i)]
    matrix = jnp.where(related(model.structure), _with_actuators(model, matrix, h, acted, many), 0.0)
    matrix = matrix + h * smooth_slope(model, forces.has or present(model), q, qd)
    alpha = solve_general(matrix, _total(model, q, qd, forces)[..., None])[..., 0]
    return alpha - drift(model, q, qd)


def _total(model: Model, q: Any, qd: Any, forces: Forces) -> Any:
    """All forces, H times the acceleration in world axes, (batch, nv)."""
    if forces.total is not None:
        return forces.total
    free = forward_dynamics(model, q, qd, forces.tau, forces.f_ext) + drift(model, q, qd)
    return (mass_matrix(model, q) * free[:, None]).sum(-1)


def _flows(model: Model) -> bool:
    return model.world is not None and model.world.fluid is not None


def _with_actuators(
    model: Model, matrix: Any, h: Any, acted: Actuation | None, which: list[int], own: slice = slice(None)
) -> Any:
    """The matrix of some degrees of freedom, with the slopes of some actuators."""
    for i in which:
        assert acted is not None
        row = _moment(model, acted, i, len(matrix))[:, own]
        matrix = matrix - (h * acted.slope[:, i])[:, None, None] * row[:, :, None] * row[:, None, :]
    return matrix


def _with_tendons(model: Model, q: Any, load: Any, h: Any) -> Any:
    """H with loads on joints, and the armature and h times the damping of tendons, (batch, nv, nv)."""
    loads = jax.vmap(jnp.diag)(jnp.broadcast_to(load, (len(q), load.shape[1])))
    matrix = mass_matrix(model, q) + (loads if model.coupling is None else model.coupling.narrow_matrix(loads))
    tendons = tendons_of(model)
    if tendons is None:
        return matrix
    J = tendon_jacobian(model, q)
    resists = jnp.asarray(tendons.pull.armature, q.dtype) + h * jnp.asarray(tendons.pull.damping, q.dtype)
    return matrix + jnp.einsum("bti,t,btj->bij", J, resists, J)


def _factored(model: Model, matrix: Any, f: Any) -> Any:
    if model.coupling is not None:
        return solve_spd(matrix, f[..., None])[..., 0]
    return factorize(model, matrix).solve(f)


def _damping(model: Model, q: Any, h: Any) -> Any:
    """h times the joints' damping, (1, nv of the free model)."""
    if model.passive is None:
        return jnp.zeros((1, model.uncoupled.nv), q.dtype)
    return h * jnp.asarray(model.passive.damping, q.dtype)[None]


def _loaded(model: Model, q: Any, qd: Any, forces: Forces, load: Any) -> Any:
    """qdd of (H + load) (qdd + drift) = f."""
    if forces.total is not None:
        ahead = drift(model, q, qd)
        alpha = _answers(model, q, forces.total, load)
        if model.loops is not None:
            alpha = closed_answer(model, with_load(load), q, qd, alpha, -ahead).qdd
        return alpha - ahead
    return loaded_forward_dynamics(model, q, qd, forces.tau, forces.f_ext, load)


def _answers(model: Model, q: Any, f: Any, load: Any) -> Any:
    """(H + load)⁻¹ f."""
    return loaded_forward_dynamics(model.weightless, q, jnp.zeros_like(f), f, None, load)


def _wiring(model: Model) -> Any:
    return there(model.actuators).wiring


def _may_brake(model: Model, i: int) -> bool:
    """True if an actuator's force can depend on velocity; unknown numbers count as nonzero."""
    gain, bias = model.actuators.gain, model.actuators.bias  # type: ignore[union-attr]
    if _wiring(model).muscles and _wiring(model).muscles[i][0]:
        return True
    known = isinstance(gain, np.ndarray) and isinstance(bias, np.ndarray)
    return not known or bool(gain[i, 2] or bias[i, 2])


def lone_bodies(model: Model) -> list[int]:
    """Bodies on free joints that carry nothing that moves; none if loops may hold them."""
    if model.loops is not None:
        return []
    s = model.structure
    up, start = s.tree.parent, s.v_start
    free = np.flatnonzero(np.array([j.kind == "free" for j in s.joints], bool)[s.joint_code])
    return [int(i) for i in free if up[start[i]] < 0 and not (up == start[i + 1] - 1).any()]


def _moment(model: Model, acted: Actuation, i: int, batch: int) -> Any:
    """The row (batch, nv) through which an actuator acts on the joints."""
    at = columns_of(model)
    alone = np.arange(len(at.dof)) == i
    row = gathered(at, jnp.where(alone[:, None], acted.moment, jnp.zeros_like(acted.moment)))
    row = jnp.broadcast_to(row, (batch, row.shape[1]))
    return row if model.coupling is None else model.coupling.narrow(row)


def _braked(model: Model, q: Any, alpha: Any, load: Any, acted: Actuation, h: Any, which: list[int]) -> Any:
    """α with the slopes of some actuators added, one after the other."""
    batch = q.shape[0]
    rows = [_moment(model, acted, i, batch) for i in which]
    many = len(which)
    loads = jnp.tile(jnp.broadcast_to(load, (batch, load.shape[1])), (many, 1))
    answers = _answers(model, jnp.tile(q, (many, 1)), jnp.concatenate(rows), loads)
    solved = list(jnp.split(jnp.asarray(answers), many))
    for k, i in enumerate(which):
        c = -h * acted.slope[:, i]
        scale = c / (1 + c * (rows[k] * solved[k]).sum(-1))

        def corrected(x: Any, k: int = k, scale: Any = scale) -> Any:
            return x - solved[k] * (scale * (rows[k] * x).sum(-1))[:, None]

        alpha = corrected(alpha)
        solved[k + 1 :] = [corrected(x) for x in solved[k + 1 :]]
    return alpha


def _inertia(model: Model, body: int, dtype: Any) -> tuple[Any, Any, Any, Any]:
    """Of a lone free body and all that is fixed to it: mass, m c, its cross matrix, and the rotational inertia."""
    last = int(model.structure.v_start[body + 1]) - 1
    mass, first, second = jax.tree.map(lambda x: jnp.asarray(x[last], dtype), tuple(model.rows.inertia))
    return mass, jnp.stack(first), cross_matrix(jnp.stack(first)), second.array()


def _alone(model: Model, qd: Any, load: Any, body: int) -> Any:
    """The matrix (batch, 6, 6) of a lone free body, with its loads."""
    first_row = int(model.structure.v_start[body])
    rows = slice(first_row, first_row + 6)
    mass, _, mc, I = _inertia(model, body, qd.dtype)
    rotors = jnp.asarray(model.rows.armature, qd.dtype)[rows]
    H = jnp.block([[I, mc], [-mc, mass * jnp.eye(3, dtype=qd.dtype)]]) + jnp.diag(rotors)
    return H + jax.vmap(jnp.diag)(jnp.broadcast_to(load[:, rows], (len(qd), 6)))


def _tumbling(model: Model, qd: Any, A: Any, force: Any, h: Any, body: int) -> Any:
    """α (batch, 6) of a lone free body under a force, with its matrix and the slope of its gyroscopic force."""
    _, first, mc, I = _inertia(model, body, qd.dtype)
    omega = qd[:, model.v_index(model.joint_names[body])][:, :3]
    turning = cross_matrix(omega)
    angular = turning @ I - cross_matrix(omega @ I)
    linear = -cross_matrix(jnp.cross(omega, first)) - turning @ mc
    A = A.at[:, :, :3].add(h * jnp.concatenate([angular, linear], 1))
    return solve_general(A, force[..., None])[..., 0]


def cross_matrix(v: Any) -> Any:
    """v×, (..., 3, 3), from (..., 3)."""
    x, y, z = v[..., 0], v[..., 1], v[..., 2]
    zero = jnp.zeros_like(x)
    rows = [jnp.stack(r, -1) for r in ((zero, -z, y), (z, zero, -x), (-y, x, zero))]
    return jnp.stack(rows, -2)

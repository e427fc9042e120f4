"""Forces of actuators, also of those on bodies, which act where their bodies touch something.

An actuator on a body (MuJoCo's adhesion) presses it onto everything that it touches. Its moment is the mean, over all
points of contact of the body, of the joint forces of a unit force along the normal. Near points that do not push yet
count, too. The actuator has no length.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import library
from kinetree._types import Array, Float
from kinetree._varying import jit
from kinetree.actuate import Actuation, actuation
from kinetree.dynamics import gravity_force, inverse_dynamics
from kinetree.model import Model, coupled
from kinetree.model.arguments import evaluate_for

from .problem import has_contacts, has_crowd
from .touch import contact_bodies, touch_of


def sticking(model: Model) -> list[int]:
    """The bodies that actuators press onto others."""
    if model.actuators is None:
        return []
    return [t.first for t in model.actuators.wiring.targets if t.kind == "body"]


def _moments(model: Model, q: Any, bodies: list[int]) -> Any:
    """(batch, actuators, nv), of the actuators on bodies."""
    if has_crowd(model):
        raise ValueError("actuators on bodies need pairs of shapes that are listed: this model has a crowd of them")
    if not has_contacts(model):
        return jnp.zeros((len(q), len(bodies), model.nv), q.dtype)
    place, frame, depth, _ = touch_of(model, q)
    both, near = contact_bodies(model), jnp.isfinite(depth).T  # (points, batch)
    pull = jnp.concatenate([jnp.cross(place, frame[:, :, 0]), frame[:, :, 0]], -1)
    six = jnp.where(near[..., None], jnp.swapaxes(pull, 0, 1), 0.0)  # on the second body, away from the first
    still = jnp.zeros((len(q), model.nv), q.dtype)
    rest = inverse_dynamics(model, q, still, still)

    def pressed(own: np.ndarray) -> Any:
        """Generalised forces of pulls on the points of one body, (batch, nv)."""
        points = np.flatnonzero(own)
        if not len(points):
            return still
        count = jnp.maximum(near[points].sum(0), 1)[:, None].astype(q.dtype)
        wrench = jnp.zeros((model.n_bodies + 1, len(q), 6), q.dtype)  # the last one is the base
        wrench = wrench.at[both[points, 1]].add(-six[points] / count).at[both[points, 0]].add(six[points] / count)
        return rest - inverse_dynamics(model, q, still, still, jnp.swapaxes(wrench[:-1], 0, 1))

    return jnp.stack([pressed((both == body).any(1)) for body in bodies], 1)


@jit
def actuated(model: Model, q: Any, qd: Any, ctrl: Any, act: Any, h: Any) -> Actuation:
    """Forces and rates of a model with actuators and without coupling; `h` is for forces that look a step ahead."""
    bodies = sticking(model)
    return actuation(model, q, qd, ctrl, act, h, _moments(model, q, bodies) if bodies else None, carried(model, q))


def carried(model: Model, q: Any) -> Any:
    """Gravity compensation (batch, nv) that counts as the force of actuators: joints limit the sum of both."""
    share = None if model.world is None else model.world.gravity_compensation
    if model.actuators is None or not model.actuators.wiring.carries or share is None:
        return jnp.zeros((), q.dtype)
    ours = np.zeros(model.nv, bool)
    ours[list(model.actuators.wiring.carries)] = True
    return jnp.where(ours, weight_carried(model, q, share), 0.0)


def weight_carried(model: Model, q: Any, share: Any) -> Any:
    """Generalised forces (batch, nv) that carry a part of each body's weight."""
    weight = jax.tree.map(lambda x: x * share, model.inertia).array()
    return gravity_force(model.replace(inertia=weight), q)


def actuator_force(
    model: Model,
    q: Float[Array, "... nq"],
    qd: Float[Array, "... nv"],
    ctrl: Float[Array, "... nu"],
    act: Float[Array, "... na"] | None = None,
) -> Float[Array, "... nv"]:
    """Generalised forces of the actuators, with the weight that joints leave to them.

    Arguments:
        model: the mechanism, with actuators.
        q, qd: (..., nq), (..., nv); leading axes are batches and broadcast.
        ctrl: controls (..., nu); they are kept within their ranges.
        act: activations (..., na); zero if not given.

    Returns:
        tau, (..., nv), as `forward_dynamics` takes it; zero for a model without actuators.
    """
    force = driving_force(model, q, qd, ctrl, act)
    return force + weight_left(model, q) if leaves_weight(model) else force


def leaves_weight(model: Model) -> bool:
    """True if joints leave gravity compensation to actuators."""
    world, actuators = model.world, model.uncoupled.actuators
    compensated = world is not None and world.gravity_compensation is not None
    return compensated and actuators is not None and bool(actuators.wiring.carries)


@coupled("force")
def weight_left(model: Model, q: Any) -> Any:
    """Forces (..., nv) of the weight that joints leave to actuators."""
    return evaluate_for(model.uncoupled, lambda q: carried(model, q), q=q)


@coupled("force")
def driving_force(model: Model, q: Any, qd: Any, ctrl: Any, act: Any = None) -> Any:
    """Forces of the actuators beside the weight that joints leave to them, (..., nv)."""

    def compute(q: Any, qd: Any, ctrl: Any, act: Any) -> Any:
        if model.actuators is None:
            return library(qd).zeros_like(qd)
        return actuated(model, q, qd, ctrl, act, library(q, model.timestep).asarray(model.timestep, q.dtype)).force

    dtype = getattr(q, "dtype", np.dtype(float))
    still = np.zeros(model.na, dtype if jnp.issubdtype(dtype, jnp.floating) else float)
    return evaluate_for(model.uncoupled, compute, q=q, qd=qd, ctrl=ctrl, act=still if act is None else act)

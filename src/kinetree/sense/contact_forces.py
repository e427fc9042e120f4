"""`kinetree.contact_forces`: the forces of contacts on each body."""

from typing import Any

import numpy as np

from kinetree._arrays import dtype_of, library
from kinetree._types import AnyArray, Float
from kinetree.dynamics.positive import require_solution
from kinetree.model import Model, State, require_state
from kinetree.model.arguments import evaluate_for
from kinetree.model.required import require_model

from .acting import acting
from .pushes import push_bodies


def contact_forces(
    model: Model, state: State, ctrl: Float[AnyArray, "... nu"] | None = None
) -> Float[AnyArray, "... bodies 6"]:
    """Forces on the bodies by contacts, and by equalities between frames.

    Arguments:
        model: the mechanism.
        state: its configuration and velocity.
        ctrl: controls (..., nu) of the actuators; zero if not given.

    Returns:
        (..., n_bodies, 6) in world coordinates: moment about the world origin, then force, as in `f_ext`. For a robot
        at rest `kt.contact_forces(model, state)[..., 5].sum(-1)` is its weight.
    """
    require_model(model)
    require_state(state)
    if ctrl is None:
        ctrl = np.zeros(model.nu, dtype_of(state.q))

    def compute(q: Any, qd: Any, act: Any, time: Any, warm_start: Any, ctrl: Any) -> Any:
        found = acting(model, q, qd, act, warm_start, ctrl)
        xp = library(q, found)
        if found.push is None:
            forces = xp.zeros((len(q), model.n_bodies, 6), q.dtype)
        else:
            moment, force = found.push.on(push_bodies(model), np.eye(model.n_bodies, dtype=bool))
            forces = xp.moveaxis(xp.stack([*moment, *force], 1), -1, 0)
        # At a NaN position contacts are not found, so the forces would be finite but wrong.
        known = xp.isfinite(xp.concatenate([q, found.qdd], -1)).all(-1)[:, None, None]
        return xp.where(known, forces, xp.full_like(forces, xp.nan))

    forces = evaluate_for(model, compute, **state.arrays, ctrl=ctrl)
    flat = forces.reshape(*forces.shape[:-2], -1) if forces.size else forces
    require_solution(model, "contact_forces", flat, q=state.q, qd=state.qd, ctrl=ctrl)
    return forces

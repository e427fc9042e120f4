"""The reduction of inverse weights by the inertia of tendons.

A tendon with armature a along the row U of joints adds a Uᵀ U to the mass matrix. With the rows √a U of all tendons
below each other, (M + Uᵀ U)⁻¹ = M⁻¹ − Y S⁻¹ Yᵀ, where Y = M⁻¹ Uᵀ and S = 1 + U Y (the formula of Woodbury).
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from kinetree.dynamics import forward_dynamics
from kinetree.dynamics.matrices.dense import solve_spd
from kinetree.dynamics.schedules.arranged import arranged, by_position, row_velocities
from kinetree.dynamics.tendons.lengths import SCHEDULE, paths_of, stretched, tendons_of
from kinetree.model import Model
from kinetree.spatial import Vec3
from kinetree.tree import layout, restore

from .joint_groups import present
from .tendons import branches


class Stiffer(NamedTuple):
    """The reductions of the weights of degrees of freedom, of bodies, and of tendons."""

    dof: Any  # (nv,)
    body: Any  # (n, 2)
    tendon: Any  # (tendons,)


def stiffer(free: Model, q: Any, center: Vec3, lengths: Any) -> Stiffer | None:
    """By the inertia of tendons; None if they have none.

    Arguments:
        free: a model without weight.
        q: (nq,), its configuration.
        center: centres of mass of the bodies, in the coordinates of their rows.
        lengths: (tendons, nv), how lengths grow with the joints.
    """
    which = () if tendons_of(free) is None else present(free).tendon_armature
    if not which or not free.nv:
        return None
    tendons, at, q = tendons_of(free), paths_of(free), jnp.asarray(q)
    assert tendons is not None
    numbers, mask = branches(free.tree, at, np.array(which))
    inertia = jnp.maximum(jnp.asarray(tendons.pull.armature, q.dtype)[numbers], 0.0)
    known = jnp.where(inertia > 0, inertia, 1.0)  # so that the root of zero has a derivative
    root = jnp.where(inertia > 0, jnp.sqrt(known), 0.0)
    moment = jnp.broadcast_to(stretched(free, q[None]).moment, (*at.dof.shape, 1))[numbers, :, 0]
    rows = jnp.zeros((len(numbers), free.nv), q.dtype)
    rows = rows.at[np.arange(len(numbers))[:, None], at.dof[numbers]].add(moment * mask * root[:, None])
    every = jnp.broadcast_to(q, (len(rows), free.nq))
    Y = forward_dynamics(free, every, jnp.zeros_like(rows), rows)
    S = jnp.eye(len(rows), dtype=q.dtype) + (rows[:, None] * Y).sum(-1)

    def taken(part: Any) -> Any:
        """Σ part S⁻¹ part over the tendons, which come first."""
        flat = part.reshape(len(rows), -1)
        return (flat * solve_spd(S, flat)).sum(0).reshape(part.shape[1:])

    laid = layout(free.tree, SCHEDULE)
    moved = row_velocities(laid, arranged(laid, free, every), by_position(laid, Y))
    own = np.maximum(free.structure.row_of_body, 0)
    angular, linear = (Vec3(*(restore(laid, c)[own] for c in v)) for v in moved)
    there = linear + angular.cross(Vec3(*(jnp.asarray(c)[:, None] for c in center)))
    halves = [sum(taken(c.T) for c in v) / 3 for v in (there, angular)]
    body = jnp.where((free.structure.row_of_body >= 0)[:, None], jnp.stack(halves, -1), 0.0)
    return Stiffer(taken(Y), body, taken((jnp.asarray(lengths)[None] * Y[:, None]).sum(-1)))

"""Terms of derivatives from springs and rotors of quaternion joints: small blocks, computed by JAX.

Springs of such joints pull along a rotation vector, and along an offset that turns with the body (model/physics.py). A
rotor of a free joint's sliding rows feels ω × v (model/coordinates.py). Few mechanisms have such springs or rotors.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.model import Model, integrate
from kinetree.model.coordinates import armature_shift
from kinetree.model.physics import stretch

from ..schedules.lane_rows import some_are_not_zero


def has_blocks(model: Model) -> bool:
    """False if the model is known to have no such springs and rotors."""
    turning = np.flatnonzero(model.structure.q_of_row < 0)
    if not len(turning):
        return False
    springs = model.passive is not None and some_are_not_zero(model.passive.stiffness[turning])
    return springs or some_are_not_zero((model.rows.armature * model.rows.slide)[turning])


@jax.jit
def blocks(model: Model, q: Any, qd: Any) -> tuple[Any, Any]:
    """Their terms of ∂τ/∂q and ∂τ/∂qd, (batch, nv, nv)."""
    free, coupling = model.uncoupled, model.coupling
    wide_q, wide_qd = (q, qd) if coupling is None else (coupling.widen_q(q), coupling.widen_v(qd))
    turning = jnp.asarray(model.structure.q_of_row < 0, q.dtype)

    def by_spring(step: Any, q: Any) -> Any:
        if model.passive is None:
            return jnp.zeros_like(step)
        _, stiffness, rest = (jnp.asarray(x, q.dtype) for x in model.passive)
        moved = integrate(free, q, step)
        return turning * stiffness * stretch(model.structure, rest, moved[None])[0]

    def by_rotor(qd: Any) -> Any:
        rows = jax.tree.map(lambda x: jnp.asarray(x, qd.dtype)[:, None], model.rows)
        return rows.armature[:, 0] * armature_shift(model.structure, rows, qd[:, None])[:, 0]

    by_q = jax.vmap(jax.jacfwd(by_spring))(jnp.zeros_like(wide_qd), wide_q)
    by_qd = jax.vmap(jax.jacfwd(by_rotor))(wide_qd)
    return (by_q, by_qd) if coupling is None else (coupling.narrow_matrix(by_q), coupling.narrow_matrix(by_qd))

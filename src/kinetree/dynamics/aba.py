"""Forward dynamics by the articulated-body algorithm (algorithms/aba.py), under any schedule."""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree.model import Model
from kinetree.model.coordinates import velocity_product_shift

from .algorithms.aba import aba_of
from .firmness import is_firm
from .joint_terms import row_force
from .schedules.run import run


@jax.jit
def shifted(model: Model, tau: Any, qd: Any) -> Any:
    """Forces on the rows, (batch, nv), from those on the joints."""
    armature, slide = (jnp.asarray(x, tau.dtype) for x in (model.rows.armature, model.rows.slide))
    return row_force(tau, armature, slide, velocity_product_shift(model.structure, qd.T).T)


@jax.jit
def unshifted(model: Model, qdd: Any, qd: Any) -> Any:
    """Accelerations of the joints, (batch, nv), from those of the rows: the shift of quaternion joints is added."""
    return qdd + velocity_product_shift(model.structure, qd.T).T


def forward_dynamics_aba(model: Model, q: Any, qd: Any, tau: Any, f_ext: Any, *, schedule: str = "auto") -> Any:
    """Accelerations, (batch, nv)."""
    return run(aba_of(is_firm(model)), model, {"q": q, "qd": qd, "tau": tau}, f_ext, schedule)["qdd"]

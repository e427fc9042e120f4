"""Forward dynamics by the articulated-body algorithm (algorithms/aba.py), under any schedule."""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree.model import Model
from kinetree.model.coordinates import velocity_product_shift

from .algorithms.aba import ABA
from .positive import require_solution
from .schedules.run import run


@jax.jit
def shifted(model: Model, tau: Any, qd: Any) -> Any:
    """Forces on the rows, (batch, nv): armature resists the joint's acceleration, of which the rows lack the shift."""
    return tau - jnp.asarray(model.rows.armature, tau.dtype) * velocity_product_shift(model.structure, qd.T).T


@jax.jit
def unshifted(model: Model, qdd: Any, qd: Any) -> Any:
    """Accelerations of the joints, (batch, nv), from those of the rows: quaternion joints take their shift back."""
    return qdd + velocity_product_shift(model.structure, qd.T).T


def forward_dynamics_aba(model: Model, q: Any, qd: Any, tau: Any, f_ext: Any, *, schedule: str = "auto") -> Any:
    """Accelerations, (batch, nv)."""
    qdd = run(ABA, model, {"q": q, "qd": qd, "tau": tau}, f_ext, schedule)["qdd"]
    return require_solution(qdd, "aba")

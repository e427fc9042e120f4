"""H x without H: inverse dynamics at rest, without gravity, in two passes.

At rest a spatial acceleration follows the recursion of a velocity, a = X a_parent + S x, and f = I a: so H x is at
once the force that accelerates by x and the generalised momentum at the rates x. Trailing axes of x are free: all
columns of H go at once.
"""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree.spatial import Force, Motion
from kinetree.tree import Layout, inward, outward

from ..algorithms.rnea import WRENCH, pass_on
from ..recursion import Inward, Row
from ..schedules.arranged import VELOCITIES, Arranged
from ..schedules.operators import inward_operator

WRENCHES = inward_operator(Inward("force", pass_on, stretch=WRENCH))


def inertia_times(laid: Layout, at: Arranged, x: Any) -> Any:
    """H x for x by position, (positions, ..., batch)."""
    axes = (slice(None), *(None,) * (x.ndim - 2))
    rows, placed = jax.tree.map(lambda c: c[axes], (at.rows, at.placed))
    still = jnp.zeros(x.shape[1:], x.dtype)
    a = outward(VELOCITIES, laid, Row(at=placed, axis=rows.axis, qd=x), Motion.zero_like(still))
    f = rows.inertia @ a
    received = inward(WRENCHES, laid, Row(at=placed, own=f), Force.zero_like(still))
    return rows.axis.dot(f + received) + rows.armature * x

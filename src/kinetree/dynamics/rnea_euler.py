"""RNEA on the vector tree, as in Lynghus 2026 §5: one scan of second-order motions over the Euler tour, one of world
wrenches.

Kept as the method that started this and as a check on the others. Wrenches are taken about the world origin and
subtree sums are differences of prefix sums, so the error grows with the size of the whole tree; docs/accuracy.md has
the figures (ERRORS).
"""

from typing import Any

import jax
import jax.numpy as jnp

from kinetree.model import Model, relative_motion
from kinetree.model.coordinates import placements, velocity_product_shift
from kinetree.spatial import Force, Vec3
from kinetree.tree.euler import leaffix_sum, rootfix_elements

from .rnea import MOTION, base_rates, body_force


@jax.jit
def rnea_euler(model: Model, q: Any, qd: Any, qdd: Any, f_ext: Any) -> Any:
    """Generalised forces, (batch, nv)."""
    tree = model.tree
    rows = jax.tree.map(lambda x: jnp.asarray(x, q.dtype)[:, None], model.rows)
    placed = placements(model.structure, rows, q.T)
    of_rows = qdd.T - velocity_product_shift(model.structure, qd.T)
    local = relative_motion(placed, rows.axis, qd.T, of_rows)
    motion = rootfix_elements(tree, MOTION, jax.tree.map(lambda x: jnp.broadcast_to(x, of_rows.shape), local))
    gravity = Vec3(*(jnp.full((1, 1), model.gravity[k], q.dtype) for k in range(3)))
    X = motion.transform  # from the world to each row
    own = X.force_to_parent(body_force(rows.inertia, motion.act(base_rates(gravity))))
    if f_ext is not None:
        moving = model.structure.row_of_body >= 0
        applied = jnp.zeros((tree.n, 6, q.shape[0]), q.dtype)
        applied = applied.at[model.structure.row_of_body[moving]].add(jnp.moveaxis(f_ext[:, moving], 0, -1))
        own = own - Force.from_array(jnp.swapaxes(applied, 1, 2))
    return (rows.axis.dot(X.force_to_child(leaffix_sum(tree, own))) + rows.armature * qdd.T).T

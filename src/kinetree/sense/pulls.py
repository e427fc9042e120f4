"""Forces of spatial tendons on bodies, in world axes, for sensors: tendons pull at the ends of their straight lines.

All that acts along a tendon counts: springs, dampers, rotors, actuators and constraints. So it is in MuJoCo 4; older
versions leave tendons out of what force and torque sensors feel.
"""

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from kinetree._arrays import there
from kinetree._varying import jit
from kinetree.constrain.constrained import SCHEDULE
from kinetree.constrain.drift import velocity_drift
from kinetree.constrain.groups import Terms
from kinetree.constrain.joint_groups import Present
from kinetree.constrain.problem import equalities_of
from kinetree.constrain.tendons import constrained_pull, passive_pull, tendon_groups
from kinetree.dynamics.schedules.arranged import arranged, by_position, row_poses
from kinetree.dynamics.tendons.lengths import lines_of, paths_of, tendons_of, velocities
from kinetree.model import Model
from kinetree.model.world import InverseWeights, World
from kinetree.spatial import Vec3
from kinetree.tree import layout, restore

from .pushes import PointPush


def has_lines(model: Model) -> bool:
    """True if some tendon runs through points of bodies."""
    tendons = tendons_of(model)
    return tendons is not None and bool(tendons.routes.spans)


def line_bodies(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """The bodies at the first and second ends of the lines; −1 is the base."""
    tendons = there(tendons_of(model))
    points, bodies = len(tendons.routes.points), tendons.routes.bodies
    ends = np.array([*bodies[:points], *(b for b in bodies[points:] for _ in range(2))], np.int64)
    lines = paths_of(model).lines
    return ends[lines.first], ends[lines.second]


@partial(jit, static_argnums=(0,))
def pulls(
    has: Present, model: Model, weights: InverseWeights, q: Any, qd: Any, qdd: Any, driven: Any, least: Any
) -> PointPush:
    """Pushes of all lines. `driven`: forces (batch, n) of actuators, or None."""
    tendons = there(tendons_of(model))
    laid = layout(model.tree, SCHEDULE)
    force, moment = passive_pull(model, has, q, qd)
    alpha = qdd + velocity_drift(model.structure, qd)
    if has.tendon_armature:
        rotors = jnp.asarray(tendons.pull.armature, q.dtype)[:, None]
        force = force - rotors * velocities(paths_of(model), moment, alpha)
    if driven is not None:
        force = force + _of_actuators(model, driven)
    equal = equalities_of(model)
    known = Terms(model.world or World(), weights, least)
    position_of = np.asarray(laid.position_of)
    groups = tendon_groups(model, known, has, None if equal is None else equal.tendons, q, qd, position_of)
    force = force + constrained_pull(groups, by_position(laid, alpha), len(tendons))
    line, _ = lines_of(model, restore(laid, row_poses(laid, arranged(laid, model, q))), len(q))
    along = line.direction * (line.share * force[paths_of(model).lines.tendon])
    return PointPush(line.end, line.end, along, Vec3.zero_like(along.x))


def _of_actuators(model: Model, driven: Any) -> Any:
    """Forces of actuators along tendons, (n, batch)."""
    tendons, actuators = tendons_of(model), model.actuators
    assert tendons is not None
    assert actuators is not None
    own = np.array([t.first if t.kind == "tendon" else -1 for t in actuators.wiring.targets], np.int64)
    share = jnp.asarray(np.arange(len(tendons))[:, None] == own, driven.dtype)
    return (share * jnp.asarray(actuators.gear, driven.dtype)[:, 0]) @ driven.T

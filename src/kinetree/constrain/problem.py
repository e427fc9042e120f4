"""From a state to the constraint problem: rows of the tree by position, and groups of constraints on them."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import there
from kinetree.dynamics.algorithms.kinematics import body
from kinetree.dynamics.frames import row_rates
from kinetree.dynamics.loops.rows import LoopRows, loop_rows
from kinetree.dynamics.recursion import Row
from kinetree.dynamics.schedules.arranged import Arranged, arranged, by_position, row_poses, row_velocities
from kinetree.dynamics.schedules.layouts import of_bodies
from kinetree.dynamics.schedules.whole import Huge, Placed, Whole, whole_layout
from kinetree.model import Model
from kinetree.model.equalities import Equalities
from kinetree.model.world import InverseWeights, Scene, World
from kinetree.spatial import Force, Mat3, Rates, Scalar, Vec3
from kinetree.tree import Layout, layout

from .carried import Carried
from .contact_groups import contact_groups
from .crowd import Crowded, crowd_contacts, crowd_groups, joined
from .drift import velocity_drift
from .equality_groups import frame_groups, joint_equality_groups
from .groups import Group, HeavyBody, Load, Terms
from .joint_groups import Present, joint_groups
from .newton import FreeTree
from .rigid import rigid_rows
from .tendons import tendon_groups
from .touching import Touching, surfaces_of_pairs, touching, with_base

MAX_ROWS = 1000  # rows; larger trees are walked as a whole, one state after the other


class Problem(NamedTuple):
    """The problem that Newton's method minimises, and its contacts."""

    tree: FreeTree
    groups: list[Group]
    found: Touching | None
    active: Scalar | None  # True for points of contact that push
    loops: LoopRows | None = None  # rows of rigid loops
    crowded: Crowded | None = None  # contacts whose pairs were found in this state
    lost: Any = False  # True if some pairs of the crowd did not fit


def layout_of(model: Model, q: Any, known: Huge | None = None) -> Layout:
    """The layout of a model's tree, for configurations (batch, nq): by levels, or as a whole if it is huge."""
    if model.nv <= MAX_ROWS or model.coupling is not None:
        return layout(model.tree, "levels")
    return whole_layout(model, q, known)


def body_places(laid: Layout, model: Model, at: Arranged) -> tuple[Mat3, Vec3]:
    """Places of all bodies, and of the base after them."""
    _, pose = body(of_bodies(laid, model, Row(pose=row_poses(laid, at))), None)
    return with_base(model, pose["rotation"], pose["position"])


def find_contacts(laid: Layout, model: Model, at: Arranged) -> tuple[Touching, Any, Scalar]:
    """Points of contact, the surfaces of their pairs, and the points that push."""
    scene = there(scene_of(model))
    surfaces = surfaces_of_pairs(scene, at.gravity.x.dtype)
    found = touching(scene, surfaces, *body_places(laid, model, at))
    return found, surfaces, found.point.distance < surfaces.margin[found.pair, None]


def find_crowded(laid: Layout, model: Model, at: Arranged) -> tuple[list, Any]:
    """Contacts within the crowd (crowd.py), and True if some were lost."""
    scene = there(scene_of(model))
    return crowd_contacts(scene, *body_places(laid, model, at), at.gravity.x.dtype)


def scene_of(model: Model) -> Scene | None:
    """Shapes that may touch."""
    world = model.world
    return None if world is None or "contact" in world.disabled else world.scene


def has_contacts(model: Model) -> bool:
    """True if some listed pair of shapes may touch."""
    scene = scene_of(model)
    return scene is not None and bool(scene.layout.pairs)


def may_touch(model: Model) -> bool:
    """True if some pair of shapes may touch, listed or found in each state."""
    return has_contacts(model) or has_crowd(model)


def has_crowd(model: Model) -> bool:
    """True if there are shapes whose pairs are found in each state."""
    scene = scene_of(model)
    return scene is not None and scene.layout.crowd is not None


def equalities_of(model: Model) -> Equalities | None:
    """The equalities that act."""
    world = model.world
    return None if world is None or "equality" in world.disabled else world.equalities


def make_problem(
    laid: Layout, model: Model, has: Present, weights: InverseWeights, q: Any, qd: Any, b: Any, least_time: Any
) -> Problem:
    """From q (batch, nq), qd (batch, nv) and forces b = M a₀ (batch, nv)."""
    at = arranged(laid, model, q)
    known = Terms(model.world or World(), weights, least_time)
    position_of = np.asarray(laid.position_of)
    groups = joint_groups(model, known, has, q.T, qd.T, position_of)
    found = active = None
    poses, velocities = row_poses(laid, at), row_velocities(laid, at, by_position(laid, qd))
    equal = equalities_of(model)
    if equal is not None and equal.joints is not None:
        columns = model.structure.q_of_row
        groups += joint_equality_groups(known, equal.joints, columns, q.T, qd.T, position_of)
    strung = tendon_groups(model, known, has, None if equal is None else equal.tendons, q, qd, position_of)
    groups += [s.group for s in strung]
    if equal is not None and equal.frames is not None:
        zero = Vec3.zero_like(at.gravity.x)
        rates = row_rates(laid, model, at, qd, -velocity_drift(model.structure, qd), Rates(zero, zero, zero))
        groups += frame_groups(model, known, equal.frames, Carried(poses, velocities, rates), position_of)
    if has_contacts(model):
        found, surfaces, active = find_contacts(laid, model, at)
        groups += contact_groups(model, known, found, surfaces, poses, velocities, position_of)
    crowded, lost = None, False
    if has_crowd(model):
        made, lost = find_crowded(laid, model, at)
        groups += crowd_groups(model, known, made, poses, velocities, position_of)
        crowded = joined(made)
    tree = _tree(laid, at, by_position(laid, b))
    if model.loops is None:
        return Problem(tree, groups, found, active, crowded=crowded, lost=lost)
    rows = loop_rows(laid, model, q, qd, -velocity_drift(model.structure, qd), at)
    tree = tree._replace(rigid=rigid_rows(laid, model.loops, rows))
    return Problem(tree, groups, found, active, rows, crowded, lost)


def _tree(laid: Layout, at: Arranged, b: Any) -> FreeTree:
    inertia = jax.tree.map(lambda x: jnp.broadcast_to(x, b.shape), at.rows.inertia.articulated())
    filled = np.zeros((laid.positions, 1), bool)
    filled[np.asarray(laid.position_of)] = True
    armature = jnp.where(filled, at.rows.armature, 1.0)  # nothing is singular at positions without a row
    own = Load(jnp.broadcast_to(armature, b.shape), b, HeavyBody(inertia, Force.zero_like(b)))
    return FreeTree(laid if isinstance(laid, Whole) else Placed.of(laid, at), own)

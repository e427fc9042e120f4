"""Forces of contacts and equalities on bodies, in world axes, for sensors."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.constrain.contact_groups import members_of
from kinetree.constrain.drift import velocity_drift
from kinetree.constrain.equality_groups import frame_members
from kinetree.constrain.joint_groups import Present
from kinetree.constrain.newton import at_motion, respond
from kinetree.constrain.problem import equalities_of, has_contacts, make_problem
from kinetree.constrain.touch import contact_bodies
from kinetree.dynamics.schedules.arranged import arranged, by_position, row_poses
from kinetree.model import Model
from kinetree.model.world import InverseWeights
from kinetree.spatial import Vec3
from kinetree.tree import Layout, pick

from .felt import Felt, felt_by_groups, in_world


class PointPush(NamedTuple):
    """Forces on second bodies at points, (points, batch), and the opposite on first ones."""

    at_first: Vec3
    at_second: Vec3
    force: Vec3
    moment: Vec3

    def on(self, bodies: tuple[np.ndarray, np.ndarray], within: np.ndarray) -> tuple[Vec3, Vec3]:
        """Moment about the origin, and force, on sets of bodies, (sets, bodies), from the first and second bodies."""
        first, second = bodies
        padded = np.concatenate([within, np.zeros((len(within), 1), bool)], 1)  # forces on the base are not counted
        total: list[Vec3] = []
        for pushed, sign, point in ((first, -1.0, self.at_first), (second, 1.0, self.at_second)):
            share = (padded[:, pushed] * sign).astype(self.force.x.dtype)
            moment = self.moment + point.cross(self.force)
            total += [Vec3(*(share @ c for c in v)) for v in (moment, self.force)]
        return total[0] + total[2], total[1] + total[3]


def push_bodies(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """The first and second bodies of all pushes, of contacts and then of equalities; −1 is the base."""
    both = []
    if has_contacts(model):
        both.append(contact_bodies(model).T)
    equal = equalities_of(model)
    if equal is not None and equal.frames is not None:
        order = np.concatenate([which for which, _ in frame_members(model, equal.frames)])
        own = [np.array(b, np.int64)[order] for b in (equal.frames.bodies1, equal.frames.bodies2)]
        both.append((own[0], own[1]))
    first, second = (np.concatenate(x) for x in zip(*both, strict=True))
    return first, second


def pushes_of(felt: Felt) -> PointPush:
    """The pushes of contacts."""
    return PointPush(felt.position, felt.position, *in_world(felt))


def pushes(
    laid: Layout, model: Model, has: Present, weights: InverseWeights, q: Any, qd: Any, qdd: Any, least: Any
) -> tuple[Felt | None, PointPush | None]:
    """Contacts with their forces, and all pushes of contacts and equalities between frames, at given accelerations."""
    problem = make_problem(laid, model, has, weights, q, qd, jnp.zeros_like(qd), least)
    if not problem.groups:
        return None, None
    x = by_position(laid, qdd + velocity_drift(model.structure, qd))
    responses = respond(problem.groups, at_motion(problem.tree, problem.groups, x))
    parts: list[PointPush] = []
    felt, contacts = None, 0
    if problem.found is not None:
        contacts = len(members_of(model, problem.found))
        felt = felt_by_groups(model, problem.found, [r.force for r in responses[len(responses) - contacts :]])
        parts.append(pushes_of(felt))
    equal = equalities_of(model)
    if equal is not None and equal.frames is not None:
        poses = row_poses(laid, arranged(laid, model, q))
        chosen = frame_members(model, equal.frames)
        start = len(responses) - contacts - len(chosen)
        for k, (members, moves) in enumerate(chosen):
            still = [x[members] for x in (equal.frames.position1, equal.frames.position2)]
            parts.append(_frames(moves, still, problem.groups[start + k], responses[start + k].force, poses))
    whole = jax.tree.map(lambda *x: jnp.concatenate(x), *parts) if parts else None
    return felt, whole


def _frames(moves: tuple[bool, bool], still: list[Any], group: Any, force: Any, poses: Any) -> PointPush:
    """Forces of equalities. Anchors are where their groups have them, those of the base where it has them: `still`."""
    zero = jnp.zeros_like(force[0])
    J = group.J
    both = ((J.X1, J.at1), (J.X2, J.at2)) if all(moves) else ((J.X, J.at),) * 2
    moment = Vec3(zero, zero, zero) if J.turn is None else J.turn.t_mul(Vec3(*force[3:]))

    def place(X: Any, at: Any) -> Vec3:
        pose = pick(poses, np.array(at))
        return pose.position + pose.orientation.turn(X.r)

    def fixed(position: Any) -> Vec3:
        return Vec3(*(jnp.asarray(position, zero.dtype)[:, k, None] + zero for k in range(3)))

    one, two = (place(*b) if m else fixed(p) for b, m, p in zip(both, moves, still, strict=True))
    return PointPush(one, two, Vec3(*force[:3]), moment)

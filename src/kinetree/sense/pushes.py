"""What contacts and equalities do to bodies, in world axes, as sensors feel it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.constrain.contact_groups import members_of
from kinetree.constrain.drift import velocity_drift
from kinetree.constrain.equality_groups import frame_members
from kinetree.constrain.joint_groups import Present
from kinetree.constrain.newton import at_motion, respond
from kinetree.constrain.problem import equalities_of, make_problem
from kinetree.dynamics.schedules.arranged import arranged, by_position, row_poses
from kinetree.model import Model
from kinetree.model.world import InverseWeights
from kinetree.spatial import Mat3, Scalar, Vec3
from kinetree.tree import Layout


class Push(NamedTuple):
    """Forces on second bodies at points, (points, batch), and the opposite on first ones."""

    first: np.ndarray  # (points,): bodies; −1 is the base
    second: np.ndarray
    at_first: Vec3
    at_second: Vec3
    force: Vec3
    moment: Vec3
    normal: Scalar  # the force along the normal; of contacts, which come first
    normals: Vec3

    def on(self, within: np.ndarray) -> tuple[Vec3, Vec3]:
        """Moment about the origin, and force, on sets of bodies, (sets, bodies)."""
        padded = np.concatenate([within, np.zeros((len(within), 1), bool)], 1)  # nobody counts what is done to the base
        total: list[Vec3] = []
        for bodies, sign, point in ((self.first, -1.0, self.at_first), (self.second, 1.0, self.at_second)):
            share = jnp.asarray(padded[:, bodies] * sign, self.force.x.dtype)
            moment = self.moment + point.cross(self.force)
            total += [Vec3(*(jnp.einsum("sp,pn->sn", share, c) for c in v)) for v in (moment, self.force)]
        return total[0] + total[2], total[1] + total[3]

    def felt(self, body: int, hits: Callable[[Vec3, Vec3], Scalar]) -> Scalar:
        """The sum of normal forces on a body, (batch,), whose lines meet a zone."""
        count = len(self.normal)
        mine = np.flatnonzero((self.first[:count] == body) | (self.second[:count] == body))
        if not len(mine):
            return jnp.zeros(self.force.x.shape[-1], self.force.x.dtype)
        outward = jnp.asarray(np.where(self.second[mine] == body, -1.0, 1.0), self.force.x.dtype)[:, None]
        normal, point, force = jax.tree.map(lambda x: x[mine], (self.normals, self.at_second, self.normal))
        met = hits(point, normal * outward) & (force > 0)
        return jnp.where(met, force, 0.0).sum(0)


def pushes(
    laid: Layout, model: Model, has: Present, weights: InverseWeights, q: Any, qd: Any, qdd: Any, least: Any
) -> Push | None:
    """Of all contacts, and of equalities between frames, at given accelerations."""
    problem = make_problem(laid, model, has, weights, q, qd, jnp.zeros_like(qd), least)
    if not problem.groups:
        return None
    x = by_position(laid, qdd + velocity_drift(model.structure, qd))
    responses = respond(problem.groups, at_motion(laid, problem.tree, problem.groups, x))
    parts: list[Push] = []
    if problem.found is not None:
        members = members_of(model, problem.found)
        of_contacts = responses[len(responses) - len(members) :]
        parts += [_contacts(model, problem.found, k, r.force) for k, r in zip(members, of_contacts, strict=True)]
    count = len(parts)
    equal = equalities_of(model)
    if equal is not None and equal.frames is not None:
        poses = row_poses(laid, arranged(laid, model, q))
        chosen = frame_members(model, equal.frames)
        contacts = 0 if problem.found is None else count
        start = len(responses) - contacts - len(chosen)
        for k, (which, (one, two)) in enumerate(chosen):
            group = problem.groups[start + k]
            parts.append(_frames(equal.frames, which, (one, two), group, responses[start + k].force, poses))
    if not parts:
        return None
    at_first, at_second, force, moment = jax.tree.map(lambda *x: jnp.concatenate(x), *(p[2:6] for p in parts))
    none = Vec3(*(jnp.zeros((0, len(q)), q.dtype),) * 3)
    normal = jnp.concatenate([p.normal for p in parts[:count]]) if count else none.x
    normals = jax.tree.map(lambda *x: jnp.concatenate(x), *(p.normals for p in parts[:count])) if count else none
    first, second = (np.concatenate([p[k] for p in parts]) for k in (0, 1))
    return Push(first, second, at_first, at_second, force, moment, normal, normals)


def _contacts(model: Model, found: Any, points: np.ndarray, force: Any) -> Push:
    assert model.world is not None
    assert model.world.scene is not None
    layout = model.world.scene.layout
    pairs = [layout.pairs[k] for k in found.pair[points]]
    first, second = (np.array([layout.bodies[p[k]] for p in pairs], np.int64) for k in (0, 1))
    contact = jax.tree.map(lambda x: x[points], found.point)
    zero = jnp.zeros_like(force[0])
    six = [*force, *(zero,) * (6 - len(force))]
    back: Mat3 = contact.frame
    world, moment = back.t_mul(Vec3(*six[:3])), back.t_mul(Vec3(*six[3:]))
    position = contact.position
    return Push(first, second, position, position, world, moment, six[0], Vec3(*back.rows[0]))


def _frames(equal: Any, which: np.ndarray, moves: tuple[bool, bool], group: Any, force: Any, poses: Any) -> Push:
    """Forces of equalities, whose anchors are where their groups have them."""
    first, second = (np.array(b, np.int64)[which] for b in (equal.bodies1, equal.bodies2))
    zero = jnp.zeros_like(force[0])
    if all(moves):
        both, turn = ((group.J.X1, group.J.at1), (group.J.X2, group.J.at2)), group.J.turn
    else:
        both, turn = ((group.X, group.at),) * 2, group.turn
    moment = Vec3(zero, zero, zero) if turn is None else turn.t_mul(Vec3(*force[3:]))
    sign = 1.0 if moves[1] else -1.0

    def place(X: Any, at: Any) -> Vec3:
        pose = jax.tree.map(lambda x: x[np.array(at)], poses)
        return pose.position + pose.orientation.turn(X.r)

    one, two = (place(*b) for b in both)
    return Push(first, second, one, two, Vec3(*force[:3]) * sign, moment * sign, zero, Vec3(zero, zero, zero))

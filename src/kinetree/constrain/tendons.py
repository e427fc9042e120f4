"""Forces of tendons: springs, dampers and rotors along them, and constraints on their lengths, as in MuJoCo.

A tendon moves several joints, so its limits, friction loss and equalities are coupling rows. Its armature is inertia:
it resists the second derivative of the length, J x + J̇ qd. The part with x is a coupling row, too, without softness;
the other part is a force. MuJoCo adds armature only to existing entries of its mass matrix, pairs of a row and a row
that carries it. Between branches of the tree there are no entries. So a tendon over two branches resists with each by
itself.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._arrays import there
from kinetree.dynamics.frames import row_rates
from kinetree.dynamics.schedules.arranged import arranged, by_position, row_poses, row_velocities
from kinetree.dynamics.tendons.lengths import SCHEDULE, lines_of, on_joints, paths_of, stretched, tendons_of, velocities
from kinetree.dynamics.tendons.paths import Paths
from kinetree.model import Model
from kinetree.model.equalities import TendonEqualities
from kinetree.model.tendons import NO_WRAP, Tendons
from kinetree.spatial import Motion, Rates, Scalar, Vec3
from kinetree.tree import Tree, layout, pick, restore

from .carried import Carried, row_ends
from .cones import Dry, Hold, OneSided
from .drift import velocity_drift
from .equality_groups import follow
from .groups import Group, Terms
from .jacobians import AlongJoints
from .joint_groups import Present, beyond
from .softness import parts, soft_row


class TendonRows:
    """The tendons of a model in one state, as rows on joints."""

    def __init__(self, model: Model, q: Any, qd: Any, position_of: np.ndarray):
        """From q (batch, nq), qd (batch, nv)."""
        tendons = there(tendons_of(model))
        self.tendons: Tendons = tendons
        self.at: Paths = paths_of(model)
        self.length, self.moment = stretched(model, q)
        self.velocity = velocities(self.at, self.moment, qd)
        self.moment = jnp.broadcast_to(self.moment, (*self.at.dof.shape, q.shape[0]))
        self.positions = position_of[self.at.dof]
        self.dtype = q.dtype

    def number(self, name: str, which: np.ndarray) -> Any:
        """A number of each of some tendons, (k, 1) or (k, several)."""
        values = jnp.asarray(getattr(self.tendons.pull, name), self.dtype)[which]
        return values[:, None] if values.ndim == 1 else values

    def along(self, which: np.ndarray, factor: Scalar | float = 1.0) -> AlongJoints:
        """The Jacobian rows of some tendons."""
        return AlongJoints(self.moment[which] * factor, self.positions[which])


class Strung(NamedTuple):
    """A group of constraints, and the tendons that each of its rows pulls, with factors of its force."""

    group: Group
    pulls: tuple[tuple[np.ndarray, Any], ...] = ()


def tendon_groups(
    model: Model, known: Terms, has: Present, equal: TendonEqualities | None, q: Any, qd: Any, position_of: np.ndarray
) -> list[Strung]:
    """Limits, friction loss, equalities and armature; q (batch, nq), qd (batch, nv)."""
    if not (has.tendon_rows or equal is not None):
        return []
    strings = TendonRows(model, q, qd, position_of)
    weight = jnp.asarray(known.weights.tendon, q.dtype)[:, None]
    groups: list[Strung] = []
    for sign, numbers in ((1, has.tendon_lower), (-1, has.tendon_upper)):
        if not numbers:
            continue
        own = np.array(numbers)
        bound = strings.number("range", own)[:, int(sign < 0), None]
        margin = strings.number("margin", own)
        distance, velocity = sign * (strings.length[own] - bound), sign * strings.velocity[own]
        soft = parts(strings.number("limit_solref", own)), parts(strings.number("limit_solimp", own))
        D, ref = beyond(*soft, weight[own], distance, margin, velocity, known.least_time)
        groups.append(Strung(Group(strings.along(own, float(sign)), (ref,), OneSided(D)), ((own, sign),)))
    if has.tendon_loss:
        own = np.array(has.tendon_loss)
        most, velocity = strings.number("friction", own), strings.velocity[own]
        soft = parts(strings.number("friction_solref", own)), parts(strings.number("friction_solimp", own))
        active = jnp.broadcast_to(most > 0, velocity.shape)
        D, ref = soft_row(*soft, weight[own], jnp.zeros_like(velocity), velocity, active, known.least_time)
        groups.append(Strung(Group(strings.along(own), (ref,), Dry(D, most)), ((own, 1),)))
    if equal is not None:
        groups.append(_equalities(strings, known, equal, weight))
    if has.tendon_armature:
        own, mask = branches(model.tree, strings.at, np.array(has.tendon_armature))
        J = AlongJoints(strings.moment[own] * jnp.asarray(mask, q.dtype)[:, :, None], strings.positions[own])
        inertia = strings.number("armature", own) + jnp.zeros_like(strings.length[own])
        groups.append(Strung(Group(J, (jnp.zeros_like(inertia),), Hold((inertia,)), inertial=True)))
    return groups


def _equalities(strings: TendonRows, known: Terms, equal: TendonEqualities, weight: Any) -> Strung:
    one, second = np.array(equal.tendons1, np.int64), np.array(equal.tendons2, np.int64)
    follows, two = jnp.asarray((second >= 0)[:, None], strings.dtype), np.maximum(second, 0)
    start = jnp.asarray(strings.tendons.start, strings.dtype)[:, None]
    solref, solimp, c = (parts(jnp.asarray(x, strings.dtype)) for x in (equal.solref, equal.solimp, equal.coefficients))
    dif = (strings.length[two] - start[two]) * follows
    value, slope = follow(c, dif, follows)
    r, velocity = strings.length[one] - start[one] - c[0] - value, strings.velocity[one] - slope * strings.velocity[two]
    D, ref = soft_row(solref, solimp, weight[one] + follows * weight[two], r, velocity, True, known.least_time)
    moment = jnp.concatenate([strings.moment[one], -slope[:, None] * strings.moment[two]], 1)
    at = np.concatenate([strings.positions[one], strings.positions[two]], 1)
    return Strung(Group(AlongJoints(moment, at), (ref,), Hold((D,))), ((one, 1), (two, -slope)))


def _on_one_branch(tree: Tree, these: np.ndarray, those: np.ndarray) -> np.ndarray:
    """(these, those): True where one row carries the other."""
    lp, rp = np.asarray(tree.lp), np.asarray(tree.rp)
    mine = these[:, None]
    return ((lp[mine] <= lp[those]) & (rp[those] <= rp[mine])) | ((lp[those] <= lp[mine]) & (rp[mine] <= rp[those]))


def meet(tree: Tree, rows: np.ndarray) -> bool:
    """True if these rows of a tendon, as `branches` finds them, are several branches and what carries these."""
    return not _on_one_branch(tree, rows, rows).all()


def branches(tree: Tree, at: Paths, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of armature: (k,) numbers of tendons, and (k, width) the part of each. Its rows do not carry one another.

    A tendon whose branches meet in a row that it also moves stays whole (`meet`).
    """
    numbers, masks = [], []
    for t in which:
        open_, dof = list(np.flatnonzero(at.used[t])), at.dof[t]
        while open_:
            part, new = set(), {open_[0]}
            while new:
                part |= new
                related = _on_one_branch(tree, dof[sorted(part)], dof)
                new = {k for k in open_ if related[:, k].any()} - part
            numbers.append(t)
            masks.append(np.isin(np.arange(len(dof)), sorted(part)))
            open_ = [k for k in open_ if k not in part]
    return np.array(numbers, np.int64), np.array(masks, float).reshape(len(numbers), at.dof.shape[1])


def stretch_outside(length: Scalar, low: Scalar, high: Scalar) -> Scalar:
    """How much longer a spring is than its longest length at rest, or shorter than the shortest one.

    Where both are its length now, as at the start of most springs, the slope is 1: that of two halves.
    """
    return jnp.maximum(length - high, 0.0) + jnp.minimum(length - low, 0.0)


def tendon_force(model: Model, has: Present, q: Any, qd: Any) -> Any:
    """Joint forces of springs, dampers and the velocity terms of armature, (batch, nv)."""
    force, moment = passive_pull(model, has, q, qd)
    return on_joints(paths_of(model), moment, force, qd.shape[1])


def passive_pull(model: Model, has: Present, q: Any, qd: Any) -> tuple[Any, Any]:
    """The same along tendons, (n, batch), and their moments."""
    tendons, at = tendons_of(model), paths_of(model)
    assert tendons is not None
    length, moment = stretched(model, q)
    pull = jax.tree.map(lambda x: jnp.asarray(x, q.dtype)[..., None], tendons.pull)
    stretch = stretch_outside(length, pull.slack[:, 0], pull.slack[:, 1])
    force = -pull.stiffness * stretch - pull.damping * velocities(at, moment, qd)
    spatial = {s.tendon for s in tendons.routes.spans}
    if spatial & set(has.tendon_armature):
        force = force - pull.armature * bending(model, q, qd)
    return force, moment


def constrained_pull(groups: list[Strung], x: Any, n: int) -> Any:
    """Forces of constraints along tendons, (n, batch), at accelerations x by position."""
    total = jnp.zeros((n, x.shape[-1]), x.dtype)
    for group, pulls in groups:
        if pulls:
            (a,) = group.J.of(x, Motion.zero_like(x))
            (force,) = group.response((a - group.ref[0],)).force
            for tendons, factor in pulls:
                total = total.at[tendons].add(factor * force)
    return total


def bending(model: Model, q: Any, qd: Any) -> Any:
    """J̇ qd, (n, batch): the second derivatives of lengths for x = 0, for lines without a wrap."""
    tendons = there(tendons_of(model))
    batch, laid = q.shape[0], layout(model.tree, SCHEDULE)
    at, position_of = arranged(laid, model, q), np.asarray(laid.position_of)
    zero = Vec3.zero_like(at.gravity.x)
    rates = row_rates(laid, model, at, qd, -velocity_drift(model.structure, qd), Rates(zero, zero, zero))
    poses = row_poses(laid, at)
    rows = Carried(poses, row_velocities(laid, at, by_position(laid, qd)), rates)
    still = np.tile([1.0, 0.0, 0.0, 0.0], (len(tendons.routes.points), 1))
    end = row_ends(rows, np.array(tendons.routes.points, np.int64), tendons.points, still, position_of)
    line, _ = lines_of(model, restore(laid, poses), batch)
    which = paths_of(model).lines
    straight = np.flatnonzero(which.wrap == NO_WRAP)
    first, second = which.first[straight], which.second[straight]

    def apart(v: Vec3) -> Vec3:
        return Vec3(*(c[second] - c[first] for c in v))

    speed, acceleration = apart(end.linear), apart(end.acceleration)
    own = pick(line, straight)
    along, some = own.direction.dot(speed), own.length > 0
    across = (speed.dot(speed) - along * along) / jnp.where(some, own.length, 1.0)
    value = (own.direction.dot(acceleration) + jnp.where(some, across, 0.0)) * own.share
    return jnp.zeros((len(tendons), batch), q.dtype).at[which.tendon[straight]].add(value)

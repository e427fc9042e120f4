"""Equalities as constraints: frames of two bodies held together, joints that follow others.

The residual of a weld's axes is the vector part of conj(Q₂) Q₁, times the torque scale, as in MuJoCo. Its rate is ½
conj(Q₂) (ω₁ − ω₂) Q₁. Reference accelerations of frames leave out the velocity terms: −b v − k d r − J̇ v.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree.model import Model
from kinetree.model.equalities import CONNECT, WELD, FrameEqualities, JointEqualities
from kinetree.spatial import Mat3, Quaternion, Scalar, Vec3

from .carried import Carried, ends
from .cones import Hold, Vector
from .groups import Group, Terms
from .jacobians import AlongJoints, BetweenFrames, OnFrame, OnJoint
from .softness import impedance, parts, reference, regularisation, soft_row


def _vector(q: Quaternion) -> Vec3:
    return Vec3(q.x, q.y, q.z)


def _pure(v: Vec3) -> Quaternion:
    return Quaternion(jnp.zeros_like(v.x), *v)


def _half(q: Quaternion) -> Quaternion:
    return Quaternion(*(0.5 * c for c in q))


def frame_members(model: Model, equal: FrameEqualities) -> list[tuple[np.ndarray, tuple[bool, bool]]]:
    """The equalities of each group, and which of their bodies move: connects first, then welds."""
    held, b1, b2 = (np.array(x, np.int64) for x in (equal.held, equal.bodies1, equal.bodies2))
    moves1, moves2 = (model.structure.rows_of(b) >= 0 for b in (b1, b2))
    found = [
        (np.flatnonzero((held == size) & (moves1 == one) & (moves2 == two)), (one, two))
        for size in (CONNECT, WELD)
        for one, two in ((True, True), (False, True), (True, False))
    ]
    return [(members, moves) for members, moves in found if len(members)]


def frame_groups(model: Model, known: Terms, equal: FrameEqualities, rows: Carried, position_of: Any) -> list[Group]:
    """Groups of connects and of welds: between two moving bodies, and between one and the base."""
    b1, b2 = (np.array(x, np.int64) for x in (equal.bodies1, equal.bodies2))
    groups: list[Group] = []
    for members, moves in frame_members(model, equal):
        part = jax.tree.map(lambda x, k=members: x[k], equal)
        size = equal.held[members[0]]
        groups.append(_frames(model, known, part, rows, size, (b1[members], b2[members]), moves, position_of))
    return groups


class FrameRows(NamedTuple):
    """Rows of a connect or a weld: the error, its rate, and the velocity terms of its second derivative."""

    r: Vector
    v: Vector
    product: Vector
    turn: Mat3 | None  # from the rotation of the second frame relative to the first to the last three rows


def frame_rows(first: Any, second: Any, size: int, scale: Scalar) -> FrameRows:
    """From two ends (carried.py), elementwise."""
    r, v = [*(second.position - first.position)], [*(second.linear - first.linear)]
    product = [*(second.acceleration - first.acceleration)]
    if size == CONNECT:
        return FrameRows(tuple(r), tuple(v), tuple(product), None)
    back, ahead = second.orientation.conjugate(), first.orientation
    spin, alpha = second.omega - first.omega, second.alpha - first.alpha

    def seen(left: Quaternion, v: Vec3, right: Quaternion) -> Vec3:
        return _vector(left * _pure(v) * right) * (0.5 * scale)

    one, zero = jnp.ones_like(r[0]), jnp.zeros_like(r[0])
    unit = (Vec3(one, zero, zero), Vec3(zero, one, zero), Vec3(zero, zero, one))
    turn = Mat3(*Mat3(*(c for e in unit for c in seen(back, e, ahead))).T)
    back_rate = _half(_pure(second.omega) * second.orientation).conjugate()
    ahead_rate = _half(_pure(first.omega) * ahead)
    r += [*(_vector(back * ahead) * -scale)]
    v += [*seen(back, spin, ahead)]
    product += [*(seen(back_rate, spin, ahead) + seen(back, alpha, ahead) + seen(back, spin, ahead_rate))]
    return FrameRows(tuple(r), tuple(v), tuple(product), turn)


def soft_frame(rows: FrameRows, solref: Vector, solimp: Vector, weight: tuple, least_time: Scalar) -> tuple:
    """Reference accelerations and stiffness D; the weights are those of translation and rotation."""
    distance = sum((x * x for x in rows.r[1:]), start=rows.r[0] * rows.r[0])
    some = distance > 0
    distance = jnp.where(some, jnp.sqrt(jnp.where(some, distance, 1.0)), 0.0)
    d = impedance(solimp, distance)
    k, b = reference(solref, solimp, least_time)
    D = tuple(1 / regularisation(d, weight[int(i > 2)]) for i in range(len(rows.r)))
    return tuple(-b * y - k * d * x - z for x, y, z in zip(rows.r, rows.v, rows.product, strict=True)), D


def _frames(
    model: Model, known: Terms, equal: Any, rows: Carried, size: int, bodies: Any, moves: Any, position_of: Any
) -> Group:
    first = ends(model, rows, bodies[0], equal.position1, equal.orientation1, position_of)
    second = ends(model, rows, bodies[1], equal.position2, equal.orientation2, position_of)
    dtype = first.position.x.dtype
    found = frame_rows(first, second, size, jnp.asarray(equal.torque_scale, dtype)[:, None])
    solimp, solref = parts(jnp.asarray(equal.solimp, dtype)), parts(jnp.asarray(equal.solref, dtype))
    weight = jnp.asarray(known.weights.body, dtype)
    one, two = (jnp.where((own >= 0)[:, None], weight[np.maximum(own, 0)], 0.0) for own in bodies)
    ref, D = soft_frame(found, solref, solimp, parts(one + two), known.least_time)
    if all(moves):
        return Group(BetweenFrames(first.X, second.X, found.turn, first.at, second.at, size), ref, Hold(D))
    end, sign = (second, 1.0) if moves[1] else (first, -1.0)
    return Group(OnFrame(end.X, found.turn, sign, end.at, size), ref, Hold(D))


def follow(c: Vector, dif: Any, on: Any) -> tuple[Any, Any]:
    """A polynomial beyond its first term, and its slope, which is zero where `on` is."""
    value = dif * (c[1] + dif * (c[2] + dif * (c[3] + dif * c[4])))
    return value, (c[1] + dif * (2 * c[2] + dif * (3 * c[3] + dif * 4 * c[4]))) * on


def joint_equality_groups(
    known: Terms, equal: JointEqualities, q_of_row: np.ndarray, q: Any, qd: Any, position_of: Any
) -> list[Group]:
    """Groups of joints that follow others, and of joints that are held; q (nq, batch), qd (nv, batch)."""
    rows1, rows2 = np.array(equal.rows1, np.int64), np.array(equal.rows2, np.int64)
    groups: list[Group] = []
    for follows in (True, False):
        members = np.flatnonzero((rows2 >= 0) == follows)
        if not len(members):
            continue
        part: Any = jax.tree.map(lambda x, k=members: jnp.asarray(x, qd.dtype)[k], equal)
        one, two = rows1[members], np.maximum(rows2[members], 0)
        on = float(follows)
        c = parts(part.coefficients)
        dif = (q[q_of_row[two]] - part.reference2[:, None]) * on
        value, slope = follow(c, dif, on)
        r = q[q_of_row[one]] - part.reference1[:, None] - c[0] - value
        dof = jnp.asarray(known.weights.dof, qd.dtype)[:, None]
        both, weight = (parts(part.solref), parts(part.solimp)), dof[one] + on * dof[two]
        D, ref = soft_row(*both, weight, r, qd[one] - slope * qd[two], True, known.least_time)
        at = position_of[np.stack([one, two], 1)]
        if follows:
            both = jnp.stack([jnp.ones_like(slope), -slope], 1)
            groups.append(Group(AlongJoints(both, at), (ref,), Hold((D,))))
        else:
            groups.append(Group(OnJoint(at[:, 0]), (ref,), Hold((D,))))
    return groups

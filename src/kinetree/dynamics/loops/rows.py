"""The rows of rigid loops: G qd is the rate at which a loop opens, G qdd + drift its acceleration (held.py)."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from kinetree.model import Loops, Model, Structure
from kinetree.model.equalities import JointEqualities
from kinetree.model.memory import require_matrices
from kinetree.spatial import Quaternion, Rates, Vec3
from kinetree.tree import Layout, pick, restore

from ..frames import row_rates, with_base
from ..schedules.arranged import Arranged, arranged, by_position, row_poses, row_velocities
from .held import JOINT, LINEAR, LoopEnd, classes_of, following_row, held_rows, wanted_of


class LoopRows(NamedTuple):
    """All rows of a state, (batch, m), loop by loop; rows of joints that follow others come last."""

    G: Any  # (batch, m, nv)
    velocity: Any  # G qd
    drift: Any  # the rest of the acceleration of a row: G qdd + drift
    error: Any  # how far a loop is open: metres and radians
    screw: Any  # (batch, m, 6): a unit force of the row on the second body, in the world, about its origin


class RowLayout(NamedTuple):
    """The static facts about the rows of loops."""

    loop: np.ndarray  # (m,): which loop
    classes: np.ndarray  # of all rows, those of joints too


def row_layout(loops: Loops) -> RowLayout:
    """Rows of all loops."""
    parts = [classes_of(kind) for kind in loops.kinds]
    follow = 0 if loops.joints is None else len(loops.joints.rows1)
    every = [*(p for own in parts for p in own), *[JOINT] * follow]
    return RowLayout(np.repeat(np.arange(len(parts)), [len(own) for own in parts]), np.array(every, np.int64))


def _columns(x: Any, dtype: Any) -> list[Any]:
    x = jnp.asarray(x, dtype)
    return [x[:, k, None] for k in range(x.shape[1])]


def _end(rows: tuple, carrier: np.ndarray, position: Any, orientation: Any) -> LoopEnd:
    pose, velocity, rates = pick(rows, carrier + 1)
    dtype = pose.position.x.dtype
    turned = pose.orientation.turn
    own = turned(Vec3(*_columns(position, dtype)))
    omega, alpha = turned(velocity.angular), turned(rates.alpha)
    return LoopEnd(
        pose.orientation * Quaternion(*_columns(orientation, dtype)),
        pose.position + own,
        omega,
        turned(velocity.linear) + omega.cross(own),
        alpha,
        turned(rates.acceleration) + alpha.cross(own) + omega.cross(omega.cross(own)),
    )


def _carries(structure: Structure, carrier: np.ndarray) -> np.ndarray:
    """(n, rows, 1): True where a row moves a frame."""
    lp, rp = structure.tree.lp, structure.tree.rp
    own = np.maximum(carrier, 0)[:, None]
    return ((carrier[:, None] >= 0) & (lp <= lp[own]) & (rp[own] <= rp))[..., None]


def _rows_of_frames(model: Model, loops: Loops, at: Any, rows: tuple) -> tuple[Any, ...]:
    """G (m, nv, batch); velocity, drift and error (m, batch); screw (m, 6, batch) of the loops between frames."""
    structure, kinds = model.structure, np.array(loops.kinds)
    c1, c2 = structure.rows_of(loops.bodies1), structure.rows_of(loops.bodies2)
    one = _end(rows, c1, loops.position1, loops.orientation1)
    two = _end(rows, c2, loops.position2, loops.orientation2)
    # the motion of the frames for a unit rate of each row of the tree
    pose, axis = pick(at[0], np.arange(1, structure.tree.n + 1)), at[1]
    z = pose.orientation.rotation().rows[2]
    spin, slide = z * axis.turn, z * axis.slide
    m1, m2 = (jnp.asarray(_carries(structure, c), one.position.x.dtype) for c in (c1, c2))

    def moved(place: Vec3) -> Vec3:
        arm = Vec3(*(p[:, None] - c for p, c in zip(place, pose.position, strict=True)))
        return slide + spin.cross(arm)

    found, numbers = [], []
    for kind in dict.fromkeys(loops.kinds):
        own = np.flatnonzero(kinds == kind)
        held = held_rows(kind, pick(one, own), pick(two, own))
        linear = moved(held.second) * m2[own] - moved(held.first) * m1[own]
        angular = spin * (m2[own] - m1[own])
        for k, row in enumerate(held.rows):
            wide = Vec3(*(c[:, None] for c in row.n))
            G = wide.dot(linear if row.part == LINEAR else angular)
            moment = held.second.cross(row.n) if row.part == LINEAR else row.n
            force = row.n if row.part == LINEAR else Vec3.zero_like(row.n.x)
            found.append((G, row.velocity, row.drift, row.error, jnp.stack([*moment, *force], 1)))
            numbers.append(loops.starts[own] + k)
    order = np.argsort(np.concatenate(numbers))
    return tuple(jnp.concatenate(x)[order] for x in zip(*found, strict=True))


def _rows_of_joints(model: Model, equal: JointEqualities, q: Any, qd: Any) -> tuple[Any, ...]:
    """Rows of joints that follow others; q (batch, nq), qd (batch, nv)."""
    one, two = np.array(equal.rows1, np.int64), np.array(equal.rows2, np.int64)
    follows, place = (two >= 0)[:, None], np.arange(len(one))
    two = np.maximum(two, 0)
    column = model.structure.q_of_row
    c = _columns(equal.coefficients, q.dtype)
    c = [c[0], *(jnp.where(follows, x, 0.0) for x in c[1:])]
    ref1, ref2 = (jnp.asarray(x, q.dtype)[:, None] for x in (equal.reference1, equal.reference2))
    away = jnp.where(follows, q.T[column[two]] - ref2, 0.0)
    row = following_row(c, q.T[column[one]] - ref1, away, qd.T[two])
    G = jnp.zeros((len(one), qd.shape[1], qd.shape[0]), q.dtype)
    G = G.at[place, one].add(1.0).at[place, two].add(-row.slope)
    none = jnp.zeros((len(one), 6, len(q)), q.dtype)
    return G, qd.T[one] - row.slope * qd.T[two], row.drift, row.error, none


def loop_rows(laid: Layout, model: Model, q: Any, qd: Any, qdd: Any = None, at: Arranged | None = None) -> LoopRows:
    """Rows of a state, for the free model if there are mimic joints. Drifts belong to qdd, zero if not given."""
    loops = model.loops
    assert loops is not None
    instead = "equalities (connect, weld): they are soft, and need no matrix"
    require_matrices("rows of rigid loops", q, loops.n_rows, model.structure.tree.n, copies=12, instead=instead)
    at = arranged(laid, model, q) if at is None else at
    zero = Vec3.zero_like(at.gravity.x)
    qdd = jnp.zeros_like(qd) if qdd is None else qdd
    poses, velocities = row_poses(laid, at), row_velocities(laid, at, by_position(laid, qd))
    rates = row_rates(laid, model, at, qd, qdd, Rates(zero, zero, zero))
    rows = with_base(laid, (poses, velocities, rates))
    parts = []
    if loops.kinds:
        parts.append(_rows_of_frames(model, loops, (rows[0], restore(laid, at.rows.axis)), rows))
    if loops.joints is not None:
        parts.append(_rows_of_joints(model, loops.joints, q, qd))
    G, velocity, drift, error, screw = (jnp.concatenate(x) for x in zip(*parts, strict=True))
    return LoopRows(jnp.transpose(G, (2, 0, 1)), velocity.T, drift.T, error.T, jnp.transpose(screw, (2, 0, 1)))


def wrenches(loops: Loops, rows: LoopRows, force: Any) -> Any:
    """(batch, n, 6): the wrench of each loop on its second body, from the forces (batch, m) of the rows."""
    mine = np.zeros((len(loops.kinds), loops.n_rows))
    lay = row_layout(loops)
    mine[lay.loop, np.arange(len(lay.loop))] = 1.0
    return jnp.einsum("nm,bm,bmk->bnk", jnp.asarray(mine, force.dtype), force, rows.screw)


def wanted(loops: Loops, rows: LoopRows) -> Any:
    """(batch, m): the G qdd that keeps the loops closed, or closes them by Baumgarte's method."""
    counts = np.diff(loops.starts)
    time = jnp.repeat(jnp.asarray(loops.stabilisation, rows.drift.dtype), counts, total_repeat_length=int(counts.sum()))
    time = jnp.concatenate([time, jnp.zeros(rows.drift.shape[1] - len(time), time.dtype)])
    rate = jnp.where(time > 0, 1 / jnp.where(time > 0, time, 1.0), 0.0)
    return wanted_of(rate, rows.velocity, rows.drift, rows.error)

"""The rows of rigid loops: G qd is how fast a loop opens, G qdd + drift how that changes.

A row is a direction n, linear or angular, of the motion of the second body relative to the first. It has n · u and
n · u̇ + ṅ · u, with u the relative velocity of two points that are together when the loop is closed. With d = p₂ − p₁,
    points that are held         u = v₂ − v₁             world axes
    frames whose origins are     u = v₂ − v₁ − ω₂ × d    at p₁, in the axes of the first frame
    frames that may slide        u = v₂ − v₁ − ω₁ × d    at p₂, in the axes of the first frame
The last is the rate of n · d. The first two are Pinocchio's, so accelerations agree with its also in states in which
loops move apart (Carpentier, Budhiraja and Mansard 2021, "Proximal and sparse resolution of constrained dynamic
equations").
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from kinetree.model import Loops, Model, Structure
from kinetree.model.equalities import JointEqualities
from kinetree.model.loops import KINDS
from kinetree.model.memory import require_matrices
from kinetree.spatial import Quaternion, Rates, Vec3
from kinetree.tree import Layout, pick, restore

from ..frames import row_rates, with_base
from ..schedules.arranged import Arranged, arranged, by_position, row_poses, row_velocities

LINEAR, ANGULAR, JOINT = 0, 1, 2  # classes of rows: what they hold
HALF_TURN = 1e-6  # sine of the angle between axes that point apart, below which the way back is chosen freely


class LoopRows(NamedTuple):
    """All rows of a state, (batch, m), loop by loop; rows of joints that follow others come last."""

    G: Any  # (batch, m, nv)
    velocity: Any  # G qd
    drift: Any  # the rest of the acceleration of a row: G qdd + drift
    error: Any  # how far a loop is open: metres and radians
    screw: Any  # (batch, m, 6): a unit force of the row on the second body, in the world, about its origin


class Layed(NamedTuple):
    """What is static about the rows of loops."""

    loop: np.ndarray  # (m,): which loop
    part: np.ndarray  # LINEAR or ANGULAR
    axis: np.ndarray  # 0, 1, 2
    point: np.ndarray  # whether the loop holds points
    crossed: np.ndarray  # whether the row holds axes at a right angle
    classes: np.ndarray  # of all rows, those of joints too


def layed(loops: Loops) -> Layed:
    """Rows of all loops."""
    found: list[tuple[int, int, int, bool, bool]] = []
    for i, kind in enumerate(loops.kinds):
        held = KINDS[kind]
        found += [(i, LINEAR, axis, held.point, False) for axis in held.linear]
        found += [(i, ANGULAR, axis, False, False) for axis in held.angular]
        found += [(i, ANGULAR, 0, False, True)] * held.crossed
    loop, part, axis, point, crossed = np.array(found, np.int64).reshape(-1, 5).T
    follow = 0 if loops.joints is None else len(loops.joints.rows1)
    return Layed(loop, part, axis, point > 0, crossed > 0, np.concatenate([part, np.full(follow, JOINT)]))


class LoopEnd(NamedTuple):
    """Frames of loops in the world, components (n, batch)."""

    turn: Quaternion
    place: Vec3
    omega: Vec3
    v: Vec3
    alpha: Vec3
    a: Vec3


def _carriers(structure: Structure, bodies: tuple[int, ...]) -> np.ndarray:
    own = np.array(bodies, np.int64)
    return np.where(own >= 0, structure.row_of_body[np.maximum(own, 0)], -1) if structure.n_bodies else own


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
    """(n, rows, 1): which rows move a frame."""
    lp, rp = structure.tree.lp, structure.tree.rp
    own = np.maximum(carrier, 0)[:, None]
    return ((carrier[:, None] >= 0) & (lp <= lp[own]) & (rp[own] <= rp))[..., None]


def _apart(one: Quaternion, two: Quaternion, whole: np.ndarray) -> Vec3:
    """The rotation vector, in the world, from the first frame to the second; if not `whole`, from z axis to z axis."""
    turn = one.turn((one.conjugate() * two).log())
    z1, z2 = one.rotation().rows[2], two.rotation().rows[2]
    across, cosine = z1.cross(z2), z1.dot(z2)
    square = across.dot(across)
    some = square > HALF_TURN**2
    sine = jnp.sqrt(jnp.where(some, square, jnp.ones_like(square)))  # never differentiate sqrt at 0
    swing = across * jnp.where(some, jnp.arctan2(sine, cosine) / sine, jnp.ones_like(sine))
    swing = _choose(some | (cosine > 0), swing, one.rotation().rows[0] * np.pi)
    return _choose(whole, turn, swing)


def _choose(mask: Any, a: Vec3, b: Vec3) -> Vec3:
    return Vec3(*(jnp.where(mask, x, y) for x, y in zip(a, b, strict=True)))


def _rows_of_frames(model: Model, loops: Loops, at: Any, rows: tuple) -> tuple[Any, ...]:
    """G (m, nv, batch); velocity, drift and error (m, batch); screw (m, 6, batch) of the loops between frames."""
    structure, lay = model.structure, layed(loops)
    c1, c2 = _carriers(structure, loops.bodies1), _carriers(structure, loops.bodies2)
    one = _end(rows, c1, loops.position1, loops.orientation1)
    two = _end(rows, c2, loops.position2, loops.orientation2)
    held = [KINDS[k] for k in loops.kinds]
    point = np.array([h.point for h in held])[:, None]
    whole = np.array([len(h.angular) == 3 for h in held])[:, None]
    d = two.place - one.place
    zero = Vec3.zero_like(d.x)
    omega, apart = two.omega - one.omega, two.v - one.v
    slides = np.array([len(h.linear) < 3 for h in held])[:, None]
    spun, sped = _choose(slides, one.omega, two.omega), _choose(slides, one.alpha, two.alpha)
    u = apart - _choose(point, zero, spun.cross(d))
    growth = two.a - one.a - _choose(point, zero, sped.cross(d) + spun.cross(apart))

    def both(linear: Vec3, angular: Vec3) -> Vec3:
        """The linear or the angular one of each row, as its kind asks."""
        number = lay.loop + len(loops.kinds) * lay.part
        return Vec3(*(jnp.concatenate([a, b])[number] for a, b in zip(linear, angular, strict=True)))

    n, turning = _directions(lay, one, two)
    velocity = both(u, omega)
    drift = n.dot(both(growth, two.alpha - one.alpha)) + turning.dot(velocity)
    error = n.dot(both(d, _apart(one.turn, two.turn, whole)))
    x1, y2 = one.turn.rotation().rows[0], two.turn.rotation().rows[1]
    error = jnp.where(lay.crossed[:, None], x1.dot(y2)[lay.loop], error)
    # columns of G: what each row of the tree does to the frames
    pose, axis = pick(at[0], np.arange(1, structure.tree.n + 1)), at[1]
    z = pose.orientation.rotation().rows[2]
    spin, slide = z * axis.turn, z * axis.slide
    m1, m2 = (jnp.asarray(_carries(structure, c), d.x.dtype) for c in (c1, c2))
    first, second = _choose(slides, two.place, one.place), _choose(point | slides, two.place, one.place)

    def moved(place: Vec3) -> Vec3:
        arm = Vec3(*(p[:, None] - c for p, c in zip(place, pose.position, strict=True)))
        return slide + spin.cross(arm)

    linear = moved(second) * m2 - moved(first) * m1
    directions = Vec3(*(c[:, None] for c in n))
    G = directions.dot(both(linear, spin * (m2 - m1)))
    force = n * (lay.part == LINEAR)[:, None].astype(d.x.dtype)
    moment = n - force + pick(second, lay.loop).cross(force)
    return G, n.dot(velocity), drift, error, jnp.stack([*moment, *force], 1)


def _directions(lay: Layed, one: LoopEnd, two: LoopEnd) -> tuple[Vec3, Vec3]:
    """The direction of each row, and its rate; (m, batch)."""
    axes1 = one.turn.rotation().rows
    like = jnp.zeros_like(one.place.x)
    world = np.eye(3)[lay.axis][:, :, None]
    own = jnp.stack([a.array() for a in axes1])[lay.axis, lay.loop]  # (m, batch, 3)
    point = lay.point[:, None]
    n = Vec3(*(jnp.where(point, world[:, k] + like[lay.loop], own[..., k]) for k in range(3)))
    omega1, omega2 = pick(one.omega, lay.loop), pick(two.omega, lay.loop)
    rate = _choose(point, Vec3.zero_like(n.x), omega1.cross(n))
    if not lay.crossed.any():
        return n, rate
    x1, y2 = pick(axes1[0], lay.loop), pick(two.turn.rotation().rows[1], lay.loop)
    crossed = lay.crossed[:, None]
    turning = omega2.cross(y2).cross(x1) + y2.cross(omega1.cross(x1))
    return _choose(crossed, y2.cross(x1), n), _choose(crossed, turning, rate)


def _rows_of_joints(model: Model, equal: JointEqualities, q: Any, qd: Any) -> tuple[Any, ...]:
    """Rows of joints that follow others: q₁ − ref₁ = Σ cₖ (q₂ − ref₂)ᵏ; q (batch, nq), qd (batch, nv)."""
    one, two = np.array(equal.rows1, np.int64), np.array(equal.rows2, np.int64)
    follows, place = (two >= 0)[:, None], np.arange(len(one))
    two = np.maximum(two, 0)
    column = model.structure.q_of_row
    c = _columns(equal.coefficients, q.dtype)
    ref1, ref2 = (jnp.asarray(x, q.dtype)[:, None] for x in (equal.reference1, equal.reference2))
    x = jnp.where(follows, q.T[column[two]] - ref2, 0.0)
    slope = jnp.where(follows, c[1] + x * (2 * c[2] + x * (3 * c[3] + x * 4 * c[4])), 0.0)
    bend = jnp.where(follows, 2 * c[2] + x * (6 * c[3] + x * 12 * c[4]), 0.0)
    error = q.T[column[one]] - ref1 - c[0] - x * (c[1] + x * (c[2] + x * (c[3] + x * c[4])))
    G = jnp.zeros((len(one), qd.shape[1], qd.shape[0]), q.dtype)
    G = G.at[place, one].add(1.0).at[place, two].add(-slope)
    speed = qd.T[two]
    none = jnp.zeros((len(one), 6, len(q)), q.dtype)
    return G, qd.T[one] - slope * speed, -bend * speed * speed, error, none


def loop_rows(laid: Layout, model: Model, q: Any, qd: Any, qdd: Any = None, at: Arranged | None = None) -> LoopRows:
    """Rows of a state, of the free model where joints mimic others; drifts are those of qdd, zero if not given."""
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
    """(batch, n, 6): what each loop does to its second body, from the forces (batch, m) of the rows."""
    mine = np.zeros((len(loops.kinds), loops.n_rows))
    lay = layed(loops)
    mine[lay.loop, np.arange(len(lay.loop))] = 1.0
    return jnp.einsum("nm,bm,bmk->bnk", jnp.asarray(mine, force.dtype), force, rows.screw)


def wanted(loops: Loops, rows: LoopRows) -> Any:
    """(batch, m): G qdd of a motion that keeps the loops closed, or closes them by Baumgarte's method."""
    counts = np.diff(loops.starts)
    time = jnp.repeat(jnp.asarray(loops.stabilisation, rows.drift.dtype), counts, total_repeat_length=int(counts.sum()))
    time = jnp.concatenate([time, jnp.zeros(rows.drift.shape[1] - len(time), time.dtype)])
    rate = jnp.where(time > 0, 1 / jnp.where(time > 0, time, 1.0), 0.0)
    return -rows.drift - 2 * rate * rows.velocity - rate * rate * rows.error

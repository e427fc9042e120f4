"""Configurations: neutral and random ones, the step along a velocity, and the velocity between two.

Coordinates of hinges and sliders add. A quaternion is multiplied by the exponential of a rotation vector in body
coordinates. A free joint moves by the exponential of SE(3): with a constant body velocity (ω, v) it follows a screw,
R' = R exp(ω dt), p' = p + R V(ω dt) v dt, where V(θ) = 1 + (1 − cos θ)/θ² θ× + (θ − sin θ)/θ³ θ×θ×.
"""

import math
from functools import partial
from math import factorial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kinetree._types import AnyArray, Array, Float, Number
from kinetree.spatial import Quaternion, Scalar, Vec3
from kinetree.tree import pick

from .arguments import evaluate_for
from .coupling import coupled
from .memory import require_memory
from .model import Model, Structure
from .required import is_random_key, is_whole, require_model, sizes_of

DRAWING = 3  # times the memory of random states that it takes to draw them
SMALL = 0.25  # θ² below which the series below serve: their last term is then under 1e-17
EARLY = tuple((-1.0) ** k / factorial(2 * k + 2) for k in range(8))  # (1 − cos θ)/θ² in powers of θ²
LATE = tuple((-1.0) ** k / factorial(2 * k + 3) for k in range(8))  # (θ − sin θ)/θ³ likewise
BACK = (  # (1 − θ/2 cot θ/2)/θ² likewise: Bernoulli numbers over factorials
    1 / 12, 1 / 720, 1 / 30240, 1 / 1209600, 1 / 47900160, 691 / 1307674368000, 1 / 74724249600,
    3617 / 10670622842880000,
)  # fmt: skip


class JointColumns(NamedTuple):
    """Columns of q and of qd, for all joints of a kind."""

    scalar_q: np.ndarray  # (s,)
    scalar_v: np.ndarray
    quaternion: np.ndarray  # (4, k), of spherical and free joints
    omega: np.ndarray  # (3, k)
    free: np.ndarray  # (f,): which of those k have a position
    position: np.ndarray  # (3, f)
    linear: np.ndarray  # (3, f)


def coordinate_columns(structure: Structure) -> JointColumns:
    """The columns of all joints of a structure."""
    first, start, has_position = structure.quaternion_joints.T.astype(np.int64)
    rows = np.flatnonzero(structure.q_of_row >= 0)
    free = np.flatnonzero(has_position)
    three = np.arange(3)[:, None]
    return JointColumns(
        scalar_q=structure.q_of_row[rows],
        scalar_v=rows,
        quaternion=start + 3 * has_position + np.arange(4)[:, None],
        omega=first + three,
        free=free,
        position=start[free] + three,
        linear=first[free] + 3 + three,
    )


def _reach(structure: Structure) -> np.ndarray:
    """(nq,): half the width of the interval that random coordinates are drawn from."""
    each = [
        [1.0] * j.nq if j.quaternion else [np.pi if turn else 1.0 for turn, _, _ in j.rows] for j in structure.joints
    ]
    before = np.cumsum([0, *map(len, each)])
    body = np.repeat(np.arange(structure.n_bodies), np.diff(structure.q_start))
    number = np.arange(len(body)) - structure.q_start[body]
    return np.array([x for joint in each for x in joint])[before[structure.joint_code[body]] + number]


def _interval(model: Model, within_limits: bool) -> tuple[Any, Any]:
    """(nq,) twice: the middle and half of the width of the intervals that random coordinates are drawn from."""
    reach = _reach(model.structure)
    if not within_limits or model.limits is None:
        return np.zeros_like(reach), reach
    lower, upper = model.limits.lower, model.limits.upper
    xp = jnp if isinstance(lower, jax.Array) else np
    low = xp.where(xp.isfinite(lower), lower, xp.minimum(-reach, upper))
    high = xp.where(xp.isfinite(upper), upper, xp.maximum(reach, low))
    return (low + high) / 2, (high - low) / 2


def neutral(model: Model) -> np.ndarray:
    """The configuration at zero: all coordinates 0, all quaternions (1, 0, 0, 0).

    Arguments:
        model: the mechanism.

    Returns: q (nq,), a NumPy float64 array.
    """
    require_model(model)
    whole = model.structure.neutral
    return whole.copy() if model.coupling is None else whole[model.coupling.kept_q]


def home(model: Model) -> np.ndarray:
    """(nq,): the configuration that a model's file starts from (MuJoCo's qpos0), or the neutral one."""
    start = np.zeros(0) if model.stepping is None else model.stepping.keyframes.start
    return start if start.size == model.nq and model.nq else neutral(model)


@coupled("state")
def random_state(
    model: Model, key: jax.Array | int, batch: int | tuple[int, ...] = (), *, within_limits: bool = False
) -> tuple[AnyArray, AnyArray]:
    """A random configuration and velocity.

    Angles are uniform in [−π, π], lengths in [−1, 1], orientations uniform over all rotations; velocities are standard
    normal.

    Arguments:
        model: the mechanism.
        key: a JAX random key, or an integer seed.
        batch: leading axes of the result.
        within_limits: draw the coordinates of a joint with limits between these, so that a simulation starts in peace.

    Returns: q (*batch, nq) and qd (*batch, nv), NumPy float64 arrays from a seed, JAX arrays of its default type from a
        key.
    """
    batch = sizes_of(batch)
    seed = is_whole(key) and key >= 0
    if not seed and not is_random_key(key):
        raise TypeError(f"key must be a JAX random key or a seed, an integer that is not negative, not {key!r}")
    at, (middle, half) = coordinate_columns(model.structure).quaternion, _interval(model, within_limits)
    sizes = (*batch, model.nq), (*batch, *at.shape), (*batch, model.nv)
    count = math.prod(batch)
    numbers = count * (model.nq + model.nv)
    require_memory(DRAWING * 8 * numbers, f"a batch of {count:,} random states", "use smaller batches")
    if seed:
        rng = np.random.default_rng(int(key))
        q = rng.uniform(-1, 1, sizes[0]) * half + middle
        turns = rng.standard_normal(sizes[1])
        q[..., at] = turns / np.linalg.norm(turns, axis=-2, keepdims=True)
        return q, rng.standard_normal(sizes[2])
    places, orientations, velocities = jax.random.split(key, 3)
    q = jax.random.uniform(places, sizes[0], minval=-1.0, maxval=1.0)
    turns = jax.random.normal(orientations, sizes[1])
    length = jnp.sqrt((turns * turns).sum(-2, keepdims=True))
    q = (q * jnp.asarray(half, q.dtype) + jnp.asarray(middle, q.dtype)).at[..., at].set(turns / length)
    return q, jax.random.normal(velocities, sizes[2])


@coupled("configuration")
def integrate(
    model: Model, q: Float[Array, "... nq"], qd: Float[Array, "... nv"], dt: Number = 1.0
) -> Float[Array, "... nq"]:
    """The configuration after moving for a time dt with the constant velocity qd.

    Arguments:
        model: the mechanism.
        q: configurations (..., nq).
        qd: velocities (..., nv).
        dt: a number, or an array over the batch axes.

    Returns: configurations (..., nq), their quaternions of unit length.
    """
    if isinstance(dt, int | float):  # a plain number takes the arrays' type
        return evaluate_for(model, lambda q, qd: _step(model.structure, q, qd * float(dt)), q=q, qd=qd)
    return evaluate_for(model, lambda q, qd, dt: _step(model.structure, q, qd * dt[:, None]), q=q, qd=qd, dt=dt)


@coupled("configuration")
def integrate_straight(model: Model, q: Any, qd: Any) -> Any:
    """q (batch, nq) moved by qd (batch, nv) for a unit of time; free joints go straight, along world axes."""
    return _step(model.structure, q, qd, True)


@coupled("velocity")
def move_rate(model: Model, qd: Any, qdd: Any) -> Any:
    """The rate of a move from some start: ẋ (batch, nv), with x = `qd` the move so far and `qdd` the velocity now.

    In q = q₀ ⊕ x, x has rotation vectors θ for quaternion joints, whose rates are not the angular velocities:
    θ̇ = ω + ½ θ × ω + c θ × (θ × ω), with c as in the inverse of V(θ).
    """
    at = coordinate_columns(model.structure)
    if not at.quaternion.size:
        return qdd
    rate = back_along_screw(-_vector(qd, at.omega), _vector(qdd, at.omega))
    return qdd.at[:, at.omega].set(jnp.stack(rate, 1))


@coupled("velocity")
def difference(model: Model, q0: Float[Array, "... nq"], q1: Float[Array, "... nq"]) -> Float[Array, "... nv"]:
    """The velocity that leads from q0 to q1 in unit time: the inverse of `integrate`.

    `integrate(model, q0, difference(model, q0, q1), 1)` is q1, up to the signs of its quaternions. Quaternion joints
    take the shorter way round, at most π; angles of hinges are plain differences.

    Arguments:
        model: the mechanism.
        q0: configurations (..., nq) to start from.
        q1: configurations (..., nq) to reach.

    Returns: velocities (..., nv).
    """
    return evaluate_for(model, partial(_between, model.structure), q0=q0, q1=q1)


def _quaternion(q: Scalar, at: np.ndarray) -> Quaternion:
    return Quaternion(*(pick(q, c, axis=1) for c in at)).normalized()


def _vector(a: Scalar, at: np.ndarray) -> Vec3:
    return Vec3(*(pick(a, c, axis=1) for c in at))


@partial(jax.jit, static_argnums=(0, 3))
def _step(structure: Structure, q: Any, move: Any, straight: bool = False) -> Any:
    """q (batch, nq) moved by (batch, nv).

    `straight`: free joints move straight on, the linear part of `move` being in world axes, instead of along a screw.
    """
    at = coordinate_columns(structure)
    result = q.at[:, at.scalar_q].add(move[:, at.scalar_v])
    if not at.quaternion.size:
        return result
    old, theta = _quaternion(q, at.quaternion), _vector(move, at.omega)
    new = (old * Quaternion.exp(theta)).normalized()
    result = result.at[:, at.quaternion].set(jnp.stack(new, 1))
    if at.free.size:
        carried = _vector(move, at.linear)
        if not straight:
            carried = along_screw(Vec3(*(c[:, at.free] for c in theta)), carried)
            carried = Quaternion(*(c[:, at.free] for c in old)).turn(carried)
        result = result.at[:, at.position].add(jnp.stack(carried, 1))
    return result


@partial(jax.jit, static_argnums=0)
def _between(structure: Structure, q0: Any, q1: Any) -> Any:
    """Velocities (batch, nv) from q0 to q1 (batch, nq)."""
    at = coordinate_columns(structure)
    result = jnp.zeros((len(q0), structure.tree.n), q0.dtype)
    result = result.at[:, at.scalar_v].set(q1[:, at.scalar_q] - q0[:, at.scalar_q])
    if not at.quaternion.size:
        return result
    old = _quaternion(q0, at.quaternion)
    theta = (old.conjugate() * _quaternion(q1, at.quaternion)).log()
    result = result.at[:, at.omega].set(jnp.stack(theta, 1))
    if at.free.size:
        moved = _vector(q1, at.position) - _vector(q0, at.position)
        moved = Quaternion(*(c[:, at.free] for c in old)).conjugate().turn(moved)
        linear = back_along_screw(Vec3(*(c[:, at.free] for c in theta)), moved)
        result = result.at[:, at.linear].set(jnp.stack(linear, 1))
    return result


def _series(coefficients: tuple[float, ...], s: Scalar) -> Scalar:
    total = jnp.full_like(s, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total * s + c
    return total


def along_screw(theta: Vec3, v: Vec3) -> Vec3:
    """V(θ) v: the displacement of a frame that moves with constant body velocity (θ, v) for unit time."""
    squared = theta.dot(theta)
    small = squared < SMALL
    angle = jnp.sqrt(jnp.where(small, jnp.ones_like(squared), squared))  # never differentiate sqrt at 0
    half = jnp.sin(0.5 * angle) / angle
    early = jnp.where(small, _series(EARLY, squared), 2 * half * half)
    late = jnp.where(small, _series(LATE, squared), (angle - jnp.sin(angle)) / (angle * angle * angle))
    across = theta.cross(v)
    return v + across * early + theta.cross(across) * late


def back_along_screw(theta: Vec3, p: Vec3) -> Vec3:
    """V(θ)⁻¹ p, for |θ| ≤ π."""
    squared = theta.dot(theta)
    small = squared < SMALL
    half = 0.5 * jnp.sqrt(jnp.where(small, jnp.ones_like(squared), squared))
    factor = jnp.where(small, _series(BACK, squared), (1 - half / jnp.tan(half)) / (4 * half * half))
    across = theta.cross(p)
    return p - across * 0.5 + theta.cross(across) * factor

"""Configurations: neutral, random, and the way from one to another."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinetree
from kinetree.model import Limits, Model, auto_tree, difference, integrate, neutral, random_state
from tests.reference import dense, generate

from .mechanisms import model_of, sample

MOVING = tuple(k for k in generate.KINDS if k != "fixed")
DESC, MODEL, STATE = sample(0, 28)  # every joint twice
BODY = np.array([1.0, 0.1, 0, 0, 0.1, 0.2, 0.2, 0, 0, 0])
FREE = Model.from_arrays([-1], "free", np.eye(6), BODY)
seeds = st.integers(0, 2**32 - 1)


def quaternions(model, q):
    """The quaternions in q, (..., k, 4)."""
    _, start, free = model.structure.quaternion_joints.T
    return q[..., (start + 3 * free)[:, None] + np.arange(4)]


def same_configuration(model, a, b, tolerance=1e-13):
    """Assert that two configurations are the same, whatever the signs of their quaternions."""
    a, b = np.array(a), np.array(b)
    assert a.shape == b.shape
    _, start, free = model.structure.quaternion_joints.T
    for c in start + 3 * free:
        own, other = a[..., c : c + 4], b[..., c : c + 4]
        own *= np.sign((own * other).sum(-1, keepdims=True))
    np.testing.assert_allclose(a, b, atol=tolerance)


# ---------------------------------------------------------------------------------------------------- neutral, random


def test_neutral():
    q = neutral(MODEL)
    assert isinstance(q, np.ndarray)
    assert q.dtype == np.float64
    assert q.shape == (MODEL.nq,)
    np.testing.assert_array_equal(quaternions(MODEL, q), [[1, 0, 0, 0]] * 4)
    assert q.sum() == 4
    XJ, _ = DESC._joint_matrices(q)  # no joint moves its body
    np.testing.assert_array_equal(XJ, np.broadcast_to(np.eye(6), XJ.shape))


@pytest.mark.parametrize(
    "key", [7, np.int64(7), jax.random.key(7), jax.random.PRNGKey(7)], ids=["int", "numpy", "key", "raw"]
)
@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_random_states_have_the_right_form(key, batch):
    q, qd = random_state(MODEL, key, batch)
    kind = jax.Array if isinstance(key, jax.Array) else np.ndarray
    assert isinstance(q, kind)
    assert isinstance(qd, kind)
    assert q.dtype == qd.dtype == np.float64
    assert q.shape == (*batch, MODEL.nq)
    assert qd.shape == (*batch, MODEL.nv)
    np.testing.assert_allclose(np.linalg.norm(quaternions(MODEL, q), axis=-1), 1, atol=1e-15)
    again = random_state(MODEL, key, batch)
    np.testing.assert_array_equal(q, again[0])
    np.testing.assert_array_equal(qd, again[1])


def test_keys_follow_the_type_of_jax():
    with jax.enable_x64(False):
        q, qd = random_state(MODEL, jax.random.key(0))
        assert q.dtype == qd.dtype == jnp.float32
        assert random_state(MODEL, 0)[0].dtype == np.float64


@pytest.mark.parametrize("key", [3, jax.random.key(3)], ids=["int", "key"])
def test_random_states_fill_their_ranges(key):
    q, qd = map(np.asarray, random_state(MODEL, key, (4000,)))
    turning = {"Rx", "Ry", "Rz", "revolute", "helical"}
    for body, kind in enumerate(DESC.joints):
        own = q[:, DESC.q_slice(body)]
        name = kind if isinstance(kind, str) else kind[0]
        if name in ("spherical", "free"):
            np.testing.assert_allclose(own[:, -4:].mean(0), 0, atol=0.05)
            np.testing.assert_allclose((own[:, -4:] ** 2).mean(0), 1 / 4, atol=0.03)  # uniform over the sphere
            own = own[:, :-4]
        reach = np.full(own.shape[1], np.pi if name in turning else 1.0)
        if name == "planar":
            reach[2] = np.pi
        assert np.all(np.abs(own) <= reach)
        np.testing.assert_allclose(own.max(0, initial=-np.inf), reach, rtol=0.01)
        np.testing.assert_allclose(own.min(0, initial=np.inf), -reach, rtol=0.01)
    np.testing.assert_allclose(qd.mean(0), 0, atol=0.1)
    np.testing.assert_allclose(qd.std(0), 1, atol=0.1)


@pytest.mark.parametrize("key", [3, jax.random.key(3)], ids=["int", "key"])
def test_random_states_may_keep_to_limits(key):
    """Those of both sides, those of one side, and none: that joint keeps its range."""
    arm = auto_tree(4)
    lower, upper = np.array([0.5, -np.inf, 2.0, -np.inf]), np.array([0.7, -2.0, np.inf, np.inf])
    arm = arm.replace(limits=Limits(lower, upper, np.full(4, np.inf), np.full(4, np.inf)))
    q, _ = random_state(arm, key, (2000,), within_limits=True)
    np.testing.assert_allclose(np.min(q, 0), [0.5, -np.pi, 2.0, -np.pi], atol=0.01)
    np.testing.assert_allclose(np.max(q, 0), [0.7, -2.0, np.pi, np.pi], atol=0.01)
    assert np.max(random_state(arm, key, (2000,))[0]) > 3
    traced = jax.jit(lambda model: random_state(model, jax.random.key(3), within_limits=True)[0])(arm)
    np.testing.assert_allclose(traced, random_state(arm, jax.random.key(3), within_limits=True)[0], atol=1e-15)


def test_random_states_within_jit():
    q, qd = jax.jit(random_state, static_argnums=2)(FREE, jax.random.key(1), (3,))
    expected = random_state(FREE, jax.random.key(1), (3,))
    np.testing.assert_allclose(q, expected[0], atol=1e-15)
    np.testing.assert_allclose(qd, expected[1], atol=1e-15)


# ---------------------------------------------------------------------------------------------------- integrate


@given(seeds, st.floats(-1.5, 1.5, allow_subnormal=False))
def test_difference_is_the_inverse_of_integrate(seed, dt):
    q, qd = random_state(MODEL, seed)
    moved = integrate(MODEL, q, qd, dt)
    np.testing.assert_allclose(np.linalg.norm(quaternions(MODEL, moved), axis=-1), 1, atol=4e-16)
    found = difference(MODEL, q, moved)
    same_configuration(MODEL, integrate(MODEL, q, found, 1), moved)
    turns = (MODEL.structure.quaternion_joints[:, 0, None] + np.arange(3)).ravel()
    if np.all(np.linalg.norm((dt * qd)[turns].reshape(-1, 3), axis=1) < 3.1):  # else the other way round is shorter
        np.testing.assert_allclose(found, dt * qd, atol=1e-12)


@given(seeds)
def test_integrate_is_the_inverse_of_difference(seed):
    (q0, q1), _ = random_state(MODEL, seed, (2,))
    way = difference(MODEL, q0, q1)
    same_configuration(MODEL, integrate(MODEL, q0, way), q1, 1e-12)
    same_configuration(MODEL, integrate(MODEL, q1, way, -1), q0, 1e-12)  # the same screw, backwards
    np.testing.assert_allclose(difference(MODEL, q0, q0), 0, atol=1e-15)
    first = MODEL.structure.quaternion_joints[:, 0, None] + np.arange(3)
    assert np.all(np.linalg.norm(way[first], axis=1) < np.pi + 1e-12)


@given(seeds)
def test_steps_of_one_velocity_add(seed):
    q, qd = random_state(MODEL, seed)
    same_configuration(MODEL, integrate(MODEL, integrate(MODEL, q, qd, 0.3), qd, 0.9), integrate(MODEL, q, qd, 1.2))
    same_configuration(MODEL, integrate(MODEL, q, qd, 0.0), q)


def test_solves_the_differential_equation_of_the_oracle():
    q, qd = STATE.q, STATE.qd

    def rate(x):
        return dense.q_derivative(DESC, x, qd)

    x, h = q.astype(np.longdouble), np.longdouble(1) / 200
    for _ in range(200):  # Runge and Kutta's fourth-order method
        k1 = rate(x)
        k2 = rate(x + h / 2 * k1)
        k3 = rate(x + h / 2 * k2)
        x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + rate(x + h * k3))
    np.testing.assert_allclose(integrate(MODEL, q, qd, 1.0), x.astype(float), atol=1e-9)


@pytest.mark.parametrize("kind", MOVING)
def test_small_steps_go_along_the_velocity(kind):
    desc, model, s = sample(3, 3, joints=kind)
    h = 1e-6
    slope = (integrate(model, s.q, s.qd, h) - integrate(model, s.q, s.qd, -h)) / (2 * h)
    np.testing.assert_allclose(slope, dense.q_derivative(desc, s.q, s.qd).astype(float), atol=1e-9)


@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-7, 1e-6, 1e-3, 0.49999, 0.50001, 1.0, 3.0, np.pi - 1e-9, np.pi])
def test_free_joint_follows_the_exponential_of_se3(angle):
    axis, v = np.array([2, -1, 2], np.longdouble) / 3, np.array([0.3, -0.7, 0.5])
    q = np.concatenate([[0.1, 0.2, 0.3], [0.5, -0.5, 0.1, 0.7]])  # not of unit length, as is allowed
    moved = integrate(FREE, q, np.concatenate([(angle * axis).astype(float), v]), 1)
    A = np.zeros((4, 4), np.longdouble)
    A[:3, :3], A[:3, 3] = dense.skew(angle * axis), v
    power, exponential = np.eye(4, dtype=np.longdouble), np.eye(4, dtype=np.longdouble)
    for k in range(1, 40):
        power = power @ A / k
        exponential = exponential + power
    R = dense.rotation_of_quaternion(q[3:].astype(np.longdouble)).T
    np.testing.assert_allclose(moved[:3], (q[:3] + R @ exponential[:3, 3]).astype(float), atol=1e-15)
    turned = dense.rotation_of_quaternion(moved[3:]).T
    np.testing.assert_allclose(turned, (R @ exponential[:3, :3]).astype(float), atol=1e-15)
    back = difference(FREE, q, moved)
    if angle < np.pi - 1e-12:
        np.testing.assert_allclose(back, np.concatenate([(angle * axis).astype(float), v]), atol=1e-14)
    same_configuration(FREE, integrate(FREE, q, back), moved, 1e-14)


def test_signs_and_lengths_of_quaternions_do_not_matter():
    (q0, q1), _ = random_state(FREE, 5, (2,))
    way = difference(FREE, q0, q1)
    for factor in (-1.0, 3.0, -0.2):
        scale = np.array([1, 1, 1, *4 * [factor]])
        np.testing.assert_allclose(difference(FREE, q0 * scale, q1), way, atol=1e-14)
        np.testing.assert_allclose(difference(FREE, q0, q1 * scale), way, atol=1e-14)
        same_configuration(FREE, integrate(FREE, q0 * scale, way), q1)


# ---------------------------------------------------------------------------------------------------- shapes and types


@pytest.mark.parametrize("library", [np, jnp], ids=["numpy", "jax"])
def test_batches(library):
    q, qd = (library.asarray(a) for a in random_state(MODEL, 6, (2, 3)))
    dt = library.asarray(np.linspace(0.1, 0.6, 6).reshape(2, 3))
    moved = integrate(MODEL, q, qd, dt)
    assert isinstance(moved, np.ndarray if library is np else jax.Array)
    for i in np.ndindex(2, 3):
        np.testing.assert_allclose(moved[i], integrate(MODEL, q[i], qd[i], dt[i]), atol=1e-15)
        np.testing.assert_allclose(difference(MODEL, q, q[::-1])[i], difference(MODEL, q[i], q[::-1][i]), atol=1e-14)
    many = integrate(MODEL, q[0, 0], qd[0, 0], dt)  # one state at many times
    assert many.shape == (2, 3, MODEL.nq)
    np.testing.assert_allclose(many[1, 2], integrate(MODEL, q[0, 0], qd[0, 0], 0.6), atol=1e-15)
    assert integrate(MODEL, q[:0], qd[:0], 0.1).shape == (0, 3, MODEL.nq)


@pytest.mark.parametrize("x64", [True, False])
def test_types_follow_the_arguments(x64):
    q, qd = random_state(MODEL, 7)
    wide = integrate(MODEL, q, qd, 0.25)
    narrow = q.astype(np.float32), qd.astype(np.float32)
    with jax.enable_x64(x64):
        np.testing.assert_array_equal(integrate(MODEL, q, qd, 0.25), wide)
        for dt in (0.25, 1, np.float32(0.25), np.float64(0.25)):
            assert integrate(MODEL, *narrow, dt).dtype == np.float32
            assert integrate(MODEL, *map(jnp.asarray, narrow), dt).dtype == jnp.float32
        assert difference(MODEL, narrow[0], narrow[0]).dtype == np.float32
        assert difference(MODEL, q, q).dtype == np.float64
        np.testing.assert_allclose(integrate(MODEL, *narrow, 0.25), wide, atol=2e-6)


def test_models_without_coordinates():
    model = Model.from_arrays([-1, 0], "fixed", np.eye(6), BODY)
    assert neutral(model).shape == (0,)
    q, qd = random_state(model, 0, (4,))
    assert q.shape == qd.shape == (4, 0)
    assert integrate(model, q, qd, 0.1).shape == difference(model, q, q).shape == (4, 0)


def test_wrong_shapes_are_refused():
    q, qd = random_state(MODEL, 8, (2,))
    for wrong, message in (
        ((q[:, :-1], qd), "q must have shape"),
        ((q, q), "qd must have shape"),
        ((q, qd, np.ones(3)), "batch axes"),
        ((q, qd, 1j), "dt must hold real"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            integrate(MODEL, *wrong)
    with pytest.raises(ValueError, match="q1 must have shape"):
        difference(MODEL, q, qd)


# ---------------------------------------------------------------------------------------------------- transformations


def test_jit_and_vmap():
    q, qd = map(jnp.asarray, random_state(MODEL, 9, (4,)))
    dt = jnp.linspace(0.1, 0.4, 4)
    moved = integrate(MODEL, q, qd, dt)
    mapped = jax.jit(jax.vmap(integrate, (None, 0, 0, 0)))(MODEL, q, qd, dt)
    np.testing.assert_allclose(mapped, moved, atol=1e-15)
    np.testing.assert_allclose(
        jax.jit(jax.vmap(difference, (None, 0, 0)))(MODEL, q, moved), difference(MODEL, q, moved), atol=1e-15
    )


MIXED = Model.from_arrays([-1, 0, 1], ["free", "spherical", "Rx"], np.eye(6), BODY)


@jax.jit
def slope_there_and_back(q, v):
    return jax.jacobian(lambda u: difference(MIXED, q, integrate(MIXED, q, u, 1.0)))(v)


@jax.jit
def slopes_of_nothing(q):
    """Of difference(q, q) by its second and its first argument, and of integrate by the velocity at rest."""
    to, since = jax.jacobian(lambda a, b: difference(MIXED, a, b), (1, 0))(q, q)
    return to, since, jax.jacobian(lambda v: integrate(MIXED, q, v, 1.0))(jnp.zeros(MIXED.nv))


@pytest.mark.parametrize("scale", [0.0, 1e-9, 1e-6, 1e-3, 1.0])
def test_derivatives_at_rest_and_elsewhere(scale):
    q, qd = map(jnp.asarray, random_state(MIXED, 10))
    np.testing.assert_allclose(slope_there_and_back(q, scale * qd), np.eye(MIXED.nv), atol=1e-9)


def test_derivative_at_rest_is_that_of_the_oracle():
    q = jnp.asarray(STATE.q)
    columns = [dense.q_derivative(DESC, STATE.q, unit).astype(float) for unit in np.eye(MODEL.nv)]
    slope = jax.jit(jax.jacobian(lambda v: integrate(MODEL, q, v, 1.0)))(jnp.zeros(MODEL.nv))
    np.testing.assert_allclose(slope, np.array(columns).T, atol=1e-14)


@pytest.mark.parametrize("base", ["neutral", "random"])
def test_derivative_of_a_difference_of_nothing(base):
    q = jnp.asarray(neutral(MIXED) if base == "neutral" else random_state(MIXED, 13)[0])
    to, since, along = slopes_of_nothing(q)
    assert np.isfinite(to).all()
    np.testing.assert_allclose(to, -np.asarray(since), atol=1e-14)
    np.testing.assert_allclose(to @ along, np.eye(MIXED.nv), atol=1e-14)


def test_time_derivative():
    q, qd = map(jnp.asarray, random_state(FREE, 11))
    _, slope = jax.jvp(lambda dt: integrate(FREE, q, qd, dt), (jnp.asarray(0.0),), (jnp.asarray(1.0),))
    desc = dense.Description([-1], ["free"], np.eye(6)[None], np.eye(6)[None], np.zeros(3))
    assert model_of(desc).nv == FREE.nv
    np.testing.assert_allclose(slope, dense.q_derivative(desc, np.asarray(q), np.asarray(qd)), atol=1e-14)


def test_many_joints_at_once():
    n = 20_000
    model = Model.from_arrays(np.arange(n) - 1, "spherical", np.eye(6), BODY)
    q, qd = random_state(model, 12)
    np.testing.assert_allclose(difference(model, q, integrate(model, q, 0.1 * qd)), 0.1 * qd, atol=1e-14)


@pytest.mark.parametrize("form", [lambda x: x.astype(np.float32), np.asfortranarray, np.asarray])
def test_a_time_for_each_state_whatever_the_form_of_the_arrays(form):
    """Arrays of float32 or with gaps met an error about a type that can not be hashed."""
    model = auto_tree(3)
    q, qd = random_state(model, 0, (4,))
    dt = np.linspace(0.1, 0.4, 4)
    np.testing.assert_allclose(kinetree.integrate(model, form(q), form(qd), dt), q + dt[:, None] * qd, rtol=1e-5)

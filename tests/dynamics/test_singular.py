"""A singular mass matrix is told, by every method and schedule; a regular one never is, however uneven."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import kinetree as kt
from kinetree.dynamics.firmness import is_firm
from tests.second import few


def plucker(E, r):
    x, y, z = r
    rx = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.block([[E, np.zeros((3, 3))], [-E @ rx, E]])


def body(rng, mass=1.0):
    """The spatial inertia of a random body, (6, 6)."""
    points = 0.3 * rng.standard_normal((8, 3))
    total = np.zeros((6, 6))
    for x, y, z in points:
        across = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
        J = np.hstack([-across, np.eye(3)])
        total += mass / 8 * J.T @ J
    return total


def hinge(rng):
    axis = rng.standard_normal(3)
    return kt.Revolute(axis / np.linalg.norm(axis))


def mechanism(parent, joints, masses, rng, centred=()):
    """Bodies at random places in their parents; those of `centred` stand where their parents do."""

    def place(k):
        turn = Rotation.random(random_state=rng.integers(1 << 30)).as_matrix()
        return np.eye(6) if k in centred else plucker(turn, rng.random(3))

    inertia = [body(rng, m) if m else np.zeros((6, 6)) for m in masses]
    return kt.Model.from_arrays(parent, joints, np.array([place(k) for k in range(len(parent))]), np.array(inertia))


def singular_model(kind, rng):
    """Each has one more way to move than its bodies resist."""
    if kind == "massless root, floating":
        return mechanism([-1, 0, 1, 2], ["free", hinge(rng), hinge(rng), hinge(rng)], [0, 1, 2, 1], rng)
    if kind == "hinge on massless ball":
        return mechanism([-1, 0], ["spherical", hinge(rng)], [0, 1], rng, centred=(1,))
    if kind == "ball on massless ball":
        return mechanism([-1, 0, 1], [hinge(rng), "spherical", "spherical"], [1, 0, 1], rng, centred=(2,))
    if kind == "four sliders":
        slider = [kt.Prismatic(a / np.linalg.norm(a)) for a in rng.standard_normal((4, 3))]
        return mechanism([-1, 0, 1, 2], slider, [0, 0, 0, 1], rng)
    raise KeyError(kind)


KINDS = ("massless root, floating", "hinge on massless ball", "ball on massless ball", "four sliders")


def state(model, seed, batch=()):
    q, qd = kt.random_state(model, seed, batch)
    return q, qd, np.random.default_rng(seed).standard_normal(qd.shape)


@pytest.mark.parametrize("kind", KINDS)
def test_numpy_is_told_which_joint_and_state(kind):
    """The old code gave numbers of up to 5e35 for all of these."""
    model = singular_model(kind, np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"state 0.*not positive definite.*singular.*joint '"):
        kt.forward_dynamics(model, *state(model, 1, (20,)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_every_singular_state_is_nan(kind, dtype):
    model = singular_model(kind, np.random.default_rng(1))
    given = [jnp.asarray(x, dtype) for x in state(model, 2, (200,))]
    assert np.isnan(jax.jit(kt.forward_dynamics)(model, *given)).all()


@few("schedule", ["sequential", "levels", "paths"], ["levels", "paths"])
def test_schedules_agree(schedule):
    model = singular_model("massless root, floating", np.random.default_rng(2))
    given = [jnp.asarray(x) for x in state(model, 3, (20,))]
    assert np.isnan(kt.forward_dynamics(model, *given, schedule=schedule)).all()


@pytest.mark.parametrize("method", ["crba", "jsiia", "abia", "vneb", "cg"])
def test_methods_agree(method):
    model = singular_model("hinge on massless ball", np.random.default_rng(3))
    q, qd, tau = state(model, 4, (6,))
    assert np.isnan(kt.forward_dynamics(model, *map(jnp.asarray, (q, qd, tau)), method=method)).all()
    with pytest.raises(ValueError, match="not positive definite"):
        kt.forward_dynamics(model, q, qd, tau, method=method)


def gimbal(angle):
    """Hinges about z, y, z with massless links between: singular where the second stands at zero."""
    rng = np.random.default_rng(5)
    model = mechanism([-1, 0, 1], ["Rz", "Ry", "Rz"], [0, 0, 1], rng, centred=(0, 1, 2))
    return model, np.array([0.3, angle, 0.7])


def test_only_the_singular_state_of_a_batch_is_nan():
    model, _ = gimbal(0.0)
    q = np.array([[0.3, angle, 0.7] for angle in (0.5, 0.0, 1.0)])
    ones = np.ones((3, 3))
    qdd = kt.forward_dynamics(model, *map(jnp.asarray, (q, ones, ones)))
    assert np.isfinite(qdd).all(-1).tolist() == [True, False, True]
    with pytest.raises(ValueError, match=r"state 1.*joint 'joint_0'"):
        kt.forward_dynamics(model, q, ones, ones)


@pytest.mark.parametrize("angle", [1e-3, 1e-5])
def test_nearly_singular_is_not_singular(angle):
    model, q = gimbal(angle)
    qdd = kt.forward_dynamics(model, q, np.ones(3), np.ones(3))
    # two gimbals fight: errors may grow by 1/angle²
    np.testing.assert_allclose(kt.inverse_dynamics(model, q, np.ones(3), qdd), np.ones(3), atol=1e-15 / angle**2)


def test_arguments_that_are_not_finite_are_named():
    model = kt.auto_tree(5, 1, 0.3)
    q, qd, tau = state(model, 6, (2, 3))
    tau[1, 2, 3] = np.nan
    with pytest.raises(ValueError, match=r"state 1, 2: tau\[3\] is nan"):
        kt.forward_dynamics(model, q, qd, tau)
    q[0, 0, 1] = np.inf
    with pytest.raises(ValueError, match=r"state 0, 0: q\[1\] is inf"):
        kt.forward_dynamics(model, q, qd[0, 0], tau[0, 0])


def test_a_zero_quaternion_is_named():
    model = mechanism([-1, 0], ["Rz", "spherical"], [1, 1], np.random.default_rng(7))
    q, qd, tau = state(model, 8)
    q[1:] = 0
    with pytest.raises(ValueError, match=r"quaternion of length zero, of joint 'joint_1'"):
        kt.forward_dynamics(model, q, qd, tau)


def uneven(kind, rng):
    """Regular mechanisms whose bodies differ by many powers of ten."""
    joints = ["free", hinge(rng), "spherical", hinge(rng), "free", hinge(rng)]
    masses = {
        "micrograms": [1e-9] * 6,
        "ships": [1e9] * 6,
        "light far out": [1e3, 1.0, 1.0, 1e-2, 1e-3, 1e-4],
        "light between": [1.0, 1e-4, 1.0, 1e-4, 1.0, 1e-4],
    }[kind]
    return mechanism(range(-1, 5), joints, masses, rng)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["micrograms", "ships", "light far out", "light between"])
def test_uneven_mechanisms_are_regular(kind, dtype):
    rng = np.random.default_rng(9)
    model = uneven(kind, rng)
    # a traced model is always checked; a known one only where its bodies do not resist by themselves
    checked = jax.jit(kt.forward_dynamics)
    given = [jnp.asarray(x, dtype) for x in state(model, 10, (200,))]
    assert np.isfinite(checked(model, *given)).all()


def test_a_long_chain_is_regular_in_single_precision():
    model = kt.auto_tree(5000, 1, 0.3)
    given = [jnp.asarray(x, jnp.float32) for x in state(model, 11)]
    assert np.isfinite(kt.forward_dynamics(model, *given, schedule="paths")).all()


def test_a_long_singular_chain_is_told():
    """A massless link on a hinge that stays in line with the next, deep inside: chunks and walks must notice it too."""
    n = 6000
    model = kt.auto_tree(n, 1, 0.3)
    inertia = jax.tree.map(np.array, model.inertia)
    for leaf in jax.tree.leaves(inertia):
        leaf[3000] = 0
    x_tree = np.tile(np.eye(6), (n, 1, 1))
    x_tree[1:] = plucker(Rotation.from_euler("x", 0.3).as_matrix(), [1, 0, 0])
    x_tree[3001] = np.eye(6)
    moments = np.stack([inertia.mass, *inertia.h, *inertia.I], -1)
    model = kt.Model.from_arrays(np.arange(-1, n - 1), "Rz", x_tree, moments)
    q, qd, tau = state(model, 12)
    with pytest.raises(ValueError, match=r"joint 'joint_3000'"):
        kt.forward_dynamics(model, q, qd, tau)


def test_ordinary_robots_are_firm():
    assert is_firm(kt.auto_tree(7, 1, 0.3))
    assert is_firm(kt.auto_tree(1000, 1, 0.3))
    assert not is_firm(gimbal(0.0)[0])
    rod = np.diag([1e-12, 1, 1, 1, 1, 1])
    assert not is_firm(kt.Model.from_arrays([-1], "Rz", np.eye(6)[None], rod[None]))


def test_led_joints_are_never_singular():
    """Hybrid dynamics gives them an infinite rotor."""
    model = singular_model("hinge on massless ball", np.random.default_rng(13))
    q, qd, tau = state(model, 14)
    given = np.array([False, False, False, True])
    qdd, _ = kt.hybrid_dynamics(model, q, qd, tau, tau, given)
    assert np.isfinite(qdd).all()

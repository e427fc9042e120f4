"""What contact must do, whoever computes it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.constrain.newton import below_rounding
from kinetree.model.world import Scene
from kinetree.spatial import Quaternion

MASS, SIZE, FRICTION = 2.0, 0.1, 0.6
UP = np.array([0.0, 0.0, 1.0])


def box(**world):
    """A box with balls for corners on a floor of known friction; stiff, so that it hardly sinks in."""
    I = MASS * (2 * SIZE) ** 2 / 6
    model = kt.Model.from_arrays([-1], "free", np.eye(6)[None], [[MASS, 0, 0, 0, I, I, I, 0, 0, 0]])
    corners = [(x, y, -SIZE) for x in (-SIZE, SIZE) for y in (-SIZE, SIZE)]
    feet = [kt.Shape("sphere", 0.01, 0, c, friction=FRICTION, solimp=(0.99, 0.999, 0.001, 0.5, 2)) for c in corners]
    floor = kt.Shape("plane", friction=0.0, solimp=(0.99, 0.999, 0.001, 0.5, 2))
    model = kt.with_shapes(model, [*feet, floor])
    return model.replace(world=model.world.replace(cone="elliptic", impratio=1000.0, **world))


BOX = box()
REST = np.array([0, 0, SIZE + 0.01 - 1e-5, 1, 0, 0, 0.0])


COUNT = 5  # states in every batch, so that all tests share one compilation


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_norms_that_overflow_do_not_end_the_search(dtype):
    steps, sizes = (np.array(x, dtype) for x in ([0, 1e-30, 1, np.inf, np.inf], [0, 1, 1, np.inf, 1]))
    assert below_rounding(steps, sizes).tolist() == [True, True, False, False, False]


def test_a_box_on_a_slope_slips_exactly_past_its_friction_angle():
    """The slope is a floor under tilted gravity, which is a force on the box."""
    angle = np.arctan(FRICTION) + np.array([-0.02, -0.002, 0.002, 0.02, 0.2])
    weightless = BOX.replace(gravity=np.zeros(3))
    pull = np.zeros((COUNT, 6))
    pull[:, 3], pull[:, 5] = MASS * 9.81 * np.sin(angle), -MASS * 9.81 * np.cos(angle)
    found = kt.constrained_dynamics(weightless, np.tile(REST, (COUNT, 1)), np.zeros((COUNT, 6)), pull)
    along, pressed = found.qdd[:, 3], found.tau_constraint[:, 5]
    assert (np.abs(along[:2]) < 2e-3 * 9.81).all()  # regularised friction creeps
    assert (-found.tau_constraint[:2, 3] < FRICTION * pressed[:2]).all()
    np.testing.assert_allclose(along[2:], (pull[2:, 3] - FRICTION * pressed[2:]) / MASS, atol=1e-9)
    assert (along[2:] > 0).all()


def test_a_resting_box_is_carried_and_not_moved():
    found = kt.constrained_dynamics(BOX, np.tile(REST, (COUNT, 1)), np.zeros((COUNT, 6)))
    assert found.contacts.active.sum() == 4 * COUNT
    np.testing.assert_allclose(found.tau_constraint[:, 5], MASS * (9.81 + found.qdd[:, 5]), rtol=1e-12)
    assert np.abs(found.tau_constraint[:, :3]).max() < 1e-9  # no moment about the centre
    assert (found.contacts.bodies == [[-1, 0]]).all()
    assert np.allclose(found.contacts.frame[..., 0, :], UP)


def states(count=COUNT, seed=5):
    rng = np.random.default_rng(seed)
    q = np.tile(REST, (count, 1)) + 0.003 * rng.standard_normal((count, 7))
    q[:, 3:] = np.asarray(Quaternion.from_array(q[:, 3:]).normalized().array())
    return q, 0.1 * rng.standard_normal((count, 6)), rng.standard_normal((count, 6))


def test_inverse_undoes_forward_and_forces_that_pull_are_never_there():
    q, qd, tau = states()
    found = kt.constrained_dynamics(BOX, q, qd, tau)
    assert found.contacts.active.any(-1).sum() >= 4
    back = kt.constrained_inverse_dynamics(BOX, q, qd, found.qdd)
    assert np.abs(back - tau).max() < 1e-8  # forces are of the order of 100
    push = (
        np.asarray(Quaternion.from_array(q[:, 3:]).rotation().array()).transpose(0, 2, 1)
        @ found.tau_constraint[:, 3:, None]
    )
    assert (push[:, 2] >= -1e-12).all()
    assert (np.hypot(push[:, 0], push[:, 1]) <= FRICTION * push[:, 2] + 1e-9).all()


def test_batches_orders_and_vmap_agree():
    q, qd, tau = states()
    whole = kt.constrained_dynamics(BOX, q, qd, tau)
    turned = kt.constrained_dynamics(BOX, q[::-1], qd[::-1], tau[::-1])
    np.testing.assert_array_equal(whole.qdd, turned.qdd[::-1])
    single = kt.constrained_dynamics(BOX, q[3], qd[3], tau[3])
    np.testing.assert_array_equal(single.qdd, whole.qdd[3])
    mapped = jax.vmap(lambda *s: kt.constrained_dynamics(BOX, *s).qdd)(*map(jnp.asarray, (q, qd, tau)))
    # XLA rounds otherwise under vmap, and contacts a thousand times stiffer than the box is heavy enlarge that
    np.testing.assert_allclose(mapped, whole.qdd, rtol=1e-10, atol=1e-10)


@pytest.mark.thorough  # tests/simulate/test_native_gradients.py has those by masses and friction
def test_derivatives_are_those_of_the_minimum():
    q, qd, tau = map(jnp.asarray, states())

    def acceleration(tau, friction):
        scene = BOX.world.scene
        surfaces = scene.surfaces._replace(friction=friction * scene.surfaces.friction)
        world = BOX.world.replace(scene=Scene(scene.shapes, surfaces, scene.pairs, scene.layout))
        return kt.constrained_dynamics(BOX.replace(world=world), q, qd, tau).qdd

    step, at = 1e-5, (tau, jnp.ones(()))
    way = (jnp.asarray(np.random.default_rng(1).standard_normal(tau.shape)), jnp.ones(()))
    there, back = (acceleration(*(a + s * step * w for a, w in zip(at, way, strict=True))) for s in (1, -1))
    wanted = (there - back) / (2 * step)
    _, found = jax.jvp(acceleration, at, way)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    pulled = jax.vjp(acceleration, *at)[1](wanted)
    turned = sum(float((a * w).sum()) for a, w in zip(pulled, way, strict=True))
    assert turned == pytest.approx(float((wanted * found).sum()), rel=1e-9)


def test_without_constraints_is_the_free_tree():
    q, qd, tau = states()
    free = kt.constrained_dynamics(BOX.without_constraints, q, qd, tau)
    np.testing.assert_allclose(free.qdd, kt.forward_dynamics(BOX, q, qd, tau), rtol=1e-12, atol=1e-12)
    assert not free.tau_constraint.any()
    assert free.contacts.active.shape[-1] == 0

"""Worlds whose models differ run side by side, with the bits that each has alone."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree import envs
from tests.simulate.robots import tree20

worlds = importlib.import_module("kinetree.simulate.native.worlds")
MASS, OTHER = np.array([0.8, 1.0, 1.3]), np.array([1.2, 1.0, 0.7])


@pytest.fixture(scope="module")
def cheetah():
    """A robot on the floor, with limits, springs, dampers and motors; its feet are in the ground."""
    model = envs.make("half_cheetah").model
    q = np.tile(kt.initial_state(model).q, (3, 1))
    q[:, 1] -= 0.1
    return model, kt.initial_state(model, q)


def change(model, mass, other):
    return kt.scaled(model, mass=mass, damping=other, gain=mass, friction=other, gravity=mass, size=other)


def make(model):
    return jax.vmap(lambda a, b: change(model, a, b))(jnp.asarray(MASS), jnp.asarray(OTHER))


def alone(model, world):
    return jax.tree.map(np.asarray, change(model, jnp.asarray(MASS[world]), jnp.asarray(OTHER[world])))


def test_worlds_have_the_bits_that_each_has_alone(cheetah):
    model, start = cheetah
    ctrl = np.full((3, model.nu), 0.3)
    models = make(model)
    assert models.batch == (3,)
    assert model.batch == ()
    together = kt.advance(models, start, ctrl, substeps=20)
    assert isinstance(together.q, np.ndarray)
    for k in range(3):
        single = kt.advance(alone(model, k), jax.tree.map(lambda x, k=k: x[k], start), ctrl[k], substeps=20)
        jax.tree.map(lambda a, b, k=k: np.testing.assert_array_equal(a, b[k]), single, together)
    assert np.abs(np.diff(together.q, axis=0)).min(0).max() > 1e-3, "worlds do not differ"
    shared = kt.advance(models, jax.tree.map(lambda x: x[0], start), ctrl[0], substeps=20)  # one state, for all worlds
    jax.tree.map(np.testing.assert_array_equal, shared, together)
    end, seen = kt.rollout(models, start, np.broadcast_to(ctrl, (4, 3, model.nu)), steps=4, substeps=5, record="q")
    jax.tree.map(np.testing.assert_array_equal, end, together)
    assert seen["q"].shape == (4, 3, model.nq)


def randomised(model, key):
    first, second = jax.random.uniform(key, (2,), minval=0.7, maxval=1.3)
    return kt.scaled(model, mass=first, gain=second)


def test_environments_of_worlds_that_differ():
    """Drawn by a function or given as models; each world moves as it does alone."""
    env = envs.make("cart_pole", randomise=randomised)
    given = envs.make("cart_pole", model=env.models((3,)))
    assert given.replace(noise=0.1).models((3,)).batch == (3,)
    low, high = given.action_range
    assert low.shape == high.shape == (1,)
    state = jax.jit(env.reset)(jax.random.split(jax.random.key(0), 3))
    state = state.replace(physics=jax.tree.map(lambda x: jnp.broadcast_to(x[:1], x.shape), state.physics))
    after = [jax.jit(e.step)(state, jnp.ones((3, 1))).physics.q for e in (env, given)]
    np.testing.assert_array_equal(*after)
    for k, drawn in enumerate(jax.random.split(jax.random.key(0), 3)):
        own = jax.tree.map(np.asarray, randomised(env.model, drawn))
        alone = kt.advance(own, jax.tree.map(lambda x, k=k: x[k], state.physics), np.ones(1), substeps=env.frame_skip)
        np.testing.assert_allclose(after[0][k], alone.q, rtol=1e-12)
    assert len(set(np.round(after[0][:, 0], 9).tolist())) == 3


def test_models_side_by_side_run_in_native_lanes():
    """Lanes with constants of their own: no loop of XLA, the bits of single models, and derivatives by the factors."""
    model = tree20()
    q, qd = map(jnp.asarray, kt.random_state(model, 0, (3, 2)))

    def accelerations(factor):
        return jax.vmap(lambda f, q, qd: kt.forward_dynamics(kt.scaled(model, mass=f, gravity=f), q, qd, qd))(
            factor, q, qd
        )

    factors = jnp.asarray(MASS)
    text = jax.jit(accelerations).lower(factors).as_text()
    if jax.default_backend() == "cpu":
        assert "stablehlo.while" not in text
    found = jax.jit(accelerations)(factors)
    for k in range(3):
        single = kt.forward_dynamics(kt.scaled(model, mass=factors[k], gravity=factors[k]), q[k], qd[k], qd[k])
        np.testing.assert_allclose(found[k], single, rtol=1e-13, atol=1e-13)
    value = jax.jit(lambda f: (accelerations(f) ** 2).sum())
    h = 1e-6
    slopes = [(value(factors.at[k].add(h)) - value(factors.at[k].add(-h))) / (2 * h) for k in range(3)]
    np.testing.assert_allclose(jax.jit(jax.grad(value))(factors), slopes, rtol=1e-6)


def test_the_constants_of_many_worlds_are_made_at_once(monkeypatch):
    """One program of XLA for all; NumPy's, world by world, are the same but for rounding."""
    model = kt.load(
        """<mujoco><worldbody><geom type="plane" size="1 1 1"/><body pos="0 0 0.1"><joint type="slide" axis="0 0 1"/>
        <geom size="0.1"/></body></worldbody></mujoco>"""
    )
    models = jax.vmap(lambda f: kt.scaled(model, mass=f, friction=f))(jnp.linspace(0.8, 1.2, 5))
    found = []
    for few in (5, 4):
        monkeypatch.setattr(worlds, "WORLDS_ONE_BY_ONE", few)
        own = jax.tree.map(np.asarray, models)
        found.append(worlds.bound_to_worlds(own, "Euler", np.float64, 0.002, False).stepper.constants)
    assert any(x.ndim == 3 for x in found[0])
    for a, b in zip(*found, strict=True):
        assert isinstance(b, np.ndarray)
        np.testing.assert_allclose(a, b, rtol=1e-14)


def test_scaled_numbers_are_those_asked_for(cheetah):
    model, _ = cheetah
    heavy = kt.scaled(model, mass=2.0, armature=3.0, stiffness=0.5, size=1.1, friction=0.5)
    np.testing.assert_allclose(heavy.total_mass, 2 * model.total_mass)
    np.testing.assert_allclose(heavy.rows.armature, 3 * model.rows.armature)
    np.testing.assert_allclose(heavy.passive.stiffness, 0.5 * model.passive.stiffness)
    np.testing.assert_array_equal(heavy.passive.damping, model.passive.damping)
    np.testing.assert_allclose(heavy.world.scene.shapes.size, 1.1 * model.world.scene.shapes.size)
    np.testing.assert_allclose(heavy.world.scene.surfaces.friction, 0.5 * model.world.scene.surfaces.friction)
    one = kt.scaled(model, mass=np.where(np.arange(model.n_bodies) == 2, 2.0, 1.0))
    np.testing.assert_allclose(one.inertia.mass[2], 2 * model.inertia.mass[2])


def test_axes_that_are_not_the_worlds_are_told(cheetah):
    model, _ = cheetah
    with pytest.raises(
        ValueError, match=r"q must have no batch axes, or first those of the models, \(3,\); not \(4,\)"
    ):
        kt.advance(make(model), kt.initial_state(model, batch=(4,)))


def test_derivatives_of_known_worlds_are_native():
    """The programs of derivatives are bound where a derivative is asked for."""
    model = kt.load(
        """<mujoco><worldbody><geom type="plane" size="1 1 1"/><body pos="0 0 0.099"><joint type="slide" axis="0 0 1"/>
        <joint type="slide" axis="1 0 0"/><geom size="0.1"/></body></worldbody></mujoco>"""
    )
    models = jax.tree.map(np.asarray, jax.vmap(lambda f: kt.scaled(model, mass=f, friction=f))(jnp.asarray(MASS)))
    start, qd = kt.initial_state(model, batch=(3,)), np.full((3, model.nv), 0.2)

    def speed(qd):
        return (kt.advance(models, start.replace(qd=qd)).qd ** 2).sum()

    traced = jax.jit(jax.grad(speed)).trace(jnp.asarray(qd))
    assert "kinetree_lanes" in str(traced.jaxpr)
    assert "while[" not in str(traced.jaxpr), "XLA's solver"
    found, h = traced.lower().compile()(qd), 1e-6
    for at in ((0, 0), (2, 1)):
        step = np.zeros_like(qd)
        step[at] = h
        np.testing.assert_allclose(found[at], (speed(qd + step) - speed(qd - step)) / (2 * h), rtol=1e-7)

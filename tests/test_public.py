"""What every public function promises: shapes, dtypes, NumPy or JAX, and no second compilation."""

import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree.dynamics.algorithms import rnea as module
from kinetree.dynamics.schedules.choose import SCHEDULES
from kinetree.dynamics.schedules.lanes import lane_program

STATE = np.random.default_rng(0).uniform(-1, 1, (3, 4, 6))


@pytest.fixture(scope="module")
def model():
    return kt.auto_tree(6, 2, 0.3)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_arrays_come_back_as_they_went_in(model, schedule):
    for dtype in (np.float64, np.float32):
        given = STATE.astype(dtype)
        out = kt.inverse_dynamics(model, *given, schedule=schedule)
        assert isinstance(out, np.ndarray)
        assert out.dtype == dtype
        traced = kt.inverse_dynamics(model, *map(jnp.asarray, given), schedule=schedule)
        assert isinstance(traced, jax.Array)
        assert traced.dtype == dtype
        np.testing.assert_allclose(out, traced, atol=1e-3 if dtype == np.float32 else 1e-11)


def test_batch_axes_broadcast_and_integers_are_numbers(model):
    q, qd, qdd = STATE
    out = kt.inverse_dynamics(model, q[:, None], qd[0], qdd[None])
    assert out.shape == (4, 4, 6)
    np.testing.assert_allclose(out[2, 3], kt.inverse_dynamics(model, q[2], qd[0], qdd[3]), atol=1e-12)
    ones = kt.inverse_dynamics(model, [1] * 6, [0] * 6, [2] * 6)
    assert ones.dtype == np.float64
    np.testing.assert_array_equal(ones, kt.inverse_dynamics(model, np.ones(6), np.zeros(6), np.full(6, 2.0)))


def test_wrong_input_is_told_in_one_sentence(model):
    q, qd, qdd = STATE
    with pytest.raises(ValueError, match=r"q must have shape \(\.\.\., 6\), not \(4, 5\)"):
        kt.inverse_dynamics(model, q[:, :5], qd, qdd)
    with pytest.raises(ValueError, match="batch axes do not broadcast"):
        kt.inverse_dynamics(model, q[:3], qd, qdd)
    with pytest.raises(TypeError, match="qd must hold real numbers"):
        kt.inverse_dynamics(model, q, qd * 1j, qdd)
    with pytest.raises(ValueError, match="qdd must be an array, not None"):
        kt.inverse_dynamics(model, q, qd, None)
    with pytest.raises(ValueError, match="unknown schedule 'fast'"):
        kt.inverse_dynamics(model, q, qd, qdd, schedule="fast")
    with pytest.raises(ValueError, match=r"f_ext must have shape \(\.\.\., 6, 6\)"):
        kt.inverse_dynamics(model, q, qd, qdd, np.zeros((4, 5, 6)))


@pytest.mark.parametrize("word", [np.array(["auto", "lanes"]), np.zeros(2), jnp.zeros(2), 3, ("auto",)])
def test_what_is_no_word_is_refused_in_words(model, word):
    """Arrays above all: NumPy can not say whether one is a word."""
    q, qd, qdd = STATE
    state = kt.initial_state(model, q, qd)
    calls = {
        "schedule": [
            lambda: kt.inverse_dynamics(model, q, qd, qdd, schedule=word),
            lambda: kt.forward_dynamics(model, q, qd, qdd, schedule=word),
            lambda: kt.mass_matrix(model, q, schedule=word),
            lambda: kt.forward_kinematics(model, q, schedule=word),
            lambda: kt.jacobian(model, q, 1, schedule=word),
            lambda: kt.kinetic_energy(model, q, qd, schedule=word),
            lambda: kt.factorize(model, np.eye(6), schedule=word),
        ],
        "method": [
            lambda: kt.mass_matrix(model, q, method=word),
            lambda: kt.forward_dynamics(model, q, qd, qdd, method=word),
        ],
        "frame": [lambda: kt.jacobian(model, q, 1, word), lambda: kt.frame_velocity(model, q, qd, 1, word)],
        "integrator": [
            lambda: kt.step(model, q, qd, 1e-3, integrator=word),
            lambda: kt.advance(model, state, integrator=word),
            lambda: kt.rollout(model, state, steps=1, integrator=word),
            lambda: kt.simulate(model, q, qd, dt=1e-3, steps=1, integrator=word),
            lambda: model.replace(integrator=word),
        ],
    }
    for kind, several in calls.items():
        for call in several:
            with pytest.raises(ValueError, match=f"{kind} must be a word, not of type .*: choose from"):
                call()


def test_slopes_by_numbers_of_a_model_beside_numpy_states_in_32_bit_mode():
    """What is traced is in JAX's type, and so are the states beside it; without it they keep their own."""
    arm = kt.auto_tree(2, 1, 0.3)
    q, qd, qdd = np.random.default_rng(1).uniform(-1, 1, (3, 1, 2))
    calls = {
        "inverse dynamics": lambda m: kt.inverse_dynamics(m, q, qd, qdd),
        "a step": lambda m: kt.step(m, q, qd, 0.1)[1],
    }
    for name, call in calls.items():
        total = partial(lambda call, mass: call(kt.scaled(arm, mass=1 + mass, gravity=1 - mass)).sum(), call)
        slope = (total(1e-6) - total(-1e-6)) / 2e-6
        with jax.enable_x64(False):
            found = jax.jit(jax.grad(total))(np.float32(0.0))
            assert found.dtype == np.float32, name
            assert call(kt.scaled(arm, mass=jnp.float32(2.0))).dtype == np.float64, name
        assert abs(float(found) - slope) < 1e-4 * max(1.0, abs(slope)), name


@pytest.mark.parametrize("schedule", ["sequential", "lanes"])
def test_a_second_model_of_the_same_size_is_not_traced_again(monkeypatch, tmp_path, schedule):
    """Steps run only while they are traced: count how often one of RNEA's is."""
    monkeypatch.setenv("KINETREE_CACHE", str(tmp_path))  # or nothing might be traced at all
    calls = []
    body_force = module.body_force
    monkeypatch.setattr(module, "body_force", lambda *a: calls.append(1) or body_force(*a))
    lane_program.cache_clear()
    x = [jnp.asarray(a) for a in np.random.default_rng(1).uniform(-1, 1, (3, 64, 30))]
    try:
        first = kt.inverse_dynamics(kt.auto_tree(30, 2, 0.3), *x, schedule=schedule)
        traced = len(calls)
        assert traced > 0
        second = kt.inverse_dynamics(kt.auto_tree(30, 3, 0.2, 0.9), *x, schedule=schedule)
        assert len(calls) == traced
        assert not np.allclose(first, second)
    finally:
        lane_program.cache_clear()


def test_float64_is_computed_in_float64_where_jax_has_it_switched_off():
    code = """
import jax, numpy as np, kinetree as kt
assert not jax.config.jax_enable_x64
model = kt.auto_tree(8, 2, 0.3)
x = np.random.default_rng(0).uniform(-1, 1, (3, 5, 8))
a, b = (kt.inverse_dynamics(model, *x, schedule=s) for s in ("lanes", "paths"))
assert a.dtype == b.dtype == np.float64
assert np.abs(a - b).max() < 1e-12 * np.abs(a).max()
c = kt.inverse_dynamics(model, *map(jax.numpy.asarray, x))
assert c.dtype == np.float32
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=200)


def test_importing_starts_nothing():
    """A process that has only imported kinetree may still fork, or choose its devices."""
    text = "import kinetree\nfrom jax._src import xla_bridge\nassert not xla_bridge._backends"
    subprocess.run([sys.executable, "-c", text], check=True, timeout=120)


def test_joints_that_follow_others_keep_float64_where_jax_has_it_switched_off():
    """Widening their coordinates made float32 of JAX arrays: momenta were off by 3e-7, and of type float32."""
    model = kt.auto_tree(3, 1, 0.3).couple({"joint_2": ("joint_0", -0.5, 0.1)})
    q, qd = np.random.default_rng(3).uniform(-1, 1, (2, 4, 2))
    with jax.enable_x64(True):
        wide = jnp.asarray(q), jnp.asarray(qd)
    with jax.enable_x64(False):
        for call in (kt.momentum, kt.integrate, kt.bias_force):
            found = call(model, *wide)
            assert found.dtype == np.float64
            np.testing.assert_allclose(np.asarray(found), call(model, q, qd), rtol=1e-14, atol=1e-14)


def test_a_map_over_no_states(model):
    none = jnp.zeros((0, 6))
    assert jax.vmap(lambda q: kt.inverse_dynamics(model, q, q, q))(none).shape == (0, 6)
    slopes = jax.vmap(jax.jacrev(lambda q: kt.forward_dynamics(model, q, q, q)))(none)
    assert slopes.shape == (0, 6, 6)


def test_no_result_is_on_the_memory_of_an_argument(model):
    """A state that starts at q stays there if the loop of a user then changes q."""
    acting = model.replace(actuators=[kt.Actuator("joint_0")])
    q, qd = np.full((2, 3, 6), 0.1)
    ctrl = np.full((1, 3, 1), 0.1)
    results = {
        "initial_state": kt.initial_state(model, q, qd),
        "close_loops": kt.close_loops(model, q, qd),
        "rollout": kt.rollout(acting, kt.initial_state(model, q, qd), ctrl, steps=1, record=("q", "ctrl"))[1],
    }
    before = jax.tree.map(np.copy, results)
    for given in (q, qd, ctrl):
        given[...] = 9.0
    for name, result in results.items():
        assert jax.tree.all(jax.tree.map(np.array_equal, result, before[name])), name


def test_controllers_keep_their_numbers(model):
    target = np.zeros(6)
    hold = kt.controllers.pd(model, target, 1.0, 1.0)
    q, qd = np.full((2, 6), 0.1)
    before = kt.step(model, q, qd, 0.1, hold)[1]
    target[:] = 9.0
    np.testing.assert_array_equal(kt.step(model, q, qd, 0.1, hold)[1], before)

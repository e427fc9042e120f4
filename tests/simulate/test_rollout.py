"""Rollouts: the bits of a loop in Python, derivatives by all that moves them, memory for reverse mode."""

import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kinetree as kt
from kinetree import envs
from kinetree.simulate import at_once as native_run
from kinetree.simulate import few_steps
from kinetree.simulate.bounded_scan import bounded_scan, chunk_length
from kinetree.simulate.native import frames, rolled
from tests.simulate.robots import double_pendulum

STEPS = 17  # a prime, so that chunks do not fit


@pytest.fixture(scope="module")
def model():
    """Two hinges with a motor and a servo."""
    arm = double_pendulum().replace(damping=0.1, timestep=0.005, integrator="implicitfast")
    first, second = arm.joint_names
    return arm.replace(actuators=[kt.Actuator.motor(first, gear=2.0), kt.Actuator.position(second, kp=5.0, kv=0.5)])


@pytest.fixture(scope="module")
def start(model):
    return kt.initial_state(model, *kt.random_state(model, 0, (3,)))


def noisy(carry, state, key):
    """A policy with memory and chance."""
    ctrl = 0.1 * carry - 0.3 * state.q + 0.1 * jax.random.normal(key, state.q.shape, state.q.dtype)
    return carry + ctrl, ctrl


def by_hand(model, state, carry, key, substeps):
    """The same in Python; the policy compiled, as XLA rounds a fused expression otherwise."""
    seen, chosen = [], []
    for t in range(STEPS):
        own = jax.random.split(jax.random.fold_in(key, t))[0]
        carry, ctrl = jax.jit(noisy)(carry, jax.tree.map(jnp.asarray, state), own)
        seen.append(state.q)
        chosen.append(ctrl)
        state = kt.advance(model, state, ctrl, substeps=substeps)
    return state, {"q": np.array(seen), "ctrl": np.array(chosen)}, carry


def same(found, wanted):
    jax.tree.map(np.testing.assert_array_equal, found, wanted)


def test_a_rollout_has_the_bits_of_a_loop(model, start):
    key, carry = jax.random.key(3), np.zeros((3, 2))
    options = {"steps": STEPS, "substeps": 2, "record": ("q", "ctrl"), "key": key, "return_carry": True}
    wanted = by_hand(model, start, carry, key, 2)
    found = kt.rollout(model, start, noisy, carry=carry, **options)
    same(found, wanted)
    assert all(isinstance(x, np.ndarray) and x.dtype == np.float64 for x in jax.tree.leaves(found))
    given = jax.tree.map(jnp.asarray, (start, carry))
    compiled = jax.jit(lambda s, c: kt.rollout(model, s, noisy, carry=c, **options))(*given)
    same(compiled, wanted)
    assert all(isinstance(x, jax.Array) for x in jax.tree.leaves(compiled))
    # cut in two, it goes on as if it had not been
    halves = [kt.rollout(model, start, noisy, carry=carry, **options | {"steps": 5, "record": None})]
    assert halves[0][1] is None
    np.testing.assert_array_equal(halves[0][0].q, wanted[1]["q"][5])


def test_controls_and_forces_are_held(model, start):
    one = jax.tree.map(lambda x: x[0], start)
    rng = np.random.default_rng(0)
    controls, pushes = rng.normal(size=(STEPS, 4, 2)), rng.normal(size=(model.n_bodies, 6))

    def push(state):
        return jnp.asarray(pushes) * state.time[..., None, None]

    held, seen = kt.rollout(model, one, controls, steps=STEPS, f_ext=pushes, record="time")
    pushed, _ = kt.rollout(model, one, controls, steps=STEPS, f_ext=push)
    assert held.batch == (4,)
    assert seen["time"].shape == (STEPS, 4)
    a = b = jax.tree.map(lambda x: np.broadcast_to(x, (4, *x.shape)), one)
    for ctrl in controls:
        a, b = kt.advance(model, a, ctrl, pushes), kt.advance(model, b, ctrl, np.asarray(push(b)))
    same(held, a)
    same(pushed, b)
    mapped = jax.vmap(lambda u: kt.rollout(model, one, u, steps=STEPS, f_ext=pushes)[0], 1)(jnp.asarray(controls))
    jax.tree.map(partial(np.testing.assert_allclose, atol=1e-12), mapped, held)


class Counting:
    """A policy that counts its steps."""

    def init(self, state):
        return {"steps": jnp.zeros(state.batch, state.q.dtype), "shared": jnp.zeros(7)}

    def __call__(self, carry, state, key):
        ctrl = jnp.broadcast_to(carry["steps"][..., None], (*state.batch, 2))
        return {"steps": carry["steps"] + 1, "shared": carry["shared"] + 1}, ctrl


@pytest.mark.cpu
@pytest.mark.parametrize("of_jax", [False, True])
def test_known_controls_take_one_native_call(model, start, of_jax, monkeypatch):
    """With the bits of a loop; piece by piece where the states are many."""
    controls = np.random.default_rng(0).standard_normal((STEPS, 3, 2))
    pushes = 0.1 * np.random.default_rng(1).standard_normal((model.n_bodies, 6))
    names = ("q", "qd", "act", "time", "warm_start", "ctrl", "done")
    given = jax.tree.map(jnp.asarray, (start, controls)) if of_jax else (start, controls)
    options = {"steps": STEPS, "substeps": 2, "record": names, "f_ext": pushes}
    seen, state = {name: [] for name in names[:5]}, start
    for ctrl in controls:
        for name, x in seen.items():
            x.append(getattr(state, name))
        state = kt.advance(model, state, ctrl, pushes, substeps=2)
    wanted = {name: np.array(x) for name, x in seen.items()}
    wanted |= {"ctrl": controls, "done": np.zeros((STEPS, 3), bool)}
    calls = []
    monkeypatch.setattr(few_steps, "MAX_STEPS", 0)  # which go one by one
    monkeypatch.setattr(native_run, "rolled", lambda *a: calls.append(a) or rolled(*a))
    for most in (frames.MAX_PIECE_BYTES, 1000):
        monkeypatch.setattr(frames, "MAX_PIECE_BYTES", most)
        end, found = kt.rollout(model, *given, **options)
        same((end, found), (state, wanted))
        assert all(isinstance(x, jax.Array if of_jax else np.ndarray) for x in jax.tree.leaves((end, found)))
    assert len(calls) == 2
    alone = kt.rollout(model, start, controls[:, 0], **options)  # controls that all worlds share
    same(alone[0].q[0], kt.rollout(model, jax.tree.map(lambda x: x[0], start), controls[:, 0], **options)[0].q)


def test_finished_worlds_start_again(model, start):
    """By state or by function; the policy's memory with them."""

    def done(state):
        return (state.time > 0.012) & (jnp.arange(3) != 1)  # after three steps, but not the second world

    def anew(state, key):
        return state.replace(q=jax.random.uniform(key, state.q.shape, state.q.dtype), time=jnp.zeros_like(state.time))

    options = {"steps": 6, "record": ("time", "ctrl", "done", "q"), "done": done, "return_carry": True}
    end, seen, carry = kt.rollout(model, start, Counting(), **options)
    np.testing.assert_allclose(seen["time"][:, 0], [0, 0.005, 0.01, 0, 0.005, 0.01])
    np.testing.assert_allclose(seen["time"][:, 1], 0.005 * np.arange(6))
    np.testing.assert_array_equal(seen["ctrl"][:, 0, 0], [0, 1, 2, 0, 1, 2])
    np.testing.assert_array_equal(seen["done"][:, 2], [False, False, True, False, False, True])
    np.testing.assert_array_equal(seen["q"][3, 0], start.q[0])
    np.testing.assert_array_equal(end.q[0], start.q[0])
    np.testing.assert_array_equal(carry["steps"], [0, 6, 0])
    np.testing.assert_array_equal(carry["shared"], 6)
    key = jax.random.key(1)
    _, seen, _ = kt.rollout(model, start, Counting(), **options, reset=anew, key=key)
    drawn = jax.random.uniform(jax.random.split(jax.random.fold_in(key, 2))[1], (3, 2))
    np.testing.assert_array_equal(seen["q"][3, [0, 2]], drawn[jnp.array([0, 2])])


def test_derivatives_by_state_policy_and_model(model, start):
    """In both modes, against differences: gains of a policy, velocities, masses, dampers, gravity, controls."""
    state = jax.tree.map(jnp.asarray, start)

    def feedback(gain, carry, state, key):
        return carry + state.q, -gain * (state.q + 0.1 * carry)

    def end(x):
        changed = model.replace(
            inertia=jnp.asarray(model.inertia.array()) * (1 + x[1]),
            damping=model.passive.damping * (1 + x[2]),
            gravity=jnp.asarray(model.gravity) * (1 + x[3]),
        )
        moved = state.replace(qd=state.qd + x[4])
        policy = jax.tree_util.Partial(feedback, 0.3 + x[0])
        carry = jnp.zeros_like(state.q) + x[5]
        after, seen = kt.rollout(changed, moved, policy, steps=STEPS, substeps=2, carry=carry, record=("ctrl",))
        return after.q.sum() + (seen["ctrl"] ** 2).sum()

    x, h = jnp.zeros(6), 1e-6
    value = jax.jit(end)
    slopes = np.array([(value(x.at[k].set(h)) - value(x.at[k].set(-h))) / (2 * h) for k in range(6)])
    assert np.abs(slopes).min() > 1e-3, "something does not matter"
    np.testing.assert_allclose(jax.jit(jax.grad(end))(x), slopes, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(lambda x: jax.jvp(end, (x,), (x + 1,))[1])(x), slopes.sum(), rtol=1e-6)


def test_a_policy_may_hold_what_is_differentiated(model, start):
    """Without `jit`, in a closure, and by the controls themselves."""

    def end(gain):
        def policy(carry, state, key):
            return carry, -gain * state.q

        return kt.rollout(model, start, policy, steps=3)[0].q.sum()

    def by_controls(u):
        return kt.rollout(model, start, u, steps=3)[0].q.sum()

    h, u = 1e-6, np.zeros((3, 2))
    np.testing.assert_allclose(jax.grad(end)(0.3), (end(0.3 + h) - end(0.3 - h)) / (2 * h), rtol=1e-6)
    way = np.array([[0.0, 1.0], [0.5, 0.0], [0.0, 0.0]])
    slope = (by_controls(h * way) - by_controls(-h * way)) / (2 * h)
    np.testing.assert_allclose((jax.grad(by_controls)(jnp.asarray(u)) * way).sum(), slope, rtol=1e-6)


@pytest.mark.parametrize("form", ["rollout", "substeps"])
def test_reverse_mode_keeps_few_states(model, start, form):
    """Sixteen times the steps take about four times the memory."""

    def end(steps, q):
        state = jax.tree.map(jnp.asarray, start).replace(q=q)
        if form == "rollout":
            return kt.rollout(model, state, steps=steps)[0].q.sum()
        return kt.advance(model, state, substeps=steps).q.sum()

    def kept(steps):
        gradient = jax.jit(jax.grad(partial(end, steps)))
        return gradient.lower(jnp.asarray(start.q)).compile().memory_analysis().temp_size_in_bytes

    few, many = kept(1 << 10), kept(1 << 14)
    assert many < 6 * few


def test_scan_in_chunks():
    assert chunk_length(10_000) == 100
    for turns in (0, 1, 15, 16, 17, 100, 1009):
        xs = np.arange(turns) % 7
        wanted = jax.lax.scan(lambda c, x: (c * 3 % 101 + x, c), 1, jnp.asarray(xs))
        same(bounded_scan(lambda c, x: (c * 3 % 101 + x, c), 1, jnp.asarray(xs), turns), wanted)


def test_wrong_arguments_are_told(model, start):
    with pytest.raises(ValueError, match=r"controls must have shape \(4, \.\.\., 2\), not \(3, 2\)"):
        kt.rollout(model, start, np.zeros((3, 2)), steps=4)
    with pytest.raises(ValueError, match="steps must be a number of steps, not -1"):
        kt.rollout(model, start, steps=-1)
    with pytest.raises(ValueError, match=r"f_ext must have shape \(\.\.\., \d+, 6\), not \(9, 6\)"):
        kt.rollout(model, start, steps=1, f_ext=np.ones((9, 6)))
    with pytest.raises(ValueError, match="qd must have shape"):
        kt.rollout(model, start.replace(qd=np.zeros(9)), steps=1)
    with pytest.raises(TypeError, match="ctrl must hold real numbers, not complex128"):
        kt.rollout(model, start, np.zeros((1, 2), complex), steps=1)
    with pytest.raises(ValueError, match="unknown record 'qdd'"):
        kt.rollout(model, start, steps=1, record=("q", "qdd"))
    with pytest.raises(TypeError, match="the policy can not be traced by JAX"):
        kt.rollout(model, start, lambda c, s, k: (c, np.sin(s.q)), steps=1)


@pytest.mark.thorough
@pytest.mark.usefixtures("full_compilation")
def test_derivatives_through_contact():
    """A quadruped that stands on its feet: by velocity, masses, gravity, friction of the floor."""
    env = envs.make("quadruped")
    model, begun = env.model, jax.jit(env.reset)(jax.random.key(0)).physics
    ctrl = begun.q[7 : 7 + model.nu]
    state = kt.advance(model, begun, ctrl, substeps=200)
    touches = np.asarray(kt.contacts(model, state.q).active)
    assert 3 <= touches.sum() < len(touches)

    def end(x):
        changed = kt.scaled(model, mass=1 + x[1], gravity=1 + x[2], friction=1 + x[3])
        moved = state.replace(qd=state.qd.at[3].add(x[0]))
        after, _ = kt.rollout(changed, moved, jnp.broadcast_to(ctrl, (100, model.nu)), steps=100)
        return after.q[:3].sum() + 0.1 * after.qd.sum()

    x, h = jnp.zeros(4), 1e-6
    value = jax.jit(end)
    slopes = np.array([(value(x.at[k].set(h)) - value(x.at[k].set(-h))) / (2 * h) for k in range(4)])
    np.testing.assert_allclose(jax.jit(jax.grad(end))(x), slopes, rtol=1e-4, atol=1e-8)


def test_both_widths_of_numbers_one_after_the_other():
    """NumPy arrays in 64 bits, JAX's in 32, and again: JAX must not remember the types of tables."""
    code = """
import jax, jax.numpy as jnp, numpy as np, kinetree as kt
jax.config.update("jax_disable_most_optimizations", True)
model = kt.auto_tree(3, 1, 0.3)
model = model.replace(actuators=[kt.Actuator.position(j, kp=3.0) for j in model.joint_names], integrator="implicitfast")
state = kt.initial_state(model, np.ones((2, 3)))
narrow = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), state)
ends = [kt.rollout(model, s, np.ones((4, 3)), steps=4)[0].q for s in (state, narrow, state)]
ends += [kt.advance(model, s, substeps=4, ctrl=np.ones(3)).q for s in (state, narrow, state)]
assert [str(x.dtype) for x in ends] == 2 * ["float64", "float32", "float64"], ends
for x in ends:
    np.testing.assert_allclose(x, ends[0], atol=1e-5)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=200)

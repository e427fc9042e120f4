"""Steps of whole states against MuJoCo's mj_step, on scenes without contacts."""

import dataclasses

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import kinetree as kt
from tests.actuate.scenes import GYMNASIUM, arm_text, compiled, ours, random_data, state_of
from tests.second import few
from tests.simulate.robots import ROBOTS

FILES = ["ant", "half_cheetah", "humanoid", "inverted_double_pendulum", "inverted_pendulum", "pusher_v5", "reacher"]


def difference(m, convention, d, state):
    """How far our state is from MuJoCo's data: coordinates, velocities, activations, time."""
    q = np.zeros(m.nv)
    mujoco.mj_differentiatePos(m, q, 1.0, d.qpos, convention.q_there(state.q))
    v = convention.v_there(state.q, state.qd) - d.qvel
    return max(np.abs(x).max(initial=0) for x in (q, v, state.act - d.act, state.time - d.time))


def compare(m, seeds=(0,), steps=100):
    """One step, then more, from random states under controls beyond their ranges."""
    model, convention = ours(m)
    for seed in seeds:
        d = random_data(m, np.random.default_rng(seed))
        state, ctrl = state_of(convention, d), np.array(d.ctrl)
        mujoco.mj_step(m, d)
        state = kt.advance(model, state, ctrl)
        assert difference(m, convention, d, state) < 1e-10
        mujoco.mj_step(m, d, steps - 1)
        state = kt.advance(model, state, ctrl, substeps=steps - 1)
        assert difference(m, convention, d, state) < 1e-7


@pytest.mark.parametrize(
    ("integrator", "flags"),
    [("Euler", ""), ("Euler", 'eulerdamp="disable"'), ("implicitfast", ""), ("implicit", ""), ("RK4", "")],
)
def test_every_joint_and_actuator(integrator, flags):
    compare(compiled(arm_text(f'integrator="{integrator}"', flags)), seeds=(0, 1))


@few("name", FILES, ["ant", "humanoid", "reacher"])
def test_gymnasium(name):
    compare(compiled(GYMNASIUM / f"{name}.xml"))


HINGES = """
<mujoco><option timestep="0.005"/><worldbody>
  <body><joint name="a" axis="0 1 0" damping="0.1"/><geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.05"/>
    <body pos="0 0 -0.4"><joint name="b" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.04"/>
  </body></body></worldbody>
  <actuator><motor joint="a"/><position joint="b" kp="5" kv="1" timeconst="0.1"/></actuator>
  <keyframe><key name="up" qpos="3 0.1" qvel="0.5 0" act="0.2" ctrl="0.1 0.3" time="1.5"/></keyframe>
</mujoco>"""


@pytest.fixture(scope="module")
def hinges():
    return kt.load(HINGES)


@pytest.mark.parametrize("jit", [False, True])
def test_substeps_have_the_bits_of_single_steps(hinges, jit):
    q, qd = kt.random_state(hinges, 0, (5,))
    start = kt.initial_state(hinges, jnp.asarray(q), jnp.asarray(qd))
    ctrl = jnp.asarray([0.3, -0.2])

    def take(k):
        def function(state):
            return kt.advance(hinges, state, ctrl, substeps=k)

        return jax.jit(function) if jit else function

    one, three = take(1), take(3)
    state = start
    for _ in range(3):
        state = one(state)
    jax.tree.map(np.testing.assert_array_equal, three(start), state)
    np.testing.assert_allclose(state.time, 0.015)


def test_steps_by_xla_have_the_same_bits_inside_jit():
    """XLA must not fold numbers of the model in, which it knows there."""
    model = kt.auto_tree(2, 1, 0.7).replace(damping=0.3, stiffness=1.3)
    q, qd = kt.random_state(model, 0, (4,))
    start = kt.initial_state(model, jnp.asarray(q), jnp.asarray(qd))
    state = start
    for _ in range(10):
        state = kt.advance(model, state, dt=0.002, integrator="rk4")
    inside = jax.jit(lambda s: kt.advance(model, s, dt=0.002, integrator="rk4", substeps=10))(start)
    jax.tree.map(np.testing.assert_array_equal, inside, state)


def test_arrays_come_back_as_they_went_in(hinges):
    state = kt.initial_state(hinges, batch=(2, 3))
    assert state.batch == (2, 3)
    after = kt.advance(hinges, state, np.zeros(2))
    assert all(isinstance(x, np.ndarray) and x.dtype == np.float64 for x in jax.tree.leaves(after))
    assert [x.shape for x in jax.tree.leaves(after)] == [(2, 3, 2), (2, 3, 2), (2, 3, 1), (2, 3), (2, 3, 2)]
    single = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), state)
    after = kt.advance(hinges, single, jnp.zeros(2, jnp.float32), dt=0.01)
    assert all(isinstance(x, jax.Array) and x.dtype == jnp.float32 for x in jax.tree.leaves(after))


def test_vmap_is_a_batch(hinges):
    q, qd = kt.random_state(hinges, 1, (4,))
    state = kt.initial_state(hinges, jnp.asarray(q), jnp.asarray(qd))
    ctrl = jnp.asarray(np.random.default_rng(0).standard_normal((4, 2)))
    whole = kt.advance(hinges, state, ctrl, substeps=2)
    mapped = jax.vmap(lambda s, u: kt.advance(hinges, s, u, substeps=2))(state, ctrl)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-13), mapped, whole)


def test_derivatives_are_those_of_differences(hinges):
    """By state, control and model: through several steps, in both modes."""
    state = jax.tree.map(jnp.asarray, hinges.keyframe("up"))

    def end(x):
        gain = hinges.actuators.gain * (1 + x[4])
        model = hinges.replace(
            damping=hinges.passive.damping * (1 + x[3]),
            actuators=dataclasses.replace(hinges.actuators, gain=gain),
            timestep=hinges.timestep * (1 + x[5]),
        )
        moved = state.replace(qd=state.qd + x[:2])
        ctrl = jnp.stack([x[2], jnp.asarray(0.3)])
        return kt.advance(model, moved, ctrl, substeps=4).q.sum()

    x, h = jnp.zeros(6), 1e-6
    slopes = [(end(x.at[k].set(h)) - end(x.at[k].set(-h))) / (2 * h) for k in range(6)]
    np.testing.assert_allclose(jax.grad(end)(x), slopes, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(jax.jvp(end, (x,), (jnp.ones(6),))[1], sum(slopes), rtol=1e-6)


def test_a_state_to_start_from(hinges):
    key = hinges.keyframe("up")
    np.testing.assert_allclose([*key.q, *key.qd, *key.act, key.time], [3, 0.1, 0.5, 0, 0.2, 1.5])
    np.testing.assert_allclose(hinges.keyframe_ctrl(0), [0.1, 0.3])
    state = kt.initial_state(hinges, qd=np.ones(2), batch=(3,), keyframe=0)
    assert state.q.shape == state.qd.shape == (3, 2)
    np.testing.assert_array_equal(state.qd, np.ones((3, 2)))
    np.testing.assert_array_equal(state.act, np.full((3, 1), 0.2))
    with pytest.raises(KeyError, match="'up'"):
        hinges.keyframe("down")
    with pytest.raises(IndexError, match="number 1"):
        hinges.keyframe(1)


def test_the_start_of_a_file_is_where_it_puts_its_bodies():
    m = compiled(arm_text())
    model, convention = ours(m)
    np.testing.assert_array_equal(convention.q_there(kt.initial_state(model).q), mujoco.MjData(m).qpos)
    d = mujoco.MjData(m)
    mujoco.mj_resetDataKeyframe(m, d, 0)
    key = model.keyframe("home")
    np.testing.assert_allclose(convention.v_there(key.q, key.qd), d.qvel, atol=1e-15)
    np.testing.assert_allclose(key.time, d.time)


FLOOR = """
<mujoco><option timestep="0.005" integrator="{}" tolerance="1e-14" iterations="200" ls_iterations="200"/>
  <worldbody><geom type="plane" size="1 1 1" friction="0.4 0.01 0.001"/>
  <body pos="0 0 0.09"><freejoint/><geom size="0.1"/>
    <body pos="0.1 0 0"><joint name="a" axis="0 1 0" damping="0.05" range="-20 20" frictionloss="0.02" armature="0.01"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03"/>
  </body></body></worldbody>
  <actuator><velocity joint="a" kv="0.1"/></actuator>
</mujoco>"""


@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
def test_a_ball_with_a_tail_on_the_floor(integrator):
    """Contact, a limit, friction loss, damping and a servo at once: one step and a hundred."""
    m = mujoco.MjModel.from_xml_string(FLOOR.format(integrator))
    m.geom_conaffinity[1:] = 0  # collisions between moving bodies are not modelled
    model, convention = ours(m)
    d = mujoco.MjData(m)
    d.qvel[:] = 0.5, 0.2, -0.1, 0.4, 0.3, -0.2, 2.0
    state, seen = state_of(convention, d), set()
    for k in range(100):
        d.ctrl[:] = -8.0 if k < 30 else 8.0  # up to the limit, then down to the floor
        mujoco.mj_step(m, d)
        seen.add((d.ncon, d.nefc))
        state = kt.advance(model, state, np.array(d.ctrl))
        assert difference(m, convention, d, state) < (1e-10 if k == 0 else 1e-7)
    assert len(seen) > 2, "nothing touched, or nothing let go"


@pytest.mark.parametrize("integrator", ["semi_implicit", "rk4", "variational"])
def test_our_integrators_by_name(hinges, integrator):
    """The same motion in the limit of short steps, forces on bodies included."""
    state = hinges.keyframe("up")
    f_ext = np.zeros((hinges.n_bodies, 6))
    f_ext[1, 3:] = 1, 0, 2
    options = {"ctrl": np.array([0.1, 0.2]), "f_ext": f_ext, "dt": 1e-4, "substeps": 100}
    one = kt.advance(hinges, state, integrator="RK4", **options)
    other = kt.advance(hinges, state, integrator=integrator, **options)
    np.testing.assert_allclose(other.q, one.q, atol=1e-4)
    np.testing.assert_allclose(other.act, one.act, atol=1e-4)
    assert np.abs(one.q - state.q).max() > 1e-3


def test_wrong_arguments_are_told(hinges):
    state = kt.initial_state(hinges)
    with pytest.raises(ValueError, match="unknown integrator 'leapfrog'"):
        kt.advance(hinges, state, integrator="leapfrog")
    with pytest.raises(ValueError, match="substeps must be a number of steps"):
        kt.advance(hinges, state, substeps=-1)
    with pytest.raises(ValueError, match="substeps must be at most 16777216"):
        kt.advance(hinges, state, substeps=2**70)
    with pytest.raises(ValueError, match="substeps must be at most 16777216"):
        kt.rollout(hinges, state, steps=1, substeps=2**70)
    with pytest.raises(ValueError, match="dt must be a positive number"):
        kt.advance(hinges, state, dt=0)
    with pytest.raises(ValueError, match=r"ctrl must have shape \(\.\.\., 2\)"):
        kt.advance(hinges, state, np.zeros(3))


def test_states_far_from_their_limits_are_free_whatever_the_batch():
    """A joint of one state stands beyond its limit: it is pushed back; the other state has the bits it has alone."""
    model = kt.load(ROBOTS / "arm7.urdf")
    upper = np.array(model.limits.upper)
    q = np.zeros((2, model.nq))
    q[1, 1] = upper[1] + 0.05
    free = kt.advance(
        model.without_constraints, kt.initial_state(model.without_constraints, q), integrator="Euler", dt=1e-3
    )
    both = kt.advance(model, kt.initial_state(model, q), integrator="Euler", dt=1e-3)
    np.testing.assert_allclose(both.qd[0], free.qd[0], rtol=1e-12, atol=1e-14)
    assert both.qd[1, 1] < free.qd[1, 1] - 0.1
    for k in range(2):
        alone = kt.advance(model, kt.initial_state(model, q[k : k + 1]), integrator="Euler", dt=1e-3)
        np.testing.assert_array_equal(alone.qd[0], both.qd[k])


def test_a_state_after_another_is_a_state():
    """As `replace` makes it: frozen, a pytree, and the first one stays as it was."""
    state = kt.initial_state(kt.auto_tree(3))
    made, expected = state.after({"q": state.q + 1}), state.replace(q=state.q + 1)
    assert jax.tree.structure(made) == jax.tree.structure(expected)
    assert all(np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, (made, expected)), strict=True))
    assert not np.any(state.q)
    with pytest.raises(AttributeError):
        made.q = state.q

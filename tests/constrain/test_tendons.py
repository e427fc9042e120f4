"""Tendons, and actuators on tendons and sites, against MuJoCo."""

import dataclasses

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import kinetree as kt
from kinetree.constrain.weights import inverse_weights
from kinetree.io import Mujoco
from tests.constrain.agreement import compiled, errors, ours, relative, states
from tests.constrain.strings import at_random, scene

CLOSE = 1e-9  # relative; 1e-12 is what is found


def test_lengths_and_jacobians():
    m = compiled(scene(inside=True))
    model = ours(m)
    q, length, J = at_random(m, model, 200)
    np.testing.assert_allclose(kt.tendon_length(model, q), length, atol=1e-12)
    found, inside = kt.tendon_jacobian(model, q), model.world.tendons.names.index("inside")
    np.testing.assert_allclose(np.delete(found, inside, 1), np.delete(J, inside, 1), atol=1e-12)
    np.testing.assert_allclose(found[:, inside], J[:, inside], atol=1e-6)  # MuJoCo finds the point to 6e-8
    # ours is the derivative of the length, inside too
    step = 1e-6
    for seed in range(3):
        v = np.random.default_rng(seed).standard_normal((len(q), model.nv))
        ahead, back = (kt.tendon_length(model, kt.integrate(model, q, s * v, step)) for s in (1.0, -1.0))
        slope = (ahead - back) / (2 * step)
        moved = np.abs(slope - (found @ v[..., None])[..., 0])
        assert np.quantile(moved, 0.99) < 1e-7  # the rest are states where a tendon begins to touch


def test_all_that_acts_along_tendons():
    m = compiled(scene())
    model = ours(m)
    reached = states(m, model, count=10, every=15, push=0.3, seed=2)
    found = errors(model, reached)
    assert max(found["qdd"], found["tau_constraint"], found["inverse"]) < CLOSE
    bare = model.replace(world=model.world.replace(tendons=None, equalities=None))
    alone = kt.constrained_dynamics(bare, reached.q, reached.qd, reached.tau)
    assert np.abs(alone.qdd - reached.qdd).max() > 1  # or nothing pulled


def driven(integrator):
    """The scene with actuators; states and controls every ten steps of a run, and MuJoCo's data there and a step on."""
    m = compiled(scene(actuators=True, integrator=integrator))
    model, data = ours(m), mujoco.MjData(m)
    rng, convention = np.random.default_rng(0), Mujoco(model)
    found = []
    for step in range(60):
        if step % 10 == 0:
            data.ctrl[:] = rng.uniform(-1, 1, m.nu)
        now = mujoco.MjData(m)
        now.qpos[:], now.qvel[:], now.act[:], now.ctrl[:] = data.qpos, data.qvel, data.act, data.ctrl
        mujoco.mj_step(m, data)
        if step % 10 == 9:
            mujoco.mj_forward(m, now)
            there = np.concatenate([data.qpos, data.qvel, data.act])
            before = now.qpos, now.qvel, now.act, now.ctrl, now.qfrc_actuator, now.sensordata
            found.append(tuple(x.copy() for x in (*before, there)))
    qpos, qvel, act, ctrl, force, sensed, after = map(np.stack, zip(*found, strict=True))
    q = convention.q_here(qpos)
    state = dataclasses.replace(kt.initial_state(model, q, convention.v_here(q, qvel)), act=act)
    return model, state, ctrl, convention.force_here(q, force), sensed, np.split(after, [m.nq, m.nq + m.nv], 1)


def test_actuators_on_tendons_and_sites():
    model, state, ctrl, force, sensed, _ = driven("Euler")
    assert relative(kt.actuator_force(model, state.q, state.qd, ctrl, state.act), force) < 1e-11
    seen = np.concatenate(list(kt.sensors(model, state, ctrl).values()), -1)
    np.testing.assert_allclose(seen, sensed, atol=1e-11)


@pytest.mark.thorough
@pytest.mark.parametrize("integrator", ["Euler", "implicitfast", "RK4"])
def test_a_step_with_actuators_on_tendons_and_sites(integrator):
    model, state, ctrl, _, _, (qpos, qvel, act) = driven(integrator)
    moved = kt.advance(model, state, ctrl)
    np.testing.assert_allclose(moved.q, qpos, atol=1e-10)
    np.testing.assert_allclose(moved.qd, Mujoco(model).v_here(moved.q, qvel), atol=1e-9)
    np.testing.assert_allclose(moved.act, act, atol=1e-12)


IN_CODE = """<mujoco><compiler angle="radian"/><worldbody>
  <body name="a"><joint name="a" axis="0 1 0"/><geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0"/>
    <geom name="disc" type="cylinder" size="0.05 0.1" pos="0.3 0 0" euler="1.5 0 0"/><site name="s" pos="0.3 0 0.1"/>
    <body name="b" pos="0.3 0 0"><joint name="b" axis="0 1 0"/><geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0"/>
    </body></body><site name="w" pos="0 0 0.2"/><site name="w2" pos="0 0.1 0.1"/></worldbody><tendon>
  <fixed name="sum" stiffness="3" springlength="0.1 0.2" range="-1 1" margin="0.1"><joint joint="a" coef="2"/>
    <joint joint="b" coef="-1"/></fixed>
  <spatial name="way" damping="1" frictionloss="0.2"><site site="w"/><site site="s"/><pulley divisor="2"/>
    <site site="s"/><geom geom="disc" sidesite="s"/><site site="w2"/></spatial></tendon>
  <actuator><motor name="pull" tendon="way" gear="3"/></actuator></mujoco>"""


def test_tendons_in_code_are_those_of_a_file():
    m = compiled(IN_CODE)
    file = ours(m)
    disc = m.geom("disc").id
    turn, place = m.geom_quat[disc], m.geom_pos[disc]
    code = kt.with_tendons(
        file.replace(world=file.world.replace(tendons=None)),
        [
            kt.Tendon(
                "sum", joints={"a": 2.0, "b": -1.0}, stiffness=3.0, spring_length=(0.1, 0.2), range=(-1, 1), margin=0.1
            ),
            kt.Tendon(
                "way",
                path=[
                    "w",
                    kt.Via("a", (0.3, 0, 0.1)),
                    kt.Pulley(2.0),
                    "s",
                    kt.Wrap("cylinder", 0.05, "a", place, turn, side="s"),
                    kt.Via(None, (0, 0.1, 0.1)),
                ],
                damping=1.0,
                friction=0.2,
            ),
        ],
    ).replace(actuators=[kt.Actuator.motor(tendon="way", gear=3.0, name="pull")])
    rng = np.random.default_rng(0)
    q = rng.standard_normal((4, 2))
    np.testing.assert_allclose(kt.tendon_length(code, q), kt.tendon_length(file, q), atol=1e-14)
    assert code.actuators.wiring.targets == file.actuators.wiring.targets
    for a, b in zip(code.world.tendons.pull, file.world.tendons.pull, strict=True):
        np.testing.assert_allclose(a[np.isfinite(b)], b[np.isfinite(b)])
    np.testing.assert_allclose(inverse_weights(code).tendon, m.tendon_invweight0, rtol=1e-12)
    assert kt.explain(code).constrained_dynamics.plan is not None


@pytest.mark.parametrize(
    ("tendon", "says"),
    [
        (kt.Tendon("t"), "either joints or a path"),
        (kt.Tendon("t", joints={"z": 1.0}), "no joint"),
        (kt.Tendon("t", path=["a"]), "ends at a point"),
        (kt.Tendon("t", path=["a", kt.Wrap("box", 1.0), "b"]), "sphere or a cylinder"),
        (kt.Tendon("t", path=["a", kt.Wrap("sphere", 1.0), "b"], armature=1.0), "armature"),
        (kt.Tendon("t", path=["a", kt.Pulley(2.0), "b"]), "pulley"),
    ],
)
def test_what_is_no_tendon(tendon, says):
    model = ours(compiled(IN_CODE))
    with pytest.raises(kt.ModelError, match=says):
        kt.with_tendons(model, [tendon])
    with pytest.raises(kt.ModelError, match="no tendon"):
        model.replace(actuators=[kt.Actuator.motor(tendon="z")])


def test_an_actuator_whose_tendon_is_gone():
    model = ours(compiled(IN_CODE))
    bare = model.replace(world=model.world.replace(tendons=None))
    with pytest.raises(kt.ModelError, match="does not have any more"):
        kt.actuator_force(bare, np.zeros(2), np.zeros(2), np.zeros(1))


@pytest.mark.thorough
def test_gradients_by_states_and_parameters():
    """By q, qd, and the stiffness and coefficients of tendons, against differences."""
    model = ours(compiled(IN_CODE))
    tendons = model.world.tendons
    rng = np.random.default_rng(1)
    weigh = rng.standard_normal(2)

    def value(q, qd, stiffness, coefficients, points):
        pull = tendons.pull._replace(stiffness=stiffness)
        own = dataclasses.replace(tendons, pull=pull, coefficients=coefficients, points=points)
        changed = model.replace(world=model.world.replace(tendons=own))
        return kt.constrained_dynamics(changed, q, qd, ctrl=np.ones(1)).qdd @ weigh

    given = (
        np.array([0.9, 0.4]),  # beyond the limit of the fixed tendon
        np.array([0.3, -0.2]),
        tendons.pull.stiffness + 1.0,
        tendons.coefficients.copy(),
        np.array(tendons.points),
    )
    with jax.enable_x64(True):
        given = tuple(jnp.asarray(x) for x in given)
        slopes = jax.grad(value, argnums=range(5))(*given)
        step = 1e-6
        for k, slope in enumerate(slopes):
            way = jnp.asarray(rng.standard_normal(given[k].shape))
            ahead, back = (value(*given[:k], given[k] + s * step * way, *given[k + 1 :]) for s in (1.0, -1.0))
            wanted = float(ahead - back) / (2 * step)
            assert abs(float((slope * way).sum()) - wanted) < 1e-6 * max(1.0, abs(wanted))


@pytest.mark.thorough
def test_single_precision_and_rollouts():
    """Steps in 32 bits follow those in 64; a rollout has the bits of steps one by one."""
    m = compiled(scene(actuators=True))
    model = ours(m)
    ctrl = np.random.default_rng(0).uniform(-1, 1, (5, m.nu))
    state = kt.initial_state(model)
    moved, _ = kt.rollout(model, state, ctrl, steps=5)
    for row in ctrl:
        state = kt.advance(model, state, row)
    np.testing.assert_array_equal(moved.q, state.q)
    small = kt.initial_state(model, np.asarray(kt.initial_state(model).q, np.float32))
    for row in ctrl.astype(np.float32):
        small = kt.advance(model, small, row)
    assert small.q.dtype == np.float32
    np.testing.assert_allclose(small.q, state.q, atol=1e-4)


@pytest.mark.parametrize("tendon", ["", '<spatial range="0 0.5"><site site="a"/><site site="b"/></spatial>'])
def test_a_world_where_nothing_moves(tendon):
    model = kt.load(
        f"""<mujoco><worldbody><site name="a"/><site name="b" pos="1 0 0"/><geom size="0.1"/></worldbody>
        <tendon>{tendon}</tendon></mujoco>"""
    )
    assert kt.constrained_dynamics(model, np.zeros(0), np.zeros(0)).qdd.shape == (0,)
    assert kt.advance(model, kt.initial_state(model)).time == model.timestep
    np.testing.assert_array_equal(kt.tendon_length(model, np.zeros(0)), [1.0] if tendon else [])


def test_tendons_that_do_nothing_cost_nothing():
    m = compiled(IN_CODE.replace('stiffness="3"', "").replace('range="-1 1"', "").replace('damping="1"', ""))
    m.tendon_frictionloss[:] = 0
    model = ours(m).without_actuators
    assert "native" in str(kt.explain(model).constrained_dynamics)
    assert "native" in str(kt.explain(model).advance)


def test_the_slope_of_a_spring_at_its_length_at_rest():
    """Most springs start there. The slope was zero, as a force of zero was left out; by XLA it was three quarters."""
    model = kt.load("""<mujoco><option gravity="0 0 0"/><worldbody><body><joint name="a" type="slide"/>
      <geom size=".1" mass="2"/></body></worldbody>
      <tendon><fixed stiffness="8"><joint joint="a" coef="0.5"/></fixed></tendon></mujoco>""")
    zero = jnp.zeros(1)
    np.testing.assert_allclose(jax.jacrev(lambda q: kt.constrained_dynamics(model, q, zero).qdd)(zero), [[-1.0]])
    slope = jax.jacrev(lambda q: kt.constrained_inverse_dynamics(model, q, zero, zero))(zero)
    np.testing.assert_allclose(slope, [[2.0]])

"""Robots, observations and rewards of the environments that gymnasium has too, on the states that it comes through."""

import gymnasium
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

import kinetree as kt
from kinetree import envs
from kinetree.io.converters import Mujoco
from tests.actuate.scenes import GYMNASIUM

NAMES = {
    "reacher": ("Reacher-v5", "reacher"),
    "half_cheetah": ("HalfCheetah-v5", "half_cheetah"),
    "ant": ("Ant-v5", "ant"),
    "humanoid": ("Humanoid-v5", "humanoid"),
}


@pytest.fixture(scope="module", params=NAMES)
def pair(request):
    name, file = NAMES[request.param]
    there = gymnasium.make(name).unwrapped
    there.model.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON  # the humanoid's file stops another one before it is done
    there.model.opt.tolerance = 1e-12
    yield envs.make(request.param), there, kt.load(GYMNASIUM / f"{file}.xml")
    there.close()


def test_the_robot_is_the_one_of_the_file(pair):
    env, _, file = pair
    model = env.model
    q, qd = kt.random_state(model, 0, (4,))
    np.testing.assert_allclose(kt.mass_matrix(model, q), kt.mass_matrix(file, q), rtol=1e-9, atol=1e-12)
    for function in (kt.bias_force, kt.passive_force):
        np.testing.assert_allclose(function(model, q, qd), function(file, q, qd), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(model.total_mass, file.total_mass)
    for part in ("lower", "upper"):
        np.testing.assert_allclose(getattr(model.limits, part), getattr(file.limits, part), atol=1e-15)
    ctrl = np.random.default_rng(0).uniform(-2, 2, (4, model.nu))
    forces = [kt.actuator_force(m, q, qd, ctrl) for m in (model, file)]
    np.testing.assert_allclose(*forces, atol=1e-9)
    assert model.actuator_names == file.actuator_names or len(set(file.actuator_names)) == model.nu
    assert (model.stepping.integrator, float(model.timestep)) == (file.stepping.integrator, float(file.timestep))
    np.testing.assert_allclose(kt.initial_state(model).q, kt.initial_state(file).q, atol=1e-15)
    moving = np.array([model.v_index(j).start for j in model.joint_names if model.v_index(j) != slice(0, 6)])
    for ours, theirs in zip(model.world.joints, file.world.joints, strict=True):
        np.testing.assert_allclose(ours[moving], theirs[moving])


@pytest.mark.parametrize("pair", ["half_cheetah", "ant", "humanoid"], indirect=True)
def test_it_touches_the_floor_as_the_file_does(pair):
    env, _, file = pair
    q, _ = kt.random_state(env.model, 1, (6,))
    q[:, 1 if env.model.nq == 9 else 2] = -3.0  # all of it is below the floor, so that all points are found
    ours, theirs = kt.contacts(env.model, q), kt.contacts(file, q)

    def ordered(found):  # contacts with the floor; moving bodies may touch one another besides
        floor = (np.asarray(found.bodies).reshape(-1, found.depth.shape[-1], 2)[0] < 0).any(-1)
        rows = np.concatenate([found.depth[:, floor, None], found.position[:, floor]], -1)
        assert np.isfinite(rows).all()
        return np.array([sorted(points, key=lambda p: tuple(np.round(p, 9))) for points in rows])

    np.testing.assert_allclose(ordered(ours), ordered(theirs), atol=1e-12)
    assert len(env.model.world.scene.layout.pairs) == len(file.world.scene.layout.pairs)
    touching = {pair.second for pair in file.world.scene.layout.pairs}
    for name in ("friction", "solref", "solimp", "margin"):
        a = getattr(env.model.world.scene.surfaces, name)
        b = getattr(file.world.scene.surfaces, name)
        np.testing.assert_allclose(a[0], b[0])
        np.testing.assert_allclose(a[1:], b[sorted(touching)][: len(a) - 1])


def state_there(there, convention):
    q = convention.q_here(np.array(there.data.qpos))
    return kt.State(
        *map(
            jnp.asarray,
            (q, convention.v_here(q, np.array(there.data.qvel)), np.zeros(0), 0.0, np.zeros(there.model.nv)),
        )
    )


def test_observations_and_rewards_are_gymnasiums(pair):
    """Along a run of theirs, with their states given to us."""
    env, there, _ = pair
    convention = Mujoco(env.model)
    rng = np.random.default_rng(0)
    observe, judge = jax.jit(env.observe), jax.jit(env.judge)
    first, _ = there.reset(seed=0)
    start = state_there(there, convention)
    seen = env.observe_first(start, jnp.zeros(there.model.nu), ())
    np.testing.assert_allclose(seen, first, atol=1e-3)  # the quaternion of their first state has not unit length
    touched = False
    for k in range(12):
        before = state_there(there, convention)
        action = rng.uniform(there.action_space.low, there.action_space.high)
        _, reward, over, _, info = there.step(action)
        mujoco.mj_forward(there.model, there.data)  # positions and forces at the state, not at the last stage of RK4
        mujoco.mj_rnePostConstraint(there.model, there.data)
        if "reward_contact" in info:
            reward += -there.contact_cost - info["reward_contact"]
            info["reward_contact"] = -there.contact_cost
            touched |= there.contact_cost > 0
        after = state_there(there, convention)
        np.testing.assert_allclose(observe(after, jnp.asarray(action), ()), there._get_obs(), rtol=1e-6, atol=1e-6)
        found, done, metrics = judge(before, jnp.asarray(action), after, ())
        # With RK4 its positions, before and after, are those of the last stage of a step.
        exact = env.model.stepping.integrator == "Euler"
        np.testing.assert_allclose(found, reward, atol=1e-9 if exact else 5e-2, err_msg=f"step {k}")
        assert bool(done) == over
        for name in set(metrics) & set(info) - {"x_velocity", "reward_forward", "reward_dist"}:
            np.testing.assert_allclose(metrics[name], info[name], rtol=1e-6, atol=1e-9)
    assert touched or not hasattr(there, "contact_cost"), "nothing touched the floor"


def test_spaces_are_gymnasiums(pair):
    env, there, _ = pair
    assert (env.observation_size,) == there.observation_space.shape
    low, high = env.action_range
    np.testing.assert_allclose(low, there.action_space.low)
    np.testing.assert_allclose(high, there.action_space.high)
    assert env.dt == pytest.approx(there.dt)

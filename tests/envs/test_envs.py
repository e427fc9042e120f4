"""What all environments promise: pure functions over batches, resets, time limits, noise, adapters."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import kinetree as kt
from kinetree import envs
from tests.simulate.robots import ROBOTS


def keys(n, seed=0):
    return jax.random.split(jax.random.key(seed), n)


@pytest.fixture(scope="module")
def env():
    return envs.make("cart_pole", time_limit=5)


def test_a_batch_is_worlds_side_by_side(env):
    """Steps of a batch, of single worlds, and of a scan."""
    reset = jax.jit(env.reset)
    start = reset(keys(3))
    assert start.obs.shape == (3, env.observation_size) == (3, 5)
    actions = np.random.default_rng(0).uniform(-1, 1, (4, 3, 1))
    state, singles = start, [reset(k) for k in keys(3)]
    step = jax.jit(env.step)
    for action in actions:
        state = step(state, action)
        singles = [step(s, a) for s, a in zip(singles, action, strict=True)]
    for k, single in enumerate(singles):
        np.testing.assert_allclose(single.obs, state.obs[k], atol=1e-12)
        np.testing.assert_allclose(single.reward, state.reward[k], atol=1e-12)
    end, rewards = jax.lax.scan(lambda s, a: ((s := env.step(s, a)), s.reward), start, jnp.asarray(actions))
    np.testing.assert_allclose(end.obs, state.obs, atol=1e-12)
    assert rewards.shape == (4, 3)
    legacy = env.reset(jax.random.PRNGKey(0))
    assert legacy.obs.shape == (5,)


def test_episodes_end_and_start_again(env):
    """By the time limit, and by themselves; what they saw last is kept."""
    step = jax.jit(env.step)
    state = jax.jit(env.reset)(keys(2))
    far = state.physics.replace(q=state.physics.q.at[1, 0].set(2.39), qd=state.physics.qd.at[1, 0].set(5.0))
    state = step(state.replace(physics=far), jnp.ones((2, 1)))
    np.testing.assert_array_equal(state.done, [False, True])
    np.testing.assert_array_equal(state.info["truncated"], False)
    np.testing.assert_array_equal(state.info["steps"], [1, 0])
    assert abs(state.info["final_obs"][1, 0]) > 1 > 10 * abs(state.obs[1, 0])
    for _ in range(4):
        state = step(state, jnp.zeros((2, 1)))
    np.testing.assert_array_equal(state.done, [True, False])
    np.testing.assert_array_equal(state.info["truncated"], [True, False])
    np.testing.assert_array_equal(state.physics.time[0], 0.0)
    endless = env.replace(auto_reset=False, time_limit=None)
    state = jax.jit(endless.reset)(keys(2))
    for _ in range(7):
        state = jax.jit(endless.step)(state, jnp.zeros((2, 1)))
    assert not state.done.any()
    np.testing.assert_allclose(state.physics.time, 7 * env.dt)


def test_observations_may_be_noisy(env):
    clean, noisy = (jax.jit(env.replace(noise=x).reset)(keys(2000)) for x in (0.0, 0.1))
    np.testing.assert_array_equal(clean.physics.q, noisy.physics.q)
    np.testing.assert_allclose((noisy.obs - clean.obs).std(0), 0.1, rtol=0.1)


def test_the_quadruped_is_that_of_the_examples():
    own = ROBOTS.parents[1] / "src" / "kinetree" / "envs" / "quadruped.urdf"
    assert own.read_bytes() == (ROBOTS / "quadruped.urdf").read_bytes()


def test_commands_change_on_time():
    env = envs.make("quadruped", command_steps=3)
    state = jax.jit(env.reset)(keys(4))
    assert state.obs.shape == (4, env.observation_size) == (4, 48)
    low = -kt.contacts(env.model, state.physics.q).depth.max(-1)
    assert (np.abs(low) < 0.05).all(), "it does not start on its feet"
    changed, task = [], state.info["task"]
    for k in range(9):
        before, task = task, env.next_task(keys(4, k + 1), state.physics, task)
        changed.append(bool((task["command"] != before["command"]).any()))
    assert changed == [False, False, True] * 3
    still = jax.jit(envs.make("quadruped", command=(0.5, 0.0, 0.0)).reset)(keys(1)[0])
    np.testing.assert_array_equal(still.info["task"]["command"], [0.5, 0, 0])


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_gymnasium_accepts_one_world(env):
    one = envs.to_gymnasium(env)
    check_env(one, skip_render_check=True)
    first, _ = one.reset(seed=3)
    steps = [one.step(np.zeros(1, np.float32)) for _ in range(5)]
    assert [late for _, _, _, late, _ in steps] == [False] * 4 + [True]
    again, _ = one.reset(seed=3)
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("mode", list(AutoresetMode)[:2])
def test_gymnasium_accepts_many_worlds(env, mode):
    many = envs.to_gymnasium(env, 3, autoreset_mode=mode)
    assert isinstance(many, gymnasium.vector.VectorEnv)
    assert many.metadata["autoreset_mode"] is mode
    seen, _ = many.reset(seed=1)
    assert seen in many.observation_space
    assert seen.flags.writeable  # PyTorch warns of arrays that are not.
    recorded = gymnasium.wrappers.vector.RecordEpisodeStatistics(many)
    recorded.reset(seed=1)
    many.action_space.seed(0)
    same = mode is AutoresetMode.SAME_STEP
    for k in range(1, 12):
        seen, rewards, over, late, infos = recorded.step(many.action_space.sample())
        assert seen in many.observation_space
        assert seen.flags.writeable
        assert rewards.shape == over.shape == late.shape == (3,)
        assert late.all() == (k % (5 if same else 6) == (0 if same else 5))
        ended = over | late
        assert ("final_obs" in infos) == ("final_info" in infos) == (same and bool(ended.any()))
        if "final_info" in infos:
            np.testing.assert_array_equal(infos["_final_info"], ended)
            assert set(infos["final_info"]) == {x for name in many.state.metrics for x in (name, f"_{name}")}
        if not same and k == 6:  # the step that starts again
            assert not rewards.any()
            np.testing.assert_array_equal(many.state.info["steps"], 0)
            assert len(np.unique(seen[:, 1])) == 3
    np.testing.assert_array_equal(list(recorded.length_queue), 5)


def test_a_script_may_start_worlds_again_by_itself(env):
    """gymnasium's third mode: worlds that a mask names start again, the others go on."""
    name = "kinetree.envs.registered:kinetree/cart_pole-v0"
    many = gymnasium.make_vec(name, 3, time_limit=5, autoreset_mode="Disabled")
    assert many.metadata["autoreset_mode"] is AutoresetMode.DISABLED
    chosen = np.array([True, False, True])
    with pytest.raises(RuntimeError, match="without a reset_mask first"):
        many.reset(options={"reset_mask": chosen})
    recorded = gymnasium.wrappers.vector.RecordEpisodeStatistics(many)
    recorded.reset(seed=1)
    for _ in range(5):
        before, _, _, late, _ = recorded.step(np.zeros((3, 1), np.float32))
    assert late.all()
    after, _ = recorded.reset(seed=2, options={"reset_mask": chosen})
    np.testing.assert_array_equal((after == before).all(1), ~chosen)
    np.testing.assert_array_equal(many.unwrapped.state.info["steps"], [0, 5, 0])
    with pytest.raises(ValueError, match="must be 3 truth values"):
        many.reset(options={"reset_mask": np.ones(2, bool)})


@pytest.mark.cpu
def test_tensors_share_memory(env):
    """With NumPy in the place of PyTorch: both speak DLPack."""
    learner = envs.TorchEnv(env, 4, from_dlpack=np.from_dlpack)
    seen = learner.reset(seed=2)
    assert seen.shape == (4, 5)
    assert np.shares_memory(seen, np.asarray(learner.state.obs))
    seen, reward, done, more = learner.step(np.zeros((4, 1), np.float32))
    assert isinstance(reward, np.ndarray)
    assert done.dtype == bool
    assert more["final_obs"].shape == seen.shape


def test_unknown_names_are_told():
    with pytest.raises(ValueError, match="unknown environment 'cheetah'"):
        envs.make("cheetah")


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["half_cheetah", "ant", "quadruped", "humanoid", "reacher"])
def test_robots_move_and_stay_finite(name):
    env = envs.make(name)
    state, step = jax.jit(env.reset)(keys(4)), jax.jit(env.step)
    low, high = env.action_range
    rng = np.random.default_rng(0)
    for _ in range(40):
        state = step(state, rng.uniform(low, high, (4, env.action_size)))
        assert np.isfinite(state.obs).all()
        assert np.isfinite(state.reward).all()


@pytest.mark.parametrize("key", [0, None, np.int64(3), np.zeros(2), "seed"])
def test_a_seed_is_no_key(key):
    with pytest.raises(TypeError, match=r"key must be of jax\.random, such as jax\.random\.key\(0\)"):
        envs.make("cart_pole").reset(key)

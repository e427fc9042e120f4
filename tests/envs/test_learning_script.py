"""A learner for gymnasium's vectors, as people write them (CleanRL's loop, in NumPy), runs unchanged on ours."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from kinetree import envs

WORLDS, STEPS = 8, 12


def wrapped(vector):
    """The wrappers that such scripts put around a vector."""
    vector = gymnasium.wrappers.vector.RecordEpisodeStatistics(vector)
    vector = gymnasium.wrappers.vector.ClipAction(vector)
    vector = gymnasium.wrappers.vector.NormalizeObservation(vector)
    vector = gymnasium.wrappers.vector.TransformObservation(vector, lambda obs: np.clip(obs, -10, 10))
    return gymnasium.wrappers.vector.NormalizeReward(vector, gamma=0.99)


def many():
    return envs.to_gymnasium(envs.make("cart_pole", time_limit=5), WORLDS)


def one_by_one():
    env = envs.make("cart_pole", time_limit=5)
    return gymnasium.vector.SyncVectorEnv([lambda: envs.to_gymnasium(env)] * 2)


def by_name():
    return gymnasium.make_vec("kinetree.envs.registered:kinetree/cart_pole-v0", WORLDS, time_limit=5)


@pytest.mark.thorough
@pytest.mark.parametrize("name", list(envs.ENVS))
@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_every_environment_has_a_name(name):
    """As scripts make them, one world and several, and gymnasium's own checks pass."""
    one = gymnasium.make(f"kinetree.envs.registered:kinetree/{name}-v0", disable_env_checker=True)
    check_env(one.unwrapped, skip_render_check=True)
    many = gymnasium.make_vec(f"kinetree/{name}-v0", 3, vectorization_mode="vector_entry_point")
    seen, _ = many.reset(seed=0)
    assert seen in many.observation_space
    seen, rewards, *_ = many.step(many.action_space.sample())
    assert seen in many.observation_space
    assert np.isfinite(rewards).all()


@pytest.mark.parametrize("make", [many, one_by_one, by_name])
def test_a_policy_gradient_script_runs(make):
    """Spaces, resets, bootstrapping at the time limit, statistics: what a script uses of a vector."""
    vector = wrapped(make())
    worlds = vector.num_envs
    assert isinstance(vector.single_action_space, gymnasium.spaces.Box)
    size = int(np.prod(vector.single_observation_space.shape))
    acts = int(np.prod(vector.single_action_space.shape))
    rng = np.random.default_rng(0)
    mean, value = np.zeros((size, acts)), np.zeros(size)
    obs, _ = vector.reset(seed=1)
    finished = []
    for _ in range(STEPS):
        noise = rng.normal(size=(worlds, acts))
        after, reward, over, late, infos = vector.step((obs @ mean + noise).astype(np.float32))
        if "episode" in infos:
            done = infos["_episode"]
            finished += list(infos["episode"]["r"][done])
        gain = reward + 0.99 * np.where(over, 0.0, after @ value) - obs @ value
        mean += 1e-3 * np.einsum("w,wa,wo->oa", gain, noise, obs) / worlds
        value += 1e-2 * (gain[:, None] * obs).mean(0)
        obs = after
        assert obs.shape == (worlds, size)
        assert over.dtype == late.dtype == bool
    assert len(finished) >= worlds
    assert np.isfinite(mean).all()
    assert np.isfinite(finished).all()
    vector.close()

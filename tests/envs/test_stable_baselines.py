"""Worlds as Stable-Baselines3's `VecEnv`. The library needs PyTorch; where it is missing, a stand-in has its base."""

import importlib.util
import sys
import types

import numpy as np
import pytest

from kinetree import envs

WORLDS, LIMIT = 3, 4


class VecEnv:
    """What Stable-Baselines3's own base does that the adapter relies on."""

    def __init__(self, num_envs, observation_space, action_space):
        self.num_envs, self.observation_space, self.action_space = num_envs, observation_space, action_space
        (self.render_mode,) = set(self.get_attr("render_mode"))
        self._reset_seeds()

    def _reset_seeds(self):
        self._seeds = [None] * self.num_envs

    def seed(self, seed):
        self._seeds = [seed + k for k in range(self.num_envs)]

    def step(self, actions):
        self.step_async(actions)
        return self.step_wait()


@pytest.fixture(autouse=True)
def library(monkeypatch):
    if importlib.util.find_spec("stable_baselines3") is None:
        for name in ("stable_baselines3", "stable_baselines3.common", "stable_baselines3.common.vec_env"):
            monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
        sys.modules["stable_baselines3.common.vec_env"].VecEnv = VecEnv
        monkeypatch.delitem(sys.modules, "kinetree.envs.stable_baselines_adapter", raising=False)
        yield
        sys.modules.pop("kinetree.envs.stable_baselines_adapter", None)
    else:
        yield


def test_worlds_step_as_those_of_gymnasium():
    """The same numbers; the end of an episode is told in each world's info."""
    task = envs.make("cart_pole", time_limit=LIMIT)
    stable = envs.to_stable_baselines(task, WORLDS)
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (LIMIT + 1, WORLDS, task.action_size)).astype(np.float32)
    expected = [stable.worlds.reset(seed=7)[0], *map(stable.worlds.step, actions)]
    stable.seed(7)
    assert (stable.reset() == expected[0]).all()
    for step, action in enumerate(actions):
        obs, reward, done, infos = stable.step(action)
        places, rewards, _, late, told = expected[1 + step]
        assert (obs == places).all()
        assert reward == pytest.approx(rewards)
        assert (done == (step == LIMIT - 1)).all()
        for k, info in enumerate(infos):
            assert info["upright"] == told["upright"][k]
            assert ("terminal_observation" in info) == done[k]
            if done[k]:
                assert info["TimeLimit.truncated"] is bool(late[k]) is True
                assert (info["terminal_observation"] == told["final_obs"][k]).all()


def test_what_learners_ask_of_worlds():
    task = envs.make("cart_pole")
    stable = envs.to_stable_baselines(task, WORLDS)
    assert stable.get_attr("observation_size") == [task.observation_size] * WORLDS
    assert stable.get_attr("action_size", [0, 2]) == [task.action_size] * 2
    assert stable.env_is_wrapped(object, 1) == [False]
    with pytest.raises(NotImplementedError, match="does not change"):
        stable.set_attr("time_limit", 3)
